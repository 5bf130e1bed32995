"""Checkpoints of a run: the last few are kept, the newest that is whole is resumed from.

The states of networks, optimizers, samplers and random generators are dicts and lists with tensors
in them, packed by ``eqrm.files.archive``: nothing that is read back can run.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from eqrm.errors import CheckpointError, EqrmWarning
from eqrm.files.archive import flatten, read_archive, unflatten, write_archive

FORMAT = "eqrm checkpoint 2"
_NAME = re.compile(r"step-(\d{9})\.safetensors")


class DamagedCheckpointWarning(EqrmWarning):
    """The latest checkpoint could not be read, and an older one was used."""


class Found(NamedTuple):
    """A checkpoint that was read."""

    path: Path
    state: dict[str, Any]


class Checkpoints:
    """The checkpoints in a folder, one file per step, the last ``keep`` of them.

    >>> import tempfile
    >>> checkpoints = Checkpoints(Path(tempfile.mkdtemp()), keep=2)
    >>> for step in (10, 20, 30):
    ...     checkpoints.save(step, {"step": step})
    >>> [path.name for path in checkpoints.paths()]
    ['step-000000020.safetensors', 'step-000000030.safetensors']
    >>> checkpoints.newest().state
    {'step': 30}
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def paths(self) -> list[Path]:
        """The files, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write the state of a step, then remove what is older than the last ``keep``.

        Nothing is removed before the new file is on the disk.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        write_checkpoint(self.folder / f"step-{step:09d}.safetensors", state)
        for path in self.paths()[: -self.keep]:
            path.unlink(missing_ok=True)

    def newest(self) -> Found | None:
        """The newest checkpoint that is whole; None where there is none at all.

        A damaged one is skipped with a warning. If none can be read, that is an error, because
        starting over would lose their content.
        """
        damages: list[str] = []
        for path in reversed(self.paths()):
            try:
                state = read_checkpoint(path)
            except CheckpointError as error:
                damages.append(str(error))
                continue
            if not isinstance(state, dict):
                raise CheckpointError(f"{path} does not hold the state of a run.")
            if damages:
                warnings.warn(
                    f"{damages[0]} Continuing from {path.name} instead.",
                    DamagedCheckpointWarning,
                    stacklevel=2,
                )
            return Found(path, state)
        if damages:
            raise CheckpointError(damages[0])
        return None

    def remove_drafts(self) -> None:
        """Remove what was being written when the process was killed."""
        if self.folder.is_dir():
            for path in [*self.folder.glob(".*.safetensors"), *self.folder.glob("*.draft")]:
                path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove every checkpoint, to begin again."""
        for path in self.paths():
            path.unlink(missing_ok=True)
        self.remove_drafts()


def write_checkpoint(path: Path, state: Any) -> None:
    """Write a nested state of tensors and plain values; on the disk whole, or not at all.

    >>> import tempfile, torch
    >>> path = Path(tempfile.mkdtemp()) / "state.safetensors"
    >>> write_checkpoint(path, {"step": 3, "weight": torch.ones(2)})
    >>> read_checkpoint(path)
    {'step': 3, 'weight': tensor([1., 1.])}
    """
    write_archive(path, FORMAT, *flatten(state), durable=True)


def read_checkpoint(path: Path) -> Any:
    """The state in a checkpoint file; ``CheckpointError`` if it is damaged or not ours."""
    found = read_archive(
        path,
        FORMAT,
        "a checkpoint of eqrm",
        remedy="Remove it to continue from an older one, or start the run again.",
        error=CheckpointError,
    )
    try:
        return unflatten(found.content, found.tensors)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} does not hold the state of a run. {error}") from None
