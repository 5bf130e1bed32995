"""One checkpoint file: written whole or not at all, verified when it is read.

A safetensors file: tensors, and beside them (in the file's metadata) the version of this
format, the description of the rest as JSON, and a SHA-256 of everything.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from eqrm.errors import CheckpointError
from eqrm.training.runs.flattened_state import flatten, unflatten

FORMAT = "eqrm checkpoint 1"
DRAFT = ".draft"
"""How the names of files end that are being written."""


def write_checkpoint(path: Path, state: Any) -> None:
    """Write a nested state of tensors and plain values.

    The file is written under another name, forced to the disk, and renamed: whatever happens,
    ``path`` holds a whole checkpoint or what it held before.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "state.safetensors"
    >>> write_checkpoint(path, {"step": 3, "weight": torch.ones(2)})
    >>> read_checkpoint(path)
    {'step': 3, 'weight': tensor([1., 1.])}
    """
    described, tensors = flatten(state)
    text = json.dumps(described)
    metadata = {"format": FORMAT, "state": text, "sha256": _digest(text, tensors)}
    draft = path.with_name(path.name + DRAFT)
    save_file(tensors, draft, metadata=metadata)
    _force_to_disk(draft)
    os.replace(draft, path)
    _force_to_disk(path.parent)  # the rename itself


def read_checkpoint(path: Path) -> Any:
    """The state in a checkpoint file; ``CheckpointError`` if it is not whole or not ours.

    >>> read_checkpoint(Path("nowhere.safetensors"))
    Traceback (most recent call last):
        ...
    eqrm.errors.CheckpointError: There is no checkpoint nowhere.safetensors.
    """
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise CheckpointError(_foreign(path, metadata.get("format")))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"The checkpoint {path} is damaged, or no checkpoint ({error}). Remove it to go on "
            "from an older one, or start the run again."
        ) from None
    text = metadata.get("state", "")
    if metadata.get("sha256") != _digest(text, tensors):
        raise CheckpointError(
            f"The checkpoint {path} is damaged: its checksum does not fit its content. Remove it "
            "to go on from an older one, or start the run again."
        )
    try:
        return unflatten(json.loads(text), tensors)
    except (CheckpointError, ValueError, RecursionError) as error:
        raise CheckpointError(f"The checkpoint {path} holds no state of a run. {error}") from None


def _foreign(path: Path, found: str | None) -> str:
    if found is None:
        return (
            f"{path} is a safetensors file, but no checkpoint of eqrm. Only checkpoints that "
            "training wrote can be resumed from."
        )
    return (
        f"The checkpoint {path} has the format {found!r}; this version of eqrm reads {FORMAT!r}. "
        "Use the version that wrote it, or start the run again."
    )


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 over the description and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _force_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
