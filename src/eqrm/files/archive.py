"""Tensors and plain data in one safetensors file, with a digest of both.

The data is JSON in the header of the file. Neither JSON nor tensors can hold code, so nothing
that is read can run, and the digest tells whether anything in the file was changed, which
safetensors itself would not notice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from eqrm.errors import DataFileError
from eqrm.files.writing import whole_file

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Archive:
    """What a file holds: its format, plain data and tensors by name."""

    format: str
    content: Any
    tensors: dict[str, Tensor]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The tensors as numpy arrays."""
        return {name: tensor.numpy() for name, tensor in self.tensors.items()}


def write_archive(
    path: Path,
    format: str,
    content: Any,
    tensors: Mapping[str, Tensor | NDArray[Any]],
    *,
    durable: bool = False,
) -> None:
    """Write plain data (anything that JSON can represent) and tensors, atomically.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "kept.safetensors"
    >>> write_archive(path, "numbers 1", {"step": 3}, {"weight": torch.ones(2)})
    >>> read_archive(path, "numbers 1", "a file of numbers").content
    {'step': 3}
    """
    text = json.dumps(content, ensure_ascii=False)
    kept = {name: _as_tensor(value) for name, value in tensors.items()}
    metadata = {"format": format, "content": text, "sha256": content_digest(text, kept)}
    with whole_file(path, durable=durable) as draft:
        save_tensors(kept, draft, metadata)


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: Mapping[str, str]) -> None:
    """As safetensors does, but the same content always gives the same bytes.

    safetensors writes the metadata in an order that differs from one time to the next.
    """
    save_file(tensors, path, dict(metadata))
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(metadata.items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        file.seek(8)
        file.write(text.ljust(size))


def read_archive(
    path: Path,
    format: str,
    what: str,
    *,
    remedy: str = "",
    error: Callable[[str], Exception] = DataFileError,
) -> Archive:
    """What :func:`write_archive` wrote in this format.

    ``what`` names the kind of file in errors, and ``remedy`` says what to do about one that is
    damaged or foreign. ``error`` is the class of the errors.
    """
    if not path.is_file():
        raise error(f"The file {path} does not exist.")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except PermissionError:
        raise error(f"{path} cannot be read: permission denied.") from None
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError):
        # What safetensors says is about the bytes of a header, and helps nobody here.
        raise error(f"{path} is not {what}, or it is damaged. {remedy}".strip()) from None
    found = header.get("format", "")
    if found != format:
        raise error(f"{_about_format(path, found, format, what)} {remedy}".strip())
    text = header.get("content", "")
    if header.get("sha256") != content_digest(text, tensors):
        raise error(f"{path} is damaged: its content does not match its checksum. {remedy}".strip())
    try:
        return Archive(found, json.loads(text), tensors)
    except (ValueError, RecursionError):
        raise error(f"{path} is damaged: its description is not JSON. {remedy}".strip()) from None


def _about_format(path: Path, found: str, known: str, what: str) -> str:
    if found.rpartition(" ")[0] == known.rpartition(" ")[0]:
        return (
            f"{path} has the format {found!r}, written by another version of eqrm; this version "
            f"reads {known!r}."
        )
    return f"{path} is not {what}."


def _as_tensor(value: Tensor | NDArray[Any]) -> Tensor:
    tensor = (
        torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value
    )
    return tensor.detach().cpu().contiguous()


def content_digest(text: str, tensors: Tensors) -> str:
    """SHA-256 over the text and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
