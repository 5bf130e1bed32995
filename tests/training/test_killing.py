"""A process that is killed with SIGKILL loses nothing but the steps since its last checkpoint."""

from __future__ import annotations

from pathlib import Path

from training.killed_run import CHECKPOINT_EVERY
from training.killing import Runs, killed_and_resumed, run_to_the_end

STEPS, WIDTH = 40, 64


def test_three_kills_and_the_run_ends_bit_for_bit_the_same(tmp_path: Path) -> None:
    with Runs() as runs:
        run_to_the_end(runs, tmp_path / "whole", STEPS, WIDTH)
        seen = killed_and_resumed(runs, tmp_path / "killed", STEPS, WIDTH, kills=3)
    assert max(seen.steps_lost) <= CHECKPOINT_EVERY
    for name in ("weights.safetensors", "metrics.jsonl"):
        whole, killed = (tmp_path / run / name for run in ("whole", "killed"))
        assert whole.read_bytes() == killed.read_bytes()
