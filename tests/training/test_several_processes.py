"""Two processes train what one trains, and refuse what they would train differently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training import several_processes

PROGRAM = Path(several_processes.__file__)
TESTS = PROGRAM.parents[1]
STEPS = 12


def outcome(folder: Path, processes: int, steps: int) -> dict[str, Any]:
    """What so many processes found."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(processes)]
    paths = [str(TESTS.parent / "src"), str(TESTS)]
    finished = subprocess.run(
        [*command, str(PROGRAM), str(folder), str(steps)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / f"world-{processes}.json").read_text())
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("processes")
    several_processes.main(folder, STEPS)
    return {
        1: json.loads((folder / "world-1.json").read_text()),
        2: outcome(folder, 2, STEPS),
    }


CASES = [f"{n}, {a}" for a in several_processes.LAYOUTS for n in several_processes.OBJECTIVES]


@pytest.mark.xdist_group("several-processes")
@pytest.mark.parametrize("case", CASES)
def test_two_processes_have_the_loss_curve_of_one(found, case: str) -> None:  # type: ignore[no-untyped-def]
    one, two = (found[n]["cases"][case] for n in (1, 2))
    assert len(one["losses"]) == STEPS
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(two["weights"], one["weights"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(two["risks"], one["risks"], rtol=1e-4)
    np.testing.assert_allclose(two["variances"], one["variances"], rtol=1e-3)


@pytest.mark.xdist_group("several-processes")
def test_two_processes_killed_and_resumed_end_bit_for_bit_the_same(found) -> None:  # type: ignore[no-untyped-def]
    assert found[1]["resumed"]
    assert found[2]["resumed"]


@pytest.mark.xdist_group("several-processes")
def test_what_would_train_differently_is_refused_before_it_starts(found) -> None:  # type: ignore[no-untyped-def]
    assert found[1]["refusals"] == {}
    messages = found[2]["refusals"]
    assert "IRM looks at the examples of its own process only" in messages["irm"]
    assert "DANN looks at the examples" in messages["dann"]
    assert "Freeze it (batch_norm: frozen)" in messages["batch norm"]
