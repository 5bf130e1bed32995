"""Measured risks from files: one group-by in DuckDB, however large they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.checks import is_missing
from eqrm.data.tables.files import TableFiles, fetched_list, opened
from eqrm.data.tables.frames import in_memory
from eqrm.domains import ADVICE, Name, domain_names, joined_name
from eqrm.errors import DomainDataError, MissingExtraError
from eqrm.evaluation.measuring.accumulator import RiskAccumulator
from eqrm.evaluation.measuring.aggregated import risks_of_aggregates
from eqrm.evaluation.measuring.loss_columns import (
    LossColumn,
    as_double,
    loss_columns,
    named_columns,
)
from eqrm.evaluation.measuring.measurement_spec import AGGREGATED, MeasurementSpec
from eqrm.evaluation.measuring.metrics import as_numbers
from eqrm.evaluation.measuring.unusable_rows import SHOWN, Row, refuse_if_never_right, refuse_rows
from eqrm.risks import MeasuredRisks

ROWS_AT_A_TIME = 500_000


def risks_of_files(data: Any, spec: MeasurementSpec) -> dict[str, MeasuredRisks]:
    """The measured risks of every predictor in a table of files."""
    names = [spec.domains] if isinstance(spec.domains, str) else list(spec.domains)
    with opened(data, spec.threads, spec.memory, spec.progress) as table:
        if spec.aggregated:
            return _of_aggregates(table, names, spec)
        if spec.takes_predictions and callable(spec.metric):
            return _of_function(table, names, spec)
        return grouped_losses(table, names, loss_columns(table, spec)).measured


def _row_by_row(
    table: TableFiles,
    domains: list[str],
    columns: list[LossColumn],
    shown: Mapping[str, str] | None = None,
) -> str:
    """SELECT the domain d0, d1, … of each row and the losses l0, l1, …, NULL where unusable.

    What the losses are computed from is selected first, then the losses, then the usable ones,
    so that nothing is computed twice. ``shown`` is selected besides.
    """
    shown = shown or {}
    keys = {f"d{j}": sql for j, sql in enumerate(domains)}
    inputs = {key: sql for column in columns for key, sql in column.inputs.items()}
    first = selected({**keys, **inputs, **shown})
    kept = {key: key for key in (*keys, *shown)}
    raw = selected({**kept, **{f"r{i}": column.loss for i, column in enumerate(columns)}})
    finite = {
        f"l{i}": f"r{i}" if column.is_finite else f"CASE WHEN isfinite(r{i}) THEN r{i} END"
        for i, column in enumerate(columns)
    }
    usable = selected({**kept, **finite})
    return f"{usable} FROM ({raw} FROM ({first} FROM {table.source}))"


def selected(columns: Mapping[str, str]) -> str:
    """SELECT expressions by the names they are given."""
    return "SELECT " + ", ".join(f"{sql} AS {name}" for name, sql in columns.items())


@dataclass(frozen=True, eq=False)
class GroupedLosses:
    """The domains of a table, and the measured risks of its predictors on them.

    ``names`` are in no order; ``keys`` are what the domain columns hold for each of them.
    """

    names: list[Name]
    keys: list[list[Any]]
    measured: dict[str, MeasuredRisks]


def grouped_losses(table: TableFiles, names: list[str], columns: list[LossColumn]) -> GroupedLosses:
    """One pass: examples, mean (compensated sum) and variance (Welford) per domain."""
    domains = [table.domain(name) for name in names]
    keys = ", ".join(f"d{j}" for j in range(len(domains)))
    sums = ", ".join(
        f"count(l{i}) AS n{i}, favg(l{i}) AS m{i}, var_samp(l{i}) AS v{i}"
        for i in range(len(columns))
    )
    rows = _row_by_row(table, domains, columns)
    sql = f"SELECT {keys}, count(*) AS n, {sums} FROM ({rows}) GROUP BY {keys}"
    parameters = {k: v for column in columns for k, v in column.parameters.items()}
    found = table.fetched(sql, **parameters)
    found_names = _names_of_domains(table, names, found, len(domains))
    counts = np.asarray(found["n"])
    for i, column in enumerate(columns):
        bad = counts - np.asarray(found[f"n{i}"])
        if bad.any():
            _refuse_rows(table, domains, column, found_names, bad, int(counts.sum()))
    measured = {}
    for i, column in enumerate(columns):
        variances = np.ma.filled(found[f"v{i}"], np.nan)
        risks = MeasuredRisks.of(found_names, counts, found[f"m{i}"], variances)
        refuse_if_never_right(column.predictor, risks, column.expected)
        measured[column.predictor] = risks
    held = [fetched_list(found[f"d{j}"]) for j in range(len(domains))]
    return GroupedLosses(found_names, held, measured)


def _names_of_domains(
    table: TableFiles, names: list[str], found: Mapping[str, Any], width: int
) -> list[Name]:
    rows = _joined([fetched_list(found[f"d{j}"]) for j in range(width)])
    if any(is_missing(row) for row in rows):
        shown = " or ".join(repr(name) for name in names)
        missing = int(np.asarray(found["n"])[[is_missing(row) for row in rows]].sum())
        place = _first_missing_domain(table, names)
        raise DomainDataError(
            f"The domain ({shown}) is missing in {missing:,} rows (first: {place}). {ADVICE}"
        )
    return domain_names(rows)


def _first_missing_domain(table: TableFiles, names: list[str]) -> str:
    held = [table.column(name) for name in names if not table.is_filename(name)]
    absent = " OR ".join(f"{sql} IS NULL OR trim(CAST({sql} AS VARCHAR)) = ''" for sql in held)
    for path in table.files:
        sql = (
            f"SELECT row FROM (SELECT *, row_number() OVER () AS row FROM {table.source}) "
            f"WHERE {absent} LIMIT 1"
        )
        row = table.run(sql, [path]).fetchone()
        if row:
            return f"{path} row {row[0]}"
    return "an unknown row"


def _refuse_rows(
    table: TableFiles,
    domains: list[str],
    column: LossColumn,
    names: list[Name],
    bad: Any,
    total: int,
) -> None:
    """Look for the first rows without a usable loss, file by file, and say what is wrong."""
    label, prediction = column.shown
    shown = {"label": label, "prediction": prediction, "row": "row_number() OVER ()"}
    rows = _row_by_row(table, domains, [column], shown)
    sql = f"SELECT * EXCLUDE (l0) FROM ({rows}) WHERE l0 IS NULL LIMIT {SHOWN}"
    found: list[Row] = []
    for path in table.files:
        for *keys, y, p, row in table.run(sql, [path], **column.parameters).fetchall():
            found.append(Row(f"{path} row {row}", _joined([[key] for key in keys])[0], y, p))
        if len(found) >= SHOWN:
            break
    affected = [names[int(i)] for i in np.flatnonzero(bad)]
    refuse_rows(column.predictor, found, int(bad.sum()), total, affected, column.expected)


def _joined(columns: list[list[Any]]) -> list[Any]:
    """The domain of each row; several columns together make one."""
    if len(columns) == 1:
        return columns[0]
    return [joined_name(row) for row in zip(*columns, strict=True)]


def _of_aggregates(
    table: TableFiles, names: list[str], spec: MeasurementSpec
) -> dict[str, MeasuredRisks]:
    keys = [f"{table.domain(name)} AS d{j}" for j, name in enumerate(names)]
    held = {key: spec.columns[key] for key in AGGREGATED}
    values = [
        f"{as_double(table.column(name), table.types[name])} AS {key}" for key, name in held.items()
    ]
    label = "NULL" if spec.predictor is None else table.column(spec.predictor)
    sql = (
        f"SELECT {', '.join(keys + values)}, CAST({label} AS VARCHAR) AS predictor, 1 AS n "
        f"FROM {table.source}"
    )
    found = table.fetched(sql)
    rows = _names_of_domains(table, names, found, len(names))
    numbers: list[Any] = [
        np.ma.filled(np.ma.asarray(found[key], dtype=float), np.nan) for key in AGGREGATED
    ]
    predictors = None if spec.predictor is None else fetched_list(found["predictor"])
    return risks_of_aggregates(rows, *numbers, predictors=predictors)


def _of_function(
    table: TableFiles, names: list[str], spec: MeasurementSpec
) -> dict[str, MeasuredRisks]:
    """Losses by a Python function, which sees some 100,000 rows at a time.

    Numbers in CSV files arrive as float64, and other columns as they are.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("pyarrow", "tables", "A loss function over files") from error
    columns = named_columns(table, spec.predictions)
    read = [spec.labels, *columns.values()]
    keys = {f"d{j}": table.domain(name) for j, name in enumerate(names)}
    held = {f"v{i}": table.column(name) for i, name in enumerate(read)}
    gathered = {name: RiskAccumulator(across_processes=False) for name in columns}
    start = 0
    sql = f"{selected({**keys, **held})} FROM {table.source}"
    for batch in table.batches(sql, ROWS_AT_A_TIME):
        domains = _joined([batch.column(key).to_pylist() for key in keys])
        absent = next((i for i, name in enumerate(domains) if is_missing(name)), None)
        if absent is not None:
            raise DomainDataError(f"The domain of row {start + absent + 1} is missing. {ADVICE}")
        labels, *predictions = (_read(batch.column(key)) for key in held)
        for values, (name, accumulator) in zip(predictions, gathered.items(), strict=True):
            losses = as_numbers(in_memory(spec.metric(labels, values)))  # type: ignore[operator]
            bad = np.flatnonzero(~np.isfinite(losses))
            if bad.size:
                i = int(bad[0])
                raise DomainDataError(
                    f"{name}: the loss of row {start + i + 1} (domain {domains[i]!r}) is "
                    f"{losses[i]}. Losses must be finite: fix the function or the row."
                )
            accumulator.update(losses, domains)
        start += len(domains)
    return {name: accumulator.compute() for name, accumulator in gathered.items()}


def _read(column: Any) -> Any:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "O":
        numbers = as_numbers(values)
        return values if np.isnan(numbers).any() else numbers
    return values
