"""Checkpoint files: whole or not at all, verified, and never code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eqrm import Level
from eqrm.errors import CheckpointError
from eqrm.files import archive, writing
from eqrm.files.archive import flatten
from eqrm.training.runs.checkpoint import Checkpoints, read_checkpoint, write_checkpoint
from eqrm.training.state import random_states
from training.small_worlds import Killed

STATE: dict[str, Any] = {
    "step": 12,
    "nested": {"list": [1, 2.5, None, True, "text", (3, 4)], 7: {"weight": torch.randn(3, 2)}},
    "half": torch.randn(4).bfloat16(),
    "scalar": torch.tensor(5),
    "nothing": torch.zeros(0),
    "infinite": float("inf"),
    "array": np.arange(5, dtype=np.uint32),
    "random": random_states(),
    "level": Level(log_tail=-1000),
}


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and bool((first == second).all())
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, (list, tuple)):
        pairs = zip(first, second, strict=True)
        return type(first) is type(second) and all(same(a, b) for a, b in pairs)
    return type(first) is type(second) and first == second


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a.safetensors", STATE)
    assert same(read_checkpoint(tmp_path / "a.safetensors"), STATE)


def test_what_cannot_be_plain_is_refused_when_writing() -> None:
    with pytest.raises(TypeError, match="state/f is a function"):
        flatten({"f": lambda: None})


@pytest.mark.parametrize("position", [0, 9, 200, 0.5, 0.9, -1])
def test_every_flipped_bit_is_noticed(tmp_path: Path, position: float) -> None:
    path = tmp_path / "a.safetensors"
    write_checkpoint(path, STATE)
    content = bytearray(path.read_bytes())
    at = int(position * len(content)) if isinstance(position, float) else position
    content[at] ^= 0b1000
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


def killed(*arguments: Any, **others: Any) -> None:
    raise Killed


def half_written(tensors: Any, path: Path, metadata: Any) -> None:
    path.write_bytes(b"half of it")
    raise Killed


@pytest.mark.parametrize(
    ("module", "name", "death"),
    [
        (archive, "save_tensors", half_written),
        (writing, "_force_to_disk", killed),
        (os, "replace", killed),
    ],
)
def test_death_at_any_point_of_writing_leaves_whole_checkpoints(  # type: ignore[no-untyped-def]
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module, name: str, death
) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (10, 20):
        checkpoints.save(step, {"step": step})
    with monkeypatch.context() as patch:
        patch.setattr(module, name, death)
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # the dead remove no drafts
        with pytest.raises(Killed):
            checkpoints.save(30, {"step": 30})
    found = checkpoints.newest()
    assert found is not None
    assert found.state == {"step": 20}
    checkpoints.remove_drafts()
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in checkpoints.paths()}


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pwned",)


def test_a_pickle_is_refused_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(Evil(), "a.safetensors")
    with pytest.raises(CheckpointError, match="not a checkpoint of eqrm, or it is damaged"):
        read_checkpoint(Path("a.safetensors"))
    assert not Path("pwned").exists()
