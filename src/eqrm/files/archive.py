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
from safetensors.torch import save
from torch import Tensor

from eqrm.errors import DataFileError
from eqrm.files.writing import whole_file
from eqrm.level import Level
from eqrm.text import shortened

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Archive:
    """What a file holds: plain data and tensors by name."""

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
    """Write plain data (anything that JSON can represent) and tensors, atomically."""
    text = json.dumps(content, ensure_ascii=False)
    kept = {name: _as_tensor(value) for name, value in tensors.items()}
    metadata = {"format": format, "content": text, "sha256": content_digest(text, kept)}
    with whole_file(path, durable=durable) as draft:
        save_tensors(kept, draft, metadata)


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: Mapping[str, str]) -> None:
    """As safetensors does, but the same content always gives the same bytes (metadata in order).

    Written by Python, whose errors say that a disk is full.
    """
    content = memoryview(save(tensors, dict(metadata)))
    size = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(bytes(content[8:size]))
    header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    with path.open("wb") as file:
        file.writelines([content[:8], text.ljust(size - 8), content[size:]])


def read_archive(
    path: Path,
    format: str,
    what: str,
    *,
    remedy: str = "",
    error: Callable[[str], Exception] = DataFileError,
) -> Archive:
    """What :func:`write_archive` wrote in this format.

    ``what`` names the kind of file in errors, which are of the class ``error``; ``remedy`` says
    what to do.
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
        same_kind = found.rpartition(" ")[0] == format.rpartition(" ")[0]
        why = (
            f"has the format {found!r}, written by another version of eqrm; this version reads "
            f"{format!r}"
        )
        raise error(f"{path} {why if same_kind else f'is not {what}'}. {remedy}".strip())
    text = header.get("content", "")
    if header.get("sha256") != content_digest(text, tensors):
        raise error(f"{path} is damaged: its content does not match its checksum. {remedy}".strip())
    try:
        return Archive(json.loads(text), tensors)
    except (ValueError, RecursionError):
        raise error(f"{path} is damaged: its description is not JSON. {remedy}".strip()) from None


def flatten(value: Any, path: str = "state") -> tuple[Any, dict[str, Tensor]]:
    """A nested value as JSON that describes it, and its tensors by path.

    Beside what JSON has, a value may hold tensors, arrays of numbers, tuples, levels, numbers that
    are not finite, and dicts with keys that are not strings. Every container becomes a list whose
    first element says what it is, so that no content can be mistaken for a description.
    """
    tensors: dict[str, Tensor] = {}
    return _flattened(value, path, tensors), tensors


def _flattened(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().clone().contiguous()
        return ["tensor", path]
    if isinstance(value, np.ndarray):
        # Not every torch knows unsigned integers; those of generators fit into int64.
        known = value.astype(np.int64) if value.dtype.kind in "iu" else value.copy()
        return ["array", [str(value.dtype), _flattened(torch.from_numpy(known), path, tensors)]]
    if isinstance(value, Mapping):
        pairs = [[key, _flattened(part, f"{path}/{key}", tensors)] for key, part in value.items()]
        return ["pairs", pairs]
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return [kind, [_flattened(part, f"{path}/{i}", tensors) for i, part in enumerate(value)]]
    if isinstance(value, Level):
        return ["level", value.log_tail]
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{path} is a {type(value).__name__}, which a file cannot hold")


def unflatten(plain: Any, tensors: Tensors) -> Any:
    """The value that :func:`flatten` described; a ``ValueError`` for other descriptions."""
    if not isinstance(plain, list):
        return plain
    try:
        kind, content = plain
        if kind == "tensor":
            return tensors[content]
        if kind == "array":
            dtype, described = content
            return unflatten(described, tensors).numpy().astype(np.dtype(str(dtype)))
        if kind == "pairs":
            return {key: unflatten(value, tensors) for key, value in content}
        if kind in ("tuple", "list"):
            parts = [unflatten(value, tensors) for value in content]
            return tuple(parts) if kind == "tuple" else parts
        if kind == "level":
            return Level(log_tail=content)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise ValueError(f"Part of it cannot be read: {shortened(str(plain), 80)}.")


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
