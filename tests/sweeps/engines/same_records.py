"""What the tests of clusters share: one plan, its undisturbed records, and a watched command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from eqrm.sweeps.planned_runs import PlannedSweep
from eqrm.sweeps.sweep_folder import SweepFolder
from sweeps.killing import ends_well, environment, start, wait_until, written
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


def started(folder: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    """``eqrm sweep`` of the plan, in a process of its own."""
    return start(written(folder.with_suffix(".yaml"), PLAN), folder, *options, **variables)


def two_at_once(folder: Path) -> list[str]:
    """Two runs, as soon as both are trained."""
    wait_until(lambda: len(training(folder)) == 2, "two runs at once", 120)
    return training(folder)


class Undisturbed:
    """The records and tables of the plan, trained by worker processes of the local engine."""

    def __init__(self, folder: Path) -> None:
        self.plan: PlannedSweep = planned(PLAN)
        self.folder = folder
        ends_well(started(folder, "--workers", "1"))
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
