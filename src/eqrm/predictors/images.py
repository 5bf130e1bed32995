"""What image networks share: pixels as numbers, frozen batch norm, any number of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from eqrm.execution import being_transformed, has_kernels

Network = TypeVar("Network", bound=nn.Module)
Padding = tuple[int, int, int, int]
"""Pixels on the left, on the right, above and below."""


def as_fractions(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Bytes from 0 to 255 as numbers from 0 to 1; other images as they are.

    >>> as_fractions(torch.tensor([51, 255], dtype=torch.uint8))
    tensor([0.2000, 1.0000])
    """
    return images.to(dtype) / 255.0 if images.dtype == torch.uint8 else images


class Fractions(nn.Module):
    """The first layer of networks that take images: see :func:`as_fractions`."""

    def forward(self, images: Tensor) -> Tensor:
        """Images in [0, 1]."""
        return as_fractions(images)


class ImageScaling(nn.Module):
    """(x − mean)/std per channel, for images in [0, 1] or as bytes from 0 to 255.

    It is part of the predictor, because which numbers are right depends on the weights and not
    on the data. Bytes stay bytes until they are on the device, at a quarter of the memory.

    >>> ImageScaling([0.5], [0.5])(torch.tensor([[[[0.0, 1.0]]]])).flatten()
    tensor([-1.,  1.])
    >>> ImageScaling([0.0], [1.0])(torch.tensor([[[[51]]]], dtype=torch.uint8)).flatten()
    tensor([0.2000])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        shape = (1, len(mean), 1, 1)
        self.register_buffer("mean", torch.tensor(mean).reshape(shape), persistent=False)
        self.register_buffer("std", torch.tensor(std).reshape(shape), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Scaled images, (n, channels, height, width), in the dtype of the statistics."""
        return (as_fractions(images, self.mean.dtype) - self.mean) / self.std


class FrozenBatchNorm(_BatchNorm):
    """Batch norm that uses its running statistics in training too, and never moves them.

    A batch of several domains has statistics that no single domain has, so fine-tuning keeps
    those of pretraining (as DomainBed does). Scale and shift are trained. The state dict has
    the same keys as that of the batch norm it stands for.
    """

    @classmethod
    def of(cls, layer: _BatchNorm) -> FrozenBatchNorm:
        """A frozen layer with the parameters and statistics of ``layer``."""
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
        if self.affine and input.ndim == 4 and _in_channels_last(input):
            from eqrm.gpu.frozen_norm import FrozenNorm

            found: Tensor = FrozenNorm.apply(input, *own, self.eps, highest, padding)  # type: ignore[no-untyped-call]
            return found
        weight, bias, mean, variance = own
        y = functional.batch_norm(input, mean, variance, weight, bias, eps=self.eps)
        return padded(y if highest is None else rectified(y, highest), padding)


def _in_channels_last(images: Tensor) -> bool:
    """Whether images have the kernels of a GPU, and the memory format that these are for."""
    return (
        has_kernels(images)
        and not being_transformed()
        and images.is_contiguous(memory_format=torch.channels_last)
    )


def rectified(values: Tensor, highest: float) -> Tensor:
    """ReLU, or ReLU6 where the highest value is 6, in place of the values.

    >>> rectified(torch.tensor([-1.0, 7.0]), 6.0)
    tensor([0., 6.])
    """
    if math.isinf(highest):
        return functional.relu(values, inplace=True)
    return functional.hardtanh(values, 0.0, highest, inplace=True)


def padded(images: Tensor, padding: Padding) -> Tensor:
    """Zeros on the left, on the right, above and below; the same images where there are none.

    >>> padded(torch.ones(1, 1, 1, 2), (0, 1, 0, 0)).flatten()
    tensor([1., 1., 0.])
    """
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
    """Replace every batch norm inside a network by a frozen one; returns the network.

    >>> network = freeze_batch_norm(nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8)))
    >>> [type(layer).__name__ for layer in network]
    ['Conv2d', 'FrozenBatchNorm']
    """
    for name, child in network.named_children():
        if isinstance(child, _BatchNorm) and not isinstance(child, FrozenBatchNorm):
            if child.track_running_stats:
                setattr(network, name, FrozenBatchNorm.of(child))
        else:
            freeze_batch_norm(child)
    return network


def with_channels(layer: nn.Conv2d, channels: int) -> nn.Conv2d:
    """The first convolution for another number of channels, its weights repeated over them.

    >>> with_channels(nn.Conv2d(3, 8, 7, bias=False), channels=5).weight.shape
    torch.Size([8, 5, 7, 7])
    """
    wider = nn.Conv2d(
        channels,
        layer.out_channels,
        layer.kernel_size,  # type: ignore[arg-type]
        layer.stride,  # type: ignore[arg-type]
        layer.padding,  # type: ignore[arg-type]
        bias=False,
    )
    with torch.no_grad():
        wider.weight.copy_(layer.weight[:, [i % layer.in_channels for i in range(channels)]])
    return wider


def image_featurizer(
    features: nn.Module, scaling: ImageScaling | None, frozen: bool, dropout: float
) -> nn.Sequential:
    """Scaling, then the features, then dropout; batch norm frozen if asked for."""
    if frozen:
        freeze_batch_norm(features)
    last = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(scaling or Fractions(), features, *last)
