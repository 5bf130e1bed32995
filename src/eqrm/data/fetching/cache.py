"""Tensors that took long to make, kept in the user's cache folder.

Files are safetensors, so reading one cannot run code. They are written whole or not at all, carry
a checksum of their content, and a file that does not match it is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from eqrm.errors import EqrmWarning


@dataclass(frozen=True)
class Stored:
    """Tensors by name, and lists of strings by name."""

    tensors: dict[str, Tensor]
    texts: dict[str, list[str]] = field(default_factory=dict)


def cache_folder() -> Path:
    """``EQRM_CACHE``, or ``eqrm`` in the user's cache folder."""
    if os.environ.get("EQRM_CACHE"):
        return Path(os.environ["EQRM_CACHE"]).expanduser()
    user = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(user).expanduser() / "eqrm"


def file_key(path: Path, *parts: str) -> str:
    """A key that changes when the content of a file or any of the parts does."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    digest.update(json.dumps(parts).encode())
    return digest.hexdigest()[:32]


def cached(name: str, key: str, make: Callable[[], Stored]) -> Stored:
    """What ``make`` gives, from the cache where it was made before.

    Where the folder cannot be written, what was made is returned and not kept.

    >>> import tempfile
    >>> os.environ["EQRM_CACHE"] = tempfile.mkdtemp()
    >>> kept = cached("squares", "1", lambda: Stored({"x": torch.arange(3) ** 2}))
    >>> cached("squares", "1", lambda: Stored({})).tensors["x"]
    tensor([0, 1, 4])
    """
    path = cache_folder() / f"{name}-{key}.safetensors"
    found = _read(path) if path.is_file() else None
    if found is not None:
        return found
    made = make()
    try:
        _write(path, made)
    except OSError:
        return made
    return made


def _digest(stored: Stored) -> str:
    digest = hashlib.sha256(json.dumps(stored.texts, sort_keys=True).encode())
    for name in sorted(stored.tensors):
        tensor = stored.tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _write(path: Path, stored: Stored) -> None:
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    texts = json.dumps(stored.texts, sort_keys=True)
    draft = path.with_name(f".{secrets.token_hex(8)}.safetensors")
    tensors = {name: tensor.contiguous() for name, tensor in stored.tensors.items()}
    try:
        save_file(tensors, draft, metadata={"texts": texts, "sha256": _digest(stored)})
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path) -> Stored | None:
    """What a file holds, or ``None`` (and a warning) if it is not what was written."""
    import warnings

    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            said = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        stored = Stored(tensors, json.loads(said.get("texts", "{}")))
        if said.get("sha256") == _digest(stored):
            return stored
    except (SafetensorError, OSError, ValueError):
        pass
    warnings.warn(f"{path} is damaged and is made again.", EqrmWarning, stacklevel=3)
    return None
