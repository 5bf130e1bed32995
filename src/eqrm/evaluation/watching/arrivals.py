"""New rows: the examples of each domain in each file, measured as the certificate was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from eqrm.data.tables.files import TableFiles, find_files, opened
from eqrm.data.times import as_times, domain_spans
from eqrm.domains import Name
from eqrm.errors import DataFileError, DomainDataError, EqrmError
from eqrm.evaluation.measuring.domain_columns import domain_times
from eqrm.evaluation.parts import evaluate_part
from eqrm.evaluation.watching.claim import Time, WatchedColumns, plain_times
from eqrm.text import did_you_mean, listed

MEMORY = "600MB"
SHORT = 16
"""Digits of a file's fingerprint that the state keeps for every domain in it."""
ORDERED = (
    "Domains are watched in the order of time: name the column with the time of each row "
    "(--order COLUMN, with --start or --restart)."
)


@dataclass(frozen=True)
class Arrival:
    """The rows of one domain in one file: when, how many, and the mean of their losses.

    ``source`` tells the file from others by its content, ``place`` by where it is, and ``seen``
    says whether the model was trained on the domain (the column that ``eqrm predict`` writes).
    """

    domain: Name
    time: Time
    examples: int
    risk: float
    source: str
    file: str
    seen: bool = False
    place: str = ""


def read_arrivals(
    patterns: Sequence[str], columns: WatchedColumns, predictor: str
) -> list[Arrival]:
    """The domains in CSV and Parquet files, patterns or folders; all problems are one error."""
    problems, paths, found = [], [], []
    for pattern in patterns:
        try:
            paths += [path for path in find_files([pattern]) if path not in paths]
        except DataFileError as error:
            problems.append(str(error))
    for path in paths:
        try:
            found += _of_file(path, columns, predictor)
        except EqrmError as error:
            message = str(error)
            problems.append(message if path.name in message else f"{path}: {message}")
    if problems:
        raise DomainDataError(" ".join(problems))
    return found


def _of_file(path: Path, columns: WatchedColumns, predictor: str) -> list[Arrival]:
    measured: dict[str, Any] = {"losses": {predictor: columns.loss}}
    if columns.loss is None:
        measured = {"labels": columns.label, "predictions": {predictor: columns.prediction}}
        measured |= {"metric": columns.metric, "clip": columns.clip}
    try:
        # One thread, so that sums are added up in the same order every time.
        part = evaluate_part([path], domains=list(columns.domain), threads=1, **measured)
        times = _times(path, columns)
    except EqrmError:
        _refuse_unusable(path, columns)
        raise
    risks, (source,) = part.predictors[predictor], part.sources
    if times is None:
        named = as_times(list(risks.domains), f"The domains of {path.name}", ORDERED)
        times = dict(zip(map(str, risks.domains), plain_times(named), strict=True))
    seen = part.seen or frozenset()
    rows = zip(risks.domains, risks.counts.tolist(), risks.risks.tolist(), strict=True)
    place = sha256(str(path.resolve()).encode()).hexdigest()[:SHORT]
    return [
        Arrival(
            name, times[str(name)], n, risk, source[:SHORT], path.name, str(name) in seen, place
        )
        for name, n, risk in rows
    ]


def _refuse_unusable(path: Path, columns: WatchedColumns) -> None:
    """Refuse a file that lacks columns, naming all of them, or that has no rows."""
    with opened(path, 1, MEMORY) as table:
        _refuse_missing(table, columns)
        (rows,) = table.run(f"SELECT count(*) FROM {table.source}").fetchone()
    if rows == 0:
        raise DomainDataError(f"{path.name} has columns, but no rows.")


def _refuse_missing(table: TableFiles, columns: WatchedColumns) -> None:
    wanted = [*columns.domain, columns.loss, columns.label, columns.prediction, columns.order]
    missing = [
        name
        for name in dict.fromkeys(wanted)
        if name is not None
        and name not in table.types
        and not table.is_filename(name)
        and "{class}" not in name
    ]
    if missing:
        plural = "" if len(missing) == 1 else "s"
        raise DomainDataError(
            f"{table.files[0].name} has no column{plural} {listed(missing)}. "
            f"{did_you_mean(missing[0], list(table.types))}"
        )


def _times(path: Path, columns: WatchedColumns) -> Mapping[str, Time] | None:
    """The earliest time of each domain's rows; None where the names are the times."""
    if columns.order is None or columns.domain == (columns.order,):
        return None
    with opened(path, 1, MEMORY) as table:
        return _earliest(table, list(columns.domain), columns.order)


def _earliest(table: TableFiles, names: list[str], order: str) -> Mapping[str, Time]:
    domains, times = domain_times(table, names, order)
    what = f"The order column {order!r} of {table.files[0].name}"
    spans = domain_spans(domains.ids, domains.names, times, what, "")
    return dict(zip(map(str, domains.names), plain_times(spans.first), strict=True))
