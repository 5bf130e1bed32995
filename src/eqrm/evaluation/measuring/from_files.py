"""Measured risks from files: one group-by in DuckDB, however large they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqrm.checks import is_missing
from eqrm.data.tables.files import TableFiles, fetched_list, opened
from eqrm.domains import ADVICE, Name, domain_names, joined_name
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.aggregated import refuse_missing_predictors, risks_of_table
from eqrm.evaluation.measuring.columns import AGGREGATED, Question
from eqrm.evaluation.measuring.loss_columns import LossColumn, as_double, loss_columns
from eqrm.evaluation.measuring.measured_risks import MeasuredRisks
from eqrm.evaluation.measuring.unusable_rows import SHOWN, Row, refuse, refuse_if_never_right


def risks_of_files(data: Any, question: Question) -> dict[str, MeasuredRisks]:
    """The measured risks of every predictor in a table of files."""
    with opened(data, question.threads, question.memory, question.progress) as table:
        if question.aggregated:
            return _of_aggregated(table, question)
        if question.losses is None and not isinstance(question.metric, str):
            from eqrm.evaluation.measuring.streamed_files import risks_of_function

            domains = [table.domain(name) for name in _domain_columns(question)]
            return risks_of_function(table, question, domains)
        return _grouped(table, _domain_columns(question), loss_columns(table, question))


def _domain_columns(question: Question) -> list[str]:
    domains = question.domains
    return [domains] if isinstance(domains, str) else list(domains)


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
    first = _select({**keys, **inputs, **shown})
    kept = {key: key for key in (*keys, *shown)}
    raw = _select({**kept, **{f"r{i}": column.loss for i, column in enumerate(columns)}})
    finite = {
        f"l{i}": f"r{i}" if column.is_finite else f"CASE WHEN isfinite(r{i}) THEN r{i} END"
        for i, column in enumerate(columns)
    }
    usable = _select({**kept, **finite})
    return f"{usable} FROM ({raw} FROM ({first} FROM {table.source}))"


def _select(columns: Mapping[str, str]) -> str:
    return "SELECT " + ", ".join(f"{sql} AS {name}" for name, sql in columns.items())


def _grouped(
    table: TableFiles, names: list[str], columns: list[LossColumn]
) -> dict[str, MeasuredRisks]:
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
    return measured


def _names_of_domains(
    table: TableFiles, names: list[str], found: Mapping[str, Any], width: int
) -> list[Name]:
    columns = [fetched_list(found[f"d{j}"]) for j in range(width)]
    rows = columns[0] if width == 1 else [joined_name(row) for row in zip(*columns, strict=True)]
    if any(is_missing(row) for row in rows):
        shown = " or ".join(repr(name) for name in names)
        missing = int(np.asarray(found["n"])[[is_missing(row) for row in rows]].sum())
        place = _first_missing_domain(table, names)
        raise DomainDataError(
            f"The domain ({shown}) is missing in {missing:,} rows, first in {place}. {ADVICE}"
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
            domain = keys[0] if len(keys) == 1 else joined_name(keys)
            found.append(Row(f"{path} row {row}", domain, y, p))
        if len(found) >= SHOWN:
            break
    affected = [names[int(i)] for i in np.flatnonzero(bad)]
    refuse(column.predictor, found, int(bad.sum()), total, affected, column.expected)


def _of_aggregated(table: TableFiles, question: Question) -> dict[str, MeasuredRisks]:
    names = _domain_columns(question)
    domains = [table.domain(name) for name in names]
    keys = [f"{sql} AS d{j}" for j, sql in enumerate(domains)]
    held = {key: question.columns[key] for key in AGGREGATED}
    values = [
        f"{as_double(table.column(name), table.types[name])} AS {key}" for key, name in held.items()
    ]
    label = "NULL" if question.predictor is None else table.column(question.predictor)
    sql = (
        f"SELECT {', '.join(keys + values)}, CAST({label} AS VARCHAR) AS predictor, 1 AS n "
        f"FROM {table.source}"
    )
    found = table.fetched(sql)
    rows = np.array(_names_of_domains(table, names, found, len(domains)), dtype=object)
    arrays: list[Any] = [
        np.ma.filled(np.ma.asarray(found[key], dtype=float), np.nan) for key in AGGREGATED
    ]
    if question.predictor is None:
        return {"predictor": risks_of_table(rows, *arrays)}
    of_predictor = np.array(fetched_list(found["predictor"]), dtype=object)
    refuse_missing_predictors(of_predictor)
    return {
        str(name): risks_of_table(*(a[of_predictor == name] for a in (rows, *arrays)))
        for name in dict.fromkeys(of_predictor.tolist())
    }
