"""What the tests of clusters share: one plan, its undisturbed records, and a watched command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eqrm.sweeps.planned_runs import PlannedSweep
from eqrm.sweeps.sweep_folder import SweepFolder
from sweeps.killing import SOURCE, written
from sweeps.small_plans import changed, planned, records_of

STEPS = 600
PLAN = changed(
    run={
        "steps": STEPS,
        "training": {
            "device": "cpu",
            "evaluate_every": 200,
            "checkpoint_every": 20,
            "log_every": 100,
        },
    }
)


def environment(**variables: str) -> dict[str, str]:
    """That of commands: this checkout, one thread; a Ray node may not start without bytecode."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **variables}


def start(folder: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    """``eqrm sweep`` of the plan, in a process of its own."""
    plan = written(folder.with_suffix(".yaml"), PLAN)
    return subprocess.Popen(
        [sys.executable, "-m", "eqrm.cli", "sweep", str(plan), "--output", str(folder), *options],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends_well(process: subprocess.Popen[str], seconds: float = 300) -> str:
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, out + err
    return err


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} seconds")


class Undisturbed:
    """The records and tables of the plan, trained by worker processes of the local engine."""

    def __init__(self, folder: Path) -> None:
        self.plan: PlannedSweep = planned(PLAN)
        self.folder = folder
        ends_well(start(folder, "--workers", "1"))
        self.records = records_of(folder, self.plan)
        self.table = table_of(folder)

    def equals(self, folder: Path) -> bool:
        """Whether another folder holds the same records and gives the same table, in bytes."""
        assert records_of(folder, self.plan) == self.records
        assert table_of(folder) == self.table
        return True


def table_of(folder: Path) -> bytes:
    """What ``eqrm table`` prints, without the name of the folder."""
    command = [sys.executable, "-m", "eqrm.cli", "table", str(folder), "--format", "csv"]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True)
    assert done.stdout
    return done.stdout.replace(str(folder).encode(), b"FOLDER")


def training(folder: Path) -> list[str]:
    """The runs that are being trained and have saved a checkpoint."""
    files = SweepFolder(folder)
    runs = [path.parent.name for path in sorted((folder / "runs").glob("*/claim"))]
    return [
        run
        for run in runs
        if files.is_claimed(run) and any((files.of_run(run) / "checkpoint").glob("*"))
    ]
