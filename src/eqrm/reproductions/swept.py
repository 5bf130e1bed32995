"""Reproductions whose runs are a sweep in the output folder, continued where it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqrm.checks import POSITIVE_INTEGER
from eqrm.errors import EqrmError
from eqrm.reproductions.base import Report, Reproduction, no_progress
from eqrm.reproductions.outcome import Check, Progress
from eqrm.sweeps.engines.local import LocalEngine
from eqrm.sweeps.planned_runs import PlannedSweep, planned_sweep
from eqrm.sweeps.progress import SweepLines
from eqrm.sweeps.records import RunRecord, read_records
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder

SWEEP = "sweep"


@dataclass(frozen=True)
class FinishedSweep:
    """The records of a sweep, how many runs it has, why some are missing, and what they took.

    ``notes`` are what the plan changes of its protocol.
    """

    records: Sequence[RunRecord]
    planned: int
    failures: Sequence[str]
    seconds: float
    notes: Sequence[str] = ()

    def check(self) -> Check:
        """That nothing is missing."""
        finished = len(self.records)
        return Check(
            "every run is finished",
            finished == self.planned,
            f"{finished} of {self.planned}",
            "all of them",
            "the requirements of this reproduction",
        )


def run_plan(
    plan: Mapping[str, Any], path: Path, workers: int, progress: Progress = no_progress
) -> FinishedSweep:
    """Train what is not finished of a plan, in this folder."""
    folder = SweepFolder(path)
    planned = planned_sweep(plan, f"The plan of {path.name}", folder=folder)
    shown = SweepLines(lambda line: progress(_share(folder, planned), line))
    engine = LocalEngine(path, workers=workers)
    result = run_sweep(planned, folder, engine, retry_failed=True, shown=shown)
    return FinishedSweep(
        read_records(path),
        len(planned.runs),
        [f"{path.name}, run {each.run}: {each.error}" for each in result.failures],
        sum(folder.seconds(run.run) or 0.0 for run in planned.runs),
        planned.notes,
    )


def _share(folder: SweepFolder, planned: PlannedSweep) -> float:
    return sum(folder.is_finished(run.run) for run in planned.runs) / len(planned.runs)


@dataclass
class SweptReproduction(Reproduction):
    """A reproduction with one sweep, which is kept in ``sweep`` in the output folder.

    Args:
        device: as in the configuration of a run: "auto" takes a GPU where there is one.
        workers: how many runs are trained at the same time.

    Finished runs are not trained again, also where the folder was copied to another machine, and
    ``eqrm table`` reads it.
    """

    device: str = "auto"
    workers: int = 1

    def run(
        self, output: Path, size: str = "full", seed: int = 0, progress: Progress = no_progress
    ) -> Report:
        """See :meth:`Reproduction.run`; the sweep is kept in ``output``."""
        self._folder = output / SWEEP
        return super().run(output, size, seed, progress)

    def swept(self, plan: Mapping[str, Any], progress: Progress) -> FinishedSweep:
        """All runs of a plan; an error if none was finished."""
        POSITIVE_INTEGER.check(self.workers, "workers")
        found = run_plan(plan, self._folder, self.workers, progress)
        if not found.records:
            raise EqrmError("No run was finished. " + " ".join(found.failures))
        return found
