"""Records of DomainBed's own sweeps, read as records of runs.

DomainBed writes a line of JSON per checkpoint: ``envN_in_acc`` is measured on 80% of domain N,
``envN_out_acc`` on the other 20%. So "train" is the first part of training domains, "test" the
first part of held-out domains, and "validation" the second part of every domain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eqrm.checks import FRACTION, NON_NEGATIVE_INTEGER
from eqrm.errors import DataFileError
from eqrm.files.checked_json import parsed_json
from eqrm.files.reading import opened_text, refusing_damage
from eqrm.sweeps.records import RUNS, Checkpoint, RunRecord, read_records

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
    files = domainbed_files(place)
    if not files:
        raise DataFileError(
            f"{place} holds no records of DomainBed: neither {FILES[0]} (or .gz) nor {PARTS}."
        )
    rows: dict[str, list[dict[str, Any]]] = {}
    for file in files:
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
    return sorted(
        (_run_record(name, found) for name, found in rows.items()),
        key=lambda r: (r.dataset, r.objective, r.held_out, r.draw, r.trial),
    )


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
                _checkpoint(row, dataset, held_out) for row in sorted(rows, key=lambda r: r["step"])
            ),
        )
    except KeyError as missing:
        raise DataFileError(
            f"The record of the run {name!r} is not one of DomainBed's: it has no key {missing}."
        ) from None
    except (TypeError, ValueError) as error:
        raise DataFileError(
            f"The record of the run {name!r} is not one of DomainBed's: {error}."
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
        if not NON_NEGATIVE_INTEGER.holds(value):
            raise TypeError(f"{key} must be {NON_NEGATIVE_INTEGER.words}, got {value!r}")


def _checkpoint(row: Mapping[str, Any], dataset: str, held_out: Sequence[str]) -> Checkpoint:
    found: dict[str, dict[str, float]] = {"train": {}, "validation": {}, "test": {}}
    for key, value in row.items():
        if measured := _MEASURED.fullmatch(key):
            domain = _domain(dataset, int(measured[1]))
            seen = "test" if domain in held_out else "train"
            if not FRACTION.holds(value) and value == value:  # NaN: the run is not judged
                raise ValueError(f"{key} must be {FRACTION.words}, got {value!r}")
            found["validation" if measured[2] == "out" else seen][domain] = float(value)
    return Checkpoint(step=row["step"], risks={}, accuracies=found)


def _domain(dataset: str, number: int) -> str:
    names = ENVIRONMENTS.get(dataset, ())
    return names[number] if number < len(names) else f"env{number}"
