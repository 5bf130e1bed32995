"""Reproductions whose runs are a sweep in the output folder, continued where it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqrm.checks import POSITIVE_INTEGER
from eqrm.data.datasets.catalogue import published
from eqrm.data.fetching.data_root import data_root
from eqrm.data.fetching.downloads import by_hand
from eqrm.errors import EqrmError
from eqrm.predictors.pretrained import read_weights
from eqrm.reproductions.base import Report, Reproduction, no_progress
from eqrm.reproductions.outcome import Check, Progress, ResultTable
from eqrm.sweeps.engines.local import LocalEngine
from eqrm.sweeps.planned_runs import PlannedSweep, planned_sweep
from eqrm.sweeps.progress import SweepLines
from eqrm.sweeps.records import RunRecord, read_records
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.tables.cells import SweepTables

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


def absent_data(dataset: str) -> list[str]:
    """What the data root lacks of a published dataset, and where it comes from."""
    try:
        root = data_root(None)
        _, entry = published(dataset)
    except EqrmError as error:
        return [str(error)]
    absent = [
        each.replace("|", " or ")
        for each in entry.places
        if not any((root / place).exists() for place in each.split("|"))
    ]
    if not absent:
        return []
    return [f"The data root {root} lacks {'; '.join(absent)}. {by_hand(entry, root)}"]


def absent_weights(pretrained: str | bool | None, network: str) -> list[str]:
    """What is missing of the weights that a network of images starts from; False is random ones."""
    if pretrained is False:
        return []
    if not isinstance(pretrained, str):
        return [
            f"No file with ImageNet weights of {network} was given. Give one with --set "
            "pretrained=FILE (.safetensors or .pth, with the names of torchvision), or start from "
            "random weights with --set pretrained=false."
        ]
    try:
        read_weights(pretrained)
    except EqrmError as error:
        return [str(error)]
    return []


def result_tables(tables: SweepTables) -> list[ResultTable]:
    """The tables of a sweep as those of a reproduction."""
    return [
        ResultTable(
            f"{each.rule}-{each.kind}",
            each.title,
            ["method", *each.columns],
            [[row.label, *(cell.text for cell in row.cells)] for row in each.rows],
        )
        for each in tables.tables
    ]


def _share(folder: SweepFolder, planned: PlannedSweep) -> float:
    return sum(folder.is_finished(run.run) for run in planned.runs) / len(planned.runs)


@dataclass
class SweptReproduction(Reproduction):
    """A reproduction whose runs are kept in ``sweep`` in the output folder, one sweep or several.

    Args:
        device: as in the configuration of a run: "auto" takes a GPU where there is one.
        workers: how many runs are trained at the same time.

    Finished runs are not trained again, also where the folder was copied to another machine, and
    ``eqrm table`` reads them.
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
