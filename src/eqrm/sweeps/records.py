"""The record of a finished run: what was trained, and its risks per domain at each checkpoint.

A sweep's folder holds a folder per run, ``runs/<hash of the configuration>``, and a finished run
has a ``record.json`` in it. Selection rules and tables read records only, those of DomainBed's own
sweeps too: it writes a line of JSON per checkpoint, in which ``envN_in_acc`` is measured on 80% of
domain N and ``envN_out_acc`` on the other 20%. So "train" is the first part of training domains,
"test" that of held-out domains, and "validation" the second part of every domain.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from eqrm.checks import FRACTION, NON_NEGATIVE_INTEGER, are_numbers, is_integer, is_number
from eqrm.errors import DataFileError
from eqrm.files.checked_json import parsed_json, read_checked_json, write_checked_json
from eqrm.files.plain import plain_values
from eqrm.files.reading import opened_text, refusing_damage
from eqrm.text import shortened

FORMAT = "eqrm run record 1"
RECORD = "record.json"
RUNS = "runs"
_RUN = re.compile(r"[0-9a-f]{16}")
_PLACE = attrgetter("dataset", "objective", "held_out", "draw", "trial")


@dataclass(frozen=True)
class SplitMetric:
    """A metric of a split: of all its examples together, and of the domains that have it.

    ``pooled`` is None where the metric is not defined, as the ROC-AUC of one class.
    """

    pooled: float | None
    domains: Mapping[str, float]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> SplitMetric:
        """What a record or ``metrics.jsonl`` says, which lists domains without it as None."""
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
        kept = {"metrics": plain_values(self.metrics)} if self.metrics else {}
        return {"step": self.step, "risks": self.risks, "accuracies": self.accuracies, **kept}


@dataclass(frozen=True)
class RunPlace:
    """Which run of a sweep; ``run`` is the hash of its configuration, and names its folder.

    ``draw`` numbers draws of hyperparameters or points of the grid; ``settings`` are the values of
    what the plan searches over, by field of the configuration.
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
    """A finished run; ``checkpoints`` are by step, the last is what the run ended with."""

    checkpoints: tuple[Checkpoint, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**self.place(), "checkpoints": [each.to_dict() for each in self.checkpoints]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> RunRecord:
        """What :meth:`to_dict` described; ``TypeError`` for values of another type."""
        names = [*map(content.get, ("run", "dataset", "objective")), *content["held_out"]]
        if not all(isinstance(name, str) for name in names):
            raise TypeError("a name that is not a string")
        if not all(is_integer(content[key]) for key in ("draw", "trial")):
            raise TypeError("a draw or trial that is not an integer")
        place = {each.name: content[each.name] for each in fields(RunPlace)}
        place |= {"held_out": tuple(place["held_out"]), "settings": dict(place["settings"])}
        return cls(**place, checkpoints=tuple(map(_checkpoint, content["checkpoints"])))


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


def record_path(folder: Path, run: str) -> Path:
    """Where the record of a run is in the folder of its sweep."""
    return folder / RUNS / run / RECORD


def write_record(folder: Path, record: RunRecord) -> None:
    """Write the record of a run, whole or not at all; the folder of the run must exist."""
    write_checked_json(record_path(folder, record.run), FORMAT, record.to_dict())


def read_record(folder: Path, run: str) -> RunRecord:
    """The record of one run."""
    path = record_path(folder, run)
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


def read_records(folder: Path) -> list[RunRecord]:
    """Every record in a sweep's folder, in the order dataset, objective, domains, draw, trial.

    Damaged records are refused, all at once.
    """
    if not folder.is_dir():
        raise DataFileError(f"The folder {folder} does not exist.")
    found, problems = [], []
    collects = gc.isenabled()
    gc.disable()  # it would visit millions of numbers again and again
    try:
        for run in recorded_runs(folder):
            try:
                found.append(read_record(folder, run))
            except DataFileError as error:
                problems.append(str(error))
    finally:
        if collects:
            gc.enable()
    if problems:
        problems.append("Run the sweep again with the same command: it repairs this.")
        raise DataFileError(" ".join(problems))
    return sorted(found, key=_PLACE)


ENVIRONMENTS = {
    "ColoredMNIST": ("+90%", "+80%", "-90%"),
    "RotatedMNIST": ("0", "15", "30", "45", "60", "75"),
    "VLCS": ("C", "L", "S", "V"),
    "PACS": ("A", "C", "P", "S"),
    "OfficeHome": ("A", "C", "P", "R"),
    "TerraIncognita": ("L100", "L38", "L43", "L46"),
    "DomainNet": ("clip", "info", "paint", "quick", "real", "sketch"),
}
"""What DomainBed calls the domains of its datasets, in its order; others are ``env0``, ``env1``."""
FILES = ("records.jsonl", "records.jsonl.gz")
PARTS = "*/results.jsonl"
_MEASURED = re.compile(r"env(\d+)_(in|out)_acc")


def sweep_records(place: Path) -> list[RunRecord]:
    """The records of a sweep's folder, ours or DomainBed's, or of a file of DomainBed's."""
    if not (place / RUNS).is_dir() and domainbed_files(place):
        return read_domainbed_records(place)
    found = read_records(place)
    if not found:
        raise DataFileError(
            f"{place} holds no finished run: neither {RUNS}/*/record.json of eqrm sweep nor "
            f"DomainBed's {FILES[0]} (or .gz) or {PARTS}."
        )
    return found


def domainbed_files(place: Path) -> list[Path]:
    """The files of DomainBed's records in a folder, or the file itself; none in other folders."""
    if place.is_file():
        return [place]
    collected = [place / name for name in FILES if (place / name).is_file()]
    return collected[:1] or sorted(place.glob(PARTS))


def read_domainbed_records(place: Path) -> list[RunRecord]:
    """The runs in a file ``records.jsonl`` (or ``.gz``), or in the output folder of a sweep.

    A folder holds a folder per run with ``results.jsonl``; a run without DomainBed's file
    ``done`` beside it, or with ``"done": false`` in its records, is not finished and left out.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for file in domainbed_files(place):
        part = file.name == "results.jsonl"
        if part and not (file.parent / "done").is_file():
            continue
        for line, content in _lines(file):
            try:
                name = str(file.parent.name if part else content["run"])
                if content.get("done", True):
                    rows.setdefault(name, []).append(content)
            except (KeyError, TypeError, AttributeError):
                raise DataFileError(
                    f"Line {line} of {file} is not a record of a run: each line of {FILES[0]} must "
                    "be a JSON object with the key 'run', which says whose checkpoint it is."
                ) from None
    return sorted((_run_record(name, found) for name, found in rows.items()), key=_PLACE)


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with refusing_damage(file), opened_text(file) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield number, parsed_json(line)
            except ValueError:
                raise DataFileError(f"Line {number} of {file} is not JSON: was it cut?") from None


def _run_record(name: str, rows: Sequence[Mapping[str, Any]]) -> RunRecord:
    try:
        settings = rows[0]["args"]
        dataset = settings["dataset"]
        _refuse_odd_types(settings, rows)
        held_out = tuple(_domain(dataset, number) for number in sorted(settings["test_envs"]))
        return RunRecord(
            run=name,
            dataset=dataset,
            objective=settings["algorithm"],
            held_out=held_out,
            draw=settings["hparams_seed"],
            trial=settings["trial_seed"],
            settings=rows[0]["hparams"],
            checkpoints=tuple(
                _of_row(row, dataset, held_out) for row in sorted(rows, key=lambda r: r["step"])
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it has no key {error}" if isinstance(error, KeyError) else str(error)
        raise DataFileError(
            f"The record of the run {name!r} is not one of DomainBed's: {reason.rstrip('.')}."
        ) from None


def _refuse_odd_types(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    for key in ("dataset", "algorithm"):
        if not isinstance(settings[key], str):
            raise TypeError(f"{key} must be a name, got {settings[key]!r}")
    numbers = {key: settings[key] for key in ("hparams_seed", "trial_seed")}
    held_out = settings["test_envs"]
    if not isinstance(held_out, list) or len({*map(str, held_out)}) < len(held_out):
        raise TypeError(f"test_envs must be a list of different numbers, got {held_out!r}")
    numbers |= {f"test_envs[{place}]": each for place, each in enumerate(held_out)}
    for key, value in [*numbers.items(), *(("step", row["step"]) for row in rows)]:
        NON_NEGATIVE_INTEGER.check(value, key)


def _of_row(row: Mapping[str, Any], dataset: str, held_out: Sequence[str]) -> Checkpoint:
    found: dict[str, dict[str, float]] = {"train": {}, "validation": {}, "test": {}}
    for key, value in row.items():
        if measured := _MEASURED.fullmatch(key):
            domain = _domain(dataset, int(measured[1]))
            seen = "test" if domain in held_out else "train"
            if value == value:  # NaN: the run is not judged
                FRACTION.check(value, key)
            found["validation" if measured[2] == "out" else seen][domain] = float(value)
    return Checkpoint(step=row["step"], risks={}, accuracies=found)


def _domain(dataset: str, number: int) -> str:
    names = ENVIRONMENTS.get(dataset, ())
    return names[number] if number < len(names) else f"env{number}"
