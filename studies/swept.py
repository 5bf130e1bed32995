"""Reproductions whose runs are a sweep in the output folder, continued where it stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eqrm import predictor
from eqrm.checks import POSITIVE_INTEGER
from eqrm.data.datasets.data_root import data_root
from eqrm.data.datasets.downloads import by_hand
from eqrm.data.datasets.registry import published
from eqrm.errors import DataFileError, EqrmError
from eqrm.sweeps import read_records
from eqrm.sweeps.engines.local import LocalEngine
from eqrm.sweeps.plan import read_plan
from eqrm.sweeps.planned_runs import PlannedSweep, planned_sweep
from eqrm.sweeps.protocols import protocol_notes, with_protocol
from eqrm.sweeps.records import RunRecord
from eqrm.sweeps.status import SweepLines
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.tables.cells import SweepTables
from eqrm.text import duration
from eqrm.training import TrainingSettings
from studies.base import Study, no_progress
from studies.outcome import Check, Progress, ResultTable

SWEEP, FIRST_STAGE = "sweep", "erm"
IMAGENET_WEIGHTS = {
    "resnet18": "; https://download.pytorch.org/models/resnet18-f37072fd.pth is one",
    "resnet50": "; https://download.pytorch.org/models/resnet50-0676ba61.pth is one",
}


@dataclass(frozen=True)
class FinishedSweep:
    """The records of a sweep, how many runs it has, why some are missing, and what they took.

    ``spans`` are the times at which finished runs began and ended; ``notes`` are what the plan
    changes of its protocol.
    """

    records: Sequence[RunRecord]
    planned: int
    failures: Sequence[str]
    spans: Sequence[tuple[float, float]]
    notes: Sequence[str] = ()

    @classmethod
    def of_several(
        cls, sweeps: Sequence[FinishedSweep], records: Sequence[RunRecord] | None = None
    ) -> FinishedSweep:
        """Several sweeps as one; ``records`` are theirs unless they are given."""
        own = [record for each in sweeps for record in each.records]
        return cls(
            own if records is None else records,
            sum(each.planned for each in sweeps),
            [line for each in sweeps for line in each.failures],
            [span for each in sweeps for span in each.spans],
        )

    @property
    def seconds(self) -> float:
        """What the runs took, added up also where they were trained at the same time."""
        return sum(ended - began for began, ended in self.spans)

    @property
    def cost(self) -> dict[str, str]:
        """What the runs took, for the settings of an outcome."""
        return {
            "time in which runs were trained": duration(covered_seconds(self.spans)),
            "wall-clock time of all runs, added up": duration(self.seconds),
        }

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


def covered_seconds(spans: Sequence[tuple[float, float]]) -> float:
    """How long at least one of several spans of time lasts.

    >>> covered_seconds([(0.0, 2.0), (1.0, 3.0), (10.0, 11.0)])
    4.0
    """
    covered, until = 0.0, float("-inf")
    for began, ended in sorted(spans):
        covered += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return covered


def run_plan(
    plan: Mapping[str, Any],
    path: Path,
    workers: int,
    progress: Progress = no_progress,
    absent: Callable[[], Sequence[str]] = list,
) -> FinishedSweep:
    """Train what is not finished of a plan, in this folder.

    If anything has to be trained, ``absent`` says what is missing for that, which is an error.
    """
    POSITIVE_INTEGER.check(workers, "workers")
    folder = SweepFolder(path)
    if folder.begun:
        _refuse_another_start(folder, plan)
        folder.refuse_another_plan(plan, None)
        if all(folder.is_finished(place["run"]) for place in folder.runs()):
            return _finished(folder, [])  # needs neither the data nor the device of the runs
    missing = absent()
    if missing:
        raise DataFileError(" ".join(missing))
    planned = planned_sweep(plan, f"The plan of {path.name}", folder=folder)
    result = run_sweep(
        planned,
        folder,
        LocalEngine(path, workers=workers),
        retry_failed=True,
        shown=SweepLines(lambda line: progress(_share(folder, planned), line)),
    )
    failures = [f"{path.name}, run {each.run}: {each.error}" for each in result.failures]
    return _finished(folder, failures)


def _refuse_another_start(folder: SweepFolder, plan: Mapping[str, Any]) -> None:
    """Raise if the runs of a folder begin with weights that now have another path."""
    before, now = (each["run"].get("predictor", {}) for each in (folder.plan(), plan))
    named, wanted = before.get("start_from"), now.get("start_from")
    if named is not None and named != wanted:
        raise EqrmError(
            f"The runs in {folder.path} begin with the weights in {named}, now {wanted}: they name "
            "the folder as it was given to --output when they were begun. Give the same name "
            "again, from the folder where it is; move the results there if need be."
        )


def _finished(folder: SweepFolder, failures: Sequence[str]) -> FinishedSweep:
    """What a folder has, whoever trained it."""
    places = folder.runs()
    planned = {place["run"] for place in places}
    return FinishedSweep(
        [record for record in read_records(folder.path) if record.run in planned],
        len(places),
        failures,
        [span for place in places if (span := folder.span(place["run"])) is not None],
        protocol_notes(read_plan(with_protocol(folder.plan()))),
    )


def run_stages(
    first: Mapping[str, Any],
    then: Callable[[Path], Mapping[str, Any]],
    path: Path,
    workers: int,
    progress: Progress = no_progress,
    absent: Callable[[], Sequence[str]] = list,
) -> FinishedSweep:
    """A plan of ERM, and for each of its runs a plan of runs that begin with its weights.

    ``then`` makes the second plan from the folder of a run of the first. Its runs have the trial of
    the run that they begin from. ``absent`` is as in :func:`run_plan`.
    """
    erm = run_plan(first, path / FIRST_STAGE, workers, progress, absent)
    sweeps, records = [erm], list(erm.records)
    for record in erm.records:
        start = SweepFolder(path / FIRST_STAGE).of_run(record.run)
        second = path / second_stage(record.trial)
        done = run_plan(then(start), second, workers, progress, absent)
        sweeps.append(done)
        records += [replace(each, trial=record.trial) for each in done.records]
    return FinishedSweep.of_several(sweeps, records)


def second_stage(trial: int) -> str:
    """The folder of the sweep that begins from the weights of a trial of ERM."""
    return f"eqrm-{trial}"


def absent_data(dataset: str) -> list[str]:
    """What the data root lacks of a published dataset, and where it comes from."""
    try:
        _, entry = published(dataset)
    except EqrmError as error:
        return [str(error)]
    try:
        root = data_root(None)
    except EqrmError as error:
        needed = "; ".join(each.replace("|", " or ") for each in entry.places)
        why = str(error) if os.environ.get("EQRM_DATA") else "No data root is set."
        return [
            f"{why} The environment variable EQRM_DATA must name a folder that has {needed}. "
            f"{by_hand(entry, None)}"
        ]
    absent = entry.lacking(root)
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
            "pretrained=FILE (.safetensors or .pth, with the names of torchvision"
            f"{IMAGENET_WEIGHTS.get(network, '')}), or start from random weights with --set "
            "pretrained=false."
        ]
    try:
        predictor(network, (3, 224, 224), 1, pretrained=pretrained)
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
class SweptStudy(Study):
    """A reproduction whose runs are kept in ``sweep`` in the output folder, one sweep or several.

    Args:
        device: as in the configuration of a run: "auto" takes that of the runs that the output
            folder has already, or else a GPU where there is one.
        workers: how many runs are trained at the same time.

    Finished runs are not trained again, also where the folder was copied to another machine, and
    ``eqrm table`` reads them.
    """

    device: str = "auto"
    workers: int = 1

    def device_of_runs(self, stage: str = "") -> str:
        """The kind of device that the plan of a stage names: cpu or cuda."""
        folder = SweepFolder(self.output / SWEEP / stage)
        if self.device == "auto" and folder.begun:
            return str(folder.plan()["run"]["training"]["device"])
        return TrainingSettings(device=self.device).torch_device().type

    def swept(self, plan: Mapping[str, Any], progress: Progress) -> FinishedSweep:
        """All runs of a plan; an error if none was finished."""
        found = run_plan(plan, self.output / SWEEP, self.workers, progress, self.missing)
        if not found.records:
            raise EqrmError("No run was finished. " + " ".join(found.failures))
        return found
