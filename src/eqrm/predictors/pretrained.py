"""Weights from files: read without executing anything, and put into a featurizer.

Files of this kind come from the web. A ``.pth`` file is a pickle, so it is read with
``weights_only=True``: tensors and plain containers pass, everything else is refused.
"""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import torch
from torch import Tensor, nn

from eqrm.errors import DataFileError, MissingExtraError
from eqrm.files.reading import refuse_zip_growth

COUNTERS = ".num_batches_tracked"
"""Buffers that old files lack and that nothing here uses."""


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a ``.safetensors``, ``.pth`` or ``.pt`` file, by name.

    A state dict that a training script wrapped (``{"state_dict": …}``, names that begin with
    ``module.``) is unwrapped.

    >>> read_weights("resnet50.pth")
    Traceback (most recent call last):
        ...
    eqrm.errors.DataFileError: The weights file 'resnet50.pth' does not exist. ...
    """
    path = Path(path)
    if not path.is_file():
        raise DataFileError(
            f"The weights file {str(path)!r} does not exist. Give the path of a .safetensors or "
            ".pth file that holds a state dict."
        )
    loaded = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    return _unwrapped(loaded, path)


def _read_safetensors(path: Path) -> object:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataFileError(
            f"{str(path)!r} cannot be read as a safetensors file ({error}). It may be damaged, or "
            "its download incomplete."
        ) from None


def _read_pickle(path: Path) -> object:
    refuse_zip_growth(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).splitlines()[0]
        raise DataFileError(
            f"{str(path)!r} is refused: it is damaged, or holds more than tensors, and reading "
            f"that could execute code. Save the state dict alone. ({reason})"
        ) from None
    except (RuntimeError, EOFError, BadZipFile, OSError, ValueError, KeyError) as error:
        raise DataFileError(
            f"{str(path)!r} cannot be read as a file of weights "
            f"({str(error).splitlines()[0] if str(error) else type(error).__name__}). It may be "
            "damaged, or its download incomplete."
        ) from None


def _unwrapped(loaded: object, path: Path) -> dict[str, Tensor]:
    for wrapper in ("state_dict", "model"):
        if isinstance(loaded, Mapping) and isinstance(loaded.get(wrapper), Mapping):
            loaded = loaded[wrapper]
    if not isinstance(loaded, Mapping) or not all(isinstance(v, Tensor) for v in loaded.values()):
        raise DataFileError(
            f"{str(path)!r} does not hold a state dict (names and tensors), got a "
            f"{type(loaded).__name__}. Save model.state_dict()."
        )
    return {str(name).removeprefix("module."): tensor for name, tensor in loaded.items()}


def load_weights(
    network: nn.Module, weights: Mapping[str, Tensor], *, drop: str, source: str
) -> None:
    """Put weights into a network, leaving out the old last layer (names that begin with ``drop``).

    Every name and shape must fit: partly loaded weights would look like a bad training run.
    """
    own = network.state_dict()
    given = {name: t for name, t in weights.items() if not name.startswith(drop)}
    missing = [n for n in own if n not in given and not n.endswith(COUNTERS)]
    unknown = [n for n in given if n not in own and not n.endswith(COUNTERS)]
    if missing or unknown:
        raise DataFileError(
            f"The weights of {source!r} belong to another network: of {len(own)} tensors needed "
            f"{len(missing)} are missing{_first(missing)}, and {len(unknown)} of those given are "
            f"unknown{_first(unknown)}."
        )
    for name, tensor in given.items():
        if name in own and tensor.shape != own[name].shape:
            raise DataFileError(
                f"The weights of {source!r} belong to another network: {name!r} has shape "
                f"{tuple(tensor.shape)}, and {tuple(own[name].shape)} is needed."
            )
    network.load_state_dict({name: given.get(name, tensor) for name, tensor in own.items()})


def _first(names: list[str]) -> str:
    return f" (the first: {names[0]!r})" if names else ""


def package_weights(package: str, extra: str, purpose: str) -> Path:
    """The file of weights inside an installed package; the package's own code is not run.

    >>> package_weights("no-such-weights", "images", "A pretrained network")
    Traceback (most recent call last):
        ...
    eqrm.errors.MissingExtraError: A pretrained network needs 'no-such-weights', ...
    """
    spec = importlib.util.find_spec(package.replace("-", "_"))
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    files = [file for place in places for file in sorted(Path(place).glob("models/*.pth"))]
    if not files:
        raise MissingExtraError(package, extra, purpose)
    return files[0]
