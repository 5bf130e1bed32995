"""Several processes train what one trains, and refuse what they would train differently."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from processes import run_in_processes
from training import several_processes

PROGRAM = Path(several_processes.__file__)
TESTS = PROGRAM.parents[1]
STEPS, QUICK = 12, ["groupdro"]
FULL_STEPS, TOLERANCE = 50, 1e-5

Found = dict[str, Any]

# One worker, so that one server starts all processes (pytest -n 2 --dist loadgroup).
two_processes = pytest.mark.xdist_group("two processes")


def outcome(folder: Path, processes: int, steps: int, objectives: list[str]) -> Found:
    """What so many processes found."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes)]
    paths = [str(TESTS.parent / "src"), str(TESTS)]
    finished = subprocess.run(
        [*command, str(PROGRAM), str(folder), str(steps), *objectives],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return read(folder, processes)


def read(folder: Path, processes: int) -> Found:
    found: Found = json.loads((folder / f"world-{processes}.json").read_text())
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Found]:
    folder = tmp_path_factory.mktemp("processes")
    several_processes.main(folder, STEPS, QUICK)
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    run_in_processes(several_processes.one_of_several, 2, port, folder, STEPS, QUICK)
    return {1: read(folder, 1), 2: read(folder, 2)}


def check_refusals(of_one: Found, of_several: Found) -> None:
    assert of_one["refusals"] == {}
    messages = of_several["refusals"]
    assert "IRM looks at the examples of its own process only" in messages["irm"]
    assert "DANN looks at the examples" in messages["dann"]
    assert "Freeze it (batch_norm: frozen)" in messages["batch norm"]


@two_processes
@pytest.mark.parametrize("layout", several_processes.LAYOUTS)
@pytest.mark.parametrize("objective", QUICK)
def test_two_processes_have_the_loss_curve_of_one(
    found: dict[int, Found], objective: str, layout: str
) -> None:
    one, two = (found[n]["cases"][f"{objective}, {layout}"] for n in (1, 2))
    assert len(one["losses"]) == STEPS
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(two["weights"], one["weights"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(two["risks"], one["risks"], rtol=1e-4)
    np.testing.assert_allclose(two["variances"], one["variances"], rtol=1e-3)


@two_processes
def test_two_processes_killed_and_resumed_end_bit_for_bit_the_same(found: dict[int, Found]) -> None:
    assert found[1]["resumed"]
    assert found[2]["resumed"]


@two_processes
def test_what_would_train_differently_is_refused_before_it_starts(found: dict[int, Found]) -> None:
    check_refusals(found[1], found[2])


@two_processes
def test_two_processes_measure_the_metrics_of_one(found: dict[int, Found]) -> None:
    one, two = (found[n]["metrics"] for n in (1, 2))
    assert one["test"]["macro-f1"]["pooled"] > 0.0
    assert one["one"]["roc-auc"]["pooled"] is None
    for split, by_name in one.items():
        for name, each in by_name.items():
            other = two[split][name]
            assert other["pooled"] == pytest.approx(each["pooled"], rel=1e-6)
            for own, theirs in zip(each["domains"], other["domains"], strict=True):
                assert theirs == pytest.approx(own, rel=1e-6)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::eqrm.objectives.training_warnings.SmallBatchWarning")
def test_one_two_and_four_processes_train_every_objective_alike(tmp_path: Path) -> None:
    objectives = list(several_processes.OBJECTIVES)
    several_processes.main(tmp_path, FULL_STEPS, objectives)
    one = read(tmp_path, 1)
    for processes in (2, 4):
        several = outcome(tmp_path, processes, FULL_STEPS, objectives)
        assert several["resumed"]
        check_refusals(one, several)
        for case, expected in one["cases"].items():
            assert len(expected["losses"]) == FULL_STEPS
            gap = np.abs(np.subtract(several["cases"][case]["losses"], expected["losses"]))
            # Deep in the tail a loss is 50 and more: there its digits are compared.
            scale = np.maximum(1.0, np.abs(expected["losses"]))
            assert float((gap / scale).max()) <= TOLERANCE, f"{processes} processes, {case}"
