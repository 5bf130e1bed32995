"""What image networks share: pixels, frozen batch norm, any number of channels, known weights."""

from __future__ import annotations

import copy
import importlib.util
import math
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from eqrm.errors import DataFileError, MissingExtraError
from eqrm.execution import being_transformed, has_kernels
from eqrm.files.reading import DAMAGES, refuse_zip_growth

Network = TypeVar("Network", bound=nn.Module)
Convolution = TypeVar("Convolution", bound=nn.Conv2d)
Padding = tuple[int, int, int, int]
"""Pixels on the left, on the right, above and below."""


def as_fractions(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Bytes from 0 to 255 as numbers from 0 to 1; other images as they are."""
    return images.to(dtype) / 255.0 if images.dtype == torch.uint8 else images


class Fractions(nn.Module):
    """The first layer of networks that take images: see :func:`as_fractions`."""

    def forward(self, images: Tensor) -> Tensor:
        return as_fractions(images)


class ImageScaling(nn.Module):
    """(x − mean)/std per channel, for images in [0, 1] or as bytes from 0 to 255."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        shape = (1, len(mean), 1, 1)
        self.register_buffer("mean", torch.tensor(mean).reshape(shape), persistent=False)
        self.register_buffer("std", torch.tensor(std).reshape(shape), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return (as_fractions(images, self.mean.dtype) - self.mean) / self.std


class FrozenBatchNorm(_BatchNorm):
    """Batch norm that uses its running statistics in training too, and never moves them.

    A batch of several domains has statistics that no single domain has, so fine-tuning keeps
    those of pretraining (as DomainBed does). Scale and shift are trained. The state dict has
    the same keys as that of the batch norm it stands for.
    """

    @classmethod
    def of(cls, layer: _BatchNorm) -> FrozenBatchNorm:
        frozen = cls(layer.num_features, layer.eps, layer.momentum, layer.affine)
        frozen = frozen.to(layer.running_mean.device, layer.running_mean.dtype)  # type: ignore[union-attr]
        frozen.load_state_dict(layer.state_dict())
        return frozen

    def forward(self, input: Tensor) -> Tensor:
        """(input − running mean)/√(running variance + ε)·scale + shift."""
        return self.cut(input, None)

    def cut(self, input: Tensor, highest: float | None, padding: Padding = (0, 0, 0, 0)) -> Tensor:
        """The same, cut off below 0 and above ``highest`` (None for no cutting), and padded."""
        own = self.weight, self.bias, self.running_mean, self.running_var
        last = input.ndim == 4 and input.is_contiguous(memory_format=torch.channels_last)
        if self.affine and last and has_kernels(input) and not being_transformed():
            from eqrm.gpu.frozen_norm import FrozenNorm

            found: Tensor = FrozenNorm.apply(input, *own, self.eps, highest, padding)  # type: ignore[no-untyped-call]
            return found
        weight, bias, mean, variance = own
        y = functional.batch_norm(input, mean, variance, weight, bias, eps=self.eps)
        return padded(y if highest is None else rectified(y, highest), padding)


def rectified(values: Tensor, highest: float = math.inf) -> Tensor:
    """ReLU, or ReLU6 where the highest value is 6, in place of the values."""
    if math.isinf(highest):
        return functional.relu(values, inplace=True)
    return functional.hardtanh(values, 0.0, highest, inplace=True)


def padded(images: Tensor, padding: Padding) -> Tensor:
    """Zeros on the left, on the right, above and below; the same images where there are none."""
    return functional.pad(images, padding) if any(padding) else images


def norm_rectified(
    norm: nn.Module,
    images: Tensor,
    highest: float = math.inf,
    padding: Padding = (0, 0, 0, 0),
) -> Tensor:
    """:func:`rectified` after a norm, then :func:`padded`; in one pass on a GPU where the norm is
    frozen."""
    if isinstance(norm, FrozenBatchNorm):
        return norm.cut(images, highest, padding)
    return padded(rectified(norm(images), highest), padding)


def freeze_batch_norm(network: Network) -> Network:
    """Replace every batch norm inside a network by a frozen one; returns the network."""
    for name, child in network.named_children():
        if isinstance(child, _BatchNorm) and not isinstance(child, FrozenBatchNorm):
            if child.track_running_stats:
                setattr(network, name, FrozenBatchNorm.of(child))
        else:
            freeze_batch_norm(child)
    return network


def with_channels(layer: Convolution, channels: int) -> Convolution:
    """The first convolution for another number of channels, its weights repeated over them."""
    wider = copy.deepcopy(layer)
    wider.in_channels = channels
    repeated = [channel % layer.in_channels for channel in range(channels)]
    wider.weight = nn.Parameter(layer.weight.detach()[:, repeated])
    return wider


def image_featurizer(
    features: nn.Module, scaling: ImageScaling | None, frozen: bool, dropout: float
) -> nn.Sequential:
    """Scaling, then the features, then dropout; batch norm frozen if asked for."""
    if frozen:
        freeze_batch_norm(features)
    last = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(scaling or Fractions(), features, *last)


COUNTERS = ".num_batches_tracked"
"""Buffers that old files lack and that nothing here uses."""


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a ``.safetensors``, ``.pth`` or ``.pt`` file, by name.

    A state dict that a training script wrapped (``{"state_dict": …}``, names that begin with
    ``module.``) is unwrapped.
    """
    path = Path(path)
    if not path.is_file():
        raise DataFileError(
            f"The weights file {str(path)!r} does not exist. Give the path of a .safetensors or "
            ".pth file that holds a state dict."
        )
    refuse_zip_growth(path)
    loaded: Any
    try:
        if path.suffix == ".safetensors":
            loaded = load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise DataFileError(
            f"{str(path)!r} is refused: it is damaged, or holds more than tensors, and reading "
            f"that could execute code. Save the state dict alone. ({str(error).splitlines()[0]})"
        ) from None
    except (SafetensorError, *DAMAGES, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataFileError(
            f"{str(path)!r} cannot be read as a file of weights ({reason}). It may be damaged, or "
            "its download incomplete."
        ) from None
    for wrapper in ("state_dict", "model"):
        if isinstance(loaded, Mapping) and isinstance(loaded.get(wrapper), Mapping):
            loaded = loaded[wrapper]
    if not isinstance(loaded, Mapping) or not all(isinstance(v, Tensor) for v in loaded.values()):
        raise DataFileError(
            f"{str(path)!r} does not hold a state dict (names and tensors), got a "
            f"{type(loaded).__name__}. Save model.state_dict()."
        )
    return {str(name).removeprefix("module."): tensor for name, tensor in loaded.items()}


def load_weights(network: nn.Module, weights: Mapping[str, Tensor], *, source: str) -> None:
    """Put weights into a network, leaving out the old last layer (names that begin with ``fc.``).

    Every name and shape must fit: partly loaded weights would look like a bad training run.
    """
    own = network.state_dict()
    given = {name: t for name, t in weights.items() if not name.startswith("fc.")}
    missing = [n for n in own if n not in given and not n.endswith(COUNTERS)]
    unknown = [n for n in given if n not in own and not n.endswith(COUNTERS)]
    other = [n for n, tensor in given.items() if n in own and tensor.shape != own[n].shape]
    if missing or unknown or other:
        problems = {"missing": missing, "unknown": unknown, "of another shape": other}
        told = [f"{len(n)} are {what} (such as {n[0]!r})" for what, n in problems.items() if n]
        raise DataFileError(
            f"The weights of {source!r} belong to another network: of {len(own)} tensors needed, "
            f"{' and '.join(told)}."
        )
    network.load_state_dict({name: given.get(name, tensor) for name, tensor in own.items()})


def package_weights(package: str, purpose: str) -> Path:
    """The file of weights inside an installed package; the package's own code is not run."""
    spec = importlib.util.find_spec(package.replace("-", "_"))
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    files = [file for place in places for file in sorted(Path(place).glob("models/*.pth"))]
    if not files:
        raise MissingExtraError(package, "images", purpose)
    return files[0]
