"""A process that is killed with SIGKILL loses nothing but the steps since its last checkpoint.

``adversarial.kills`` of ``make verify`` kills 220 of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from training.killed_run import CHECKPOINT_EVERY
from training.killing import Kills, Runs, killed_and_resumed, run_to_the_end


def kills_leave_the_run_as_it_was(folder: Path, steps: int, width: int, kills: int) -> Kills:
    """Kill a run again and again; its weights and metrics end as those of a run left alone."""
    runs = Runs()
    run_to_the_end(runs, folder / "whole", steps, width)
    seen = killed_and_resumed(runs, folder / "killed", steps, width, kills)
    assert max(seen.steps_lost) <= CHECKPOINT_EVERY
    whole, killed = ((folder / run / "metrics.jsonl").read_bytes() for run in ("whole", "killed"))
    assert whole == killed
    # Not the files' bytes: safetensors writes the entries of its header in any order.
    first, again = (load_file(folder / run / "weights.safetensors") for run in ("whole", "killed"))
    assert first.keys() == again.keys()
    for name, tensor in first.items():
        assert tensor.numpy().tobytes() == again[name].numpy().tobytes()
    return seen


@pytest.mark.full
@pytest.mark.xdist_group("two processes")  # one server starts all processes
def test_a_run_killed_while_it_writes_a_checkpoint_ends_bit_for_bit_the_same(
    tmp_path: Path,
) -> None:
    kills_leave_the_run_as_it_was(tmp_path, steps=24, width=64, kills=1)
