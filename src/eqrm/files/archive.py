"""Arrays or tensors, and plain data, in one safetensors file, with a digest of both.

The data is JSON in the header of the file. Neither JSON nor numbers can hold code, so nothing
that is read can run, and the digest tells whether anything in the file was changed, which
safetensors itself would not notice. Tensors and arrays of the same numbers give the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from eqrm.errors import DataFileError
from eqrm.execution import is_tensor, namespace
from eqrm.files.writing import whole_file
from eqrm.level import Level
from eqrm.text import shortened

if TYPE_CHECKING:
    from torch import Tensor

    Numbers = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Archive:
    """What a file holds: plain data, and arrays or tensors by name."""

    content: Any
    tensors: dict[str, Any]


def write_archive(
    path: Path,
    format: str,
    content: Any,
    tensors: Mapping[str, Numbers],
    *,
    durable: bool = False,
) -> None:
    """Write plain data (anything that JSON can represent) and arrays or tensors, atomically."""
    text = json.dumps(content, ensure_ascii=False)
    kept = {  # on the CPU, with their numbers one after the other
        name: v.detach().cpu().contiguous() if is_tensor(v) else np.asarray(v, order="C")
        for name, v in tensors.items()
    }
    metadata = {"format": format, "content": text, "sha256": content_digest(text, kept)}
    with whole_file(path, durable=durable) as draft:
        save_tensors(kept, draft, metadata)


def save_tensors(tensors: Mapping[str, Numbers], path: Path, metadata: Mapping[str, str]) -> None:
    """As safetensors does, but the same content always gives the same bytes (metadata in order).

    Written by Python, whose errors say that a disk is full.
    """
    save: Callable[..., bytes]
    if any(map(is_tensor, tensors.values())):  # which may have types that numpy lacks
        import torch
        from safetensors.torch import save

        tensors = {name: torch.as_tensor(value) for name, value in tensors.items()}
    else:
        from safetensors.numpy import save
    content = memoryview(save(dict(tensors), dict(metadata)))
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
    tensors: bool = False,
) -> Archive:
    """What :func:`write_archive` wrote in this format, as arrays or as ``tensors``.

    ``what`` names the kind of file in errors, which are of the class ``error``; ``remedy`` says
    what to do.
    """
    if not path.is_file():
        raise error(f"The file {path} does not exist.")
    try:
        with safe_open(path, framework="pt" if tensors else "np") as file:
            header = file.metadata() or {}
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except PermissionError:
        raise error(f"{path} cannot be read: permission denied.") from None
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError):
        # What safetensors says is about the bytes of a header, and helps nobody here.
        raise error(f"{path} is not {what}, or it is damaged. {remedy}".strip()) from None
    known = header.get("format", "")
    if known != format:
        same_kind = known.rpartition(" ")[0] == format.rpartition(" ")[0]
        why = (
            f"has the format {known!r}, written by another version of eqrm; this version reads "
            f"{format!r}"
        )
        raise error(f"{path} {why if same_kind else f'is not {what}'}. {remedy}".strip())
    text = header.get("content", "")
    if header.get("sha256") != content_digest(text, found):
        raise error(f"{path} is damaged: its content does not match its checksum. {remedy}".strip())
    try:
        return Archive(json.loads(text), found)
    except (ValueError, RecursionError):
        raise error(f"{path} is damaged: its description is not JSON. {remedy}".strip()) from None


def flatten(value: Any, path: str = "state") -> tuple[Any, dict[str, Numbers]]:
    """A nested value as JSON that describes it, and its tensors and arrays by path.

    Beside what JSON has, a value may hold tensors, arrays of numbers, bytes (which are read as an
    array), tuples, levels, numbers that are not finite, and dicts with keys that are not strings.
    Every container becomes a list whose first element says what it is, so that no content can be
    mistaken for a description.
    """
    tensors: dict[str, Numbers] = {}
    return _flattened(value, path, tensors), tensors


def _flattened(value: Any, path: str, tensors: dict[str, Numbers]) -> Any:
    if is_tensor(value):
        tensors[path] = value.detach().cpu().clone().contiguous()
        return ["tensor", path]
    if isinstance(value, bytes):
        tensors[path] = np.frombuffer(value, np.uint8)
        return ["tensor", path]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        # Not every torch knows unsigned integers; those of generators fit into int64.
        kind = np.int64 if value.dtype.kind in "iu" else value.dtype
        tensors[path] = np.array(value, kind, order="C")
        return ["array", [str(value.dtype), ["tensor", path]]]
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


def unflatten(plain: Any, tensors: Mapping[str, Any]) -> Any:
    """The value that :func:`flatten` described; a ``ValueError`` for other descriptions."""
    if not isinstance(plain, list):
        return plain
    try:
        kind, content = plain
        if kind == "tensor":
            return tensors[content]
        if kind == "array":
            dtype, (_, name) = content
            return np.asarray(tensors[name]).astype(np.dtype(str(dtype)))
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


def content_digest(text: str, tensors: Mapping[str, Numbers]) -> str:
    """SHA-256 over the text and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        values = tensors[name]
        kind = str(values.dtype).removeprefix("torch.")
        digest.update(f"\n{name} torch.{kind} {tuple(values.shape)}\n".encode())
        digest.update(np.asarray(values.reshape(-1).view(namespace(values).uint8)).data)
    return digest.hexdigest()
