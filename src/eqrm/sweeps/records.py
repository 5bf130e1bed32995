"""The record of a finished run: what was trained, and its risks per domain at each checkpoint.

A sweep's folder holds a folder per run, ``runs/<hash of the configuration>``, and a finished run
has a ``record.json`` in it. Selection rules and tables read records only.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from eqrm.checks import are_numbers, is_integer, is_number
from eqrm.errors import DataFileError
from eqrm.files.checked_json import read_checked_json, write_checked_json
from eqrm.text import shortened

FORMAT = "eqrm run record 1"
RECORD = "record.json"
PRUNED = "pruned.json"
"""The record of a run that an adaptive search gave up: what it had reached by then."""
RUNS = "runs"
_RUN = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class SplitMetric:
    """A metric of a split: of all its examples together, and of the domains that have it.

    ``pooled`` is None where the metric is not defined, as the ROC-AUC of one class.
    """

    pooled: float | None
    domains: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON."""
        return {"pooled": self.pooled, "domains": dict(self.domains)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> SplitMetric:
        """What :meth:`to_dict` or ``metrics.jsonl`` says, which lists domains without it as None.

        >>> SplitMetric.from_dict({"pooled": 0.5, "domains": {"a": 0.5, "b": None}})
        SplitMetric(pooled=0.5, domains={'a': 0.5})
        """
        given, pooled = content.get("domains", {}), content["pooled"]
        domains = {name: value for name, value in given.items() if value is not None}
        if not all(map(is_number, [*domains.values(), *([] if pooled is None else [pooled])])):
            raise TypeError("a metric that is not a number")
        return cls(pooled, domains)


@dataclass(frozen=True)
class Checkpoint:
    """What was measured after a step of a run: by split, and in it by domain.

    The splits are ``"train"`` (what is trained on), ``"validation"`` (the examples that are held
    out of each domain, training and test domains both; or whole validation domains) and ``"test"``
    (the rest of each test domain). ``accuracies`` has no entry for a split without classes;
    ``metrics`` are by split and by name, those that the run was asked for (``training.metrics``).
    """

    step: int
    risks: Mapping[str, Mapping[str, float]]
    accuracies: Mapping[str, Mapping[str, float]]
    metrics: Mapping[str, Mapping[str, SplitMetric]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON; without metrics, what earlier versions wrote."""
        found = {"step": self.step, "risks": self.risks, "accuracies": self.accuracies}
        if not self.metrics:
            return found
        metrics = {
            split: {name: each.to_dict() for name, each in by_name.items()}
            for split, by_name in self.metrics.items()
        }
        return {**found, "metrics": metrics}


@dataclass(frozen=True)
class RunPlace:
    """Which run of a sweep.

    Attributes:
        run: the hash of its configuration, which is the name of its folder.
        dataset, objective: as the plan calls them.
        held_out: the test domains.
        draw: the number of the hyperparameters' draw, or of the point of the grid; 0 is the first.
        trial: the number of the repetition; 0 is the first.
        settings: the values of what the plan searches over, by field of the configuration.
    """

    run: str
    dataset: str
    objective: str
    held_out: tuple[str, ...]
    draw: int
    trial: int
    settings: Mapping[str, Any]

    def place(self) -> dict[str, Any]:
        """What its record begins with, in plain types."""
        place = {each.name: getattr(self, each.name) for each in fields(RunPlace)}
        return {**place, "held_out": list(self.held_out), "settings": dict(self.settings)}


@dataclass(frozen=True)
class RunRecord(RunPlace):
    """A finished run of a sweep.

    ``checkpoints`` are in the order of their steps; the last is what the run ended with.
    """

    checkpoints: tuple[Checkpoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON; :meth:`from_dict` reads them."""
        return {**self.place(), "checkpoints": [each.to_dict() for each in self.checkpoints]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> RunRecord:
        """What :meth:`to_dict` described; ``TypeError`` for values of another type."""
        named = ("run", "dataset", "objective")
        if not all(
            isinstance(text, str) for text in (*map(content.get, named), *content["held_out"])
        ):
            raise TypeError("a name that is not a string")
        if not all(is_integer(content[key]) for key in ("draw", "trial")):
            raise TypeError("a draw or trial that is not an integer")
        return cls(
            run=content["run"],
            dataset=content["dataset"],
            objective=content["objective"],
            held_out=tuple(content["held_out"]),
            draw=content["draw"],
            trial=content["trial"],
            settings=dict(content["settings"]),
            checkpoints=tuple(map(_checkpoint, content["checkpoints"])),
        )


def _checkpoint(content: Mapping[str, Any]) -> Checkpoint:
    splits = (*content["risks"].values(), *content["accuracies"].values())
    if not are_numbers([value for values in splits for value in values.values()]):
        raise TypeError("a measured value that is not a number")
    if not is_integer(content["step"]):
        raise TypeError("a step that is not an integer")
    metrics = {
        split: {name: SplitMetric.from_dict(each) for name, each in by_name.items()}
        for split, by_name in content.get("metrics", {}).items()
    }
    return Checkpoint(content["step"], content["risks"], content["accuracies"], metrics)


def record_path(folder: Path, run: str, name: str = RECORD) -> Path:
    """Where the record of a run is in the folder of its sweep."""
    return folder / RUNS / run / name


def write_record(folder: Path, record: RunRecord, name: str = RECORD) -> None:
    """Write the record of a run, whole or not at all; the folder of the run must exist."""
    write_checked_json(record_path(folder, record.run, name), FORMAT, record.to_dict())


def read_record(folder: Path, run: str, name: str = RECORD) -> RunRecord:
    """The record of one run; ``name`` is that of its file."""
    path = record_path(folder, run, name)
    content = read_checked_json(path, FORMAT, "the record of a run")
    try:
        found = RunRecord.from_dict(content)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        reason = shortened(repr(error), 200)
        raise DataFileError(f"{path} is damaged: {reason} is missing or wrong.") from None
    if found.run != run:
        raise DataFileError(f"{path} is the record of another run, {found.run!r}.")
    return found


def recorded_runs(folder: Path) -> Iterator[str]:
    """The runs in a sweep's folder that have a record, in the order of their names."""
    runs = folder / RUNS
    for name in sorted(os.listdir(runs)) if runs.is_dir() else []:
        if _RUN.fullmatch(name) and os.path.isfile(f"{runs}/{name}/{RECORD}"):
            yield name


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause the garbage collector, which otherwise visits millions of numbers again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_records(folder: Path) -> list[RunRecord]:
    """Every record in a sweep's folder, in the order dataset, objective, domains, draw, trial.

    Damaged records are refused, all at once.
    """
    if not folder.is_dir():
        raise DataFileError(f"The folder {folder} does not exist.")
    with _without_collection():
        found, problems = [], []
        for run in recorded_runs(folder):
            try:
                found.append(read_record(folder, run))
            except DataFileError as error:
                problems.append(str(error))
    if problems:
        raise DataFileError(
            " ".join([*problems, "Run the sweep again with the same command: it repairs this."])
        )
    return sorted(found, key=lambda r: (r.dataset, r.objective, r.held_out, r.draw, r.trial))
