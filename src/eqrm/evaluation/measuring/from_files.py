"""Measured risks from files: one group-by in DuckDB, however large they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from eqrm.data.tables.files import TableFiles, fetched_list, opened
from eqrm.data.tables.frames import in_memory
from eqrm.domains import ADVICE, joined_columns
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.accumulator import RiskAccumulator
from eqrm.evaluation.measuring.aggregated import risks_of_aggregates
from eqrm.evaluation.measuring.domain_columns import facts_of_files
from eqrm.evaluation.measuring.grouped_losses import (
    grouped_losses,
    missing_domains,
    names_of_domains,
    selected,
)
from eqrm.evaluation.measuring.loss_columns import as_double, loss_columns, named_columns
from eqrm.evaluation.measuring.measurement_spec import AGGREGATED, MeasurementSpec
from eqrm.evaluation.measuring.metrics import as_numbers
from eqrm.evaluation.measuring.prediction_rows import ROWS_AT_A_TIME, Measured, PredictionTable
from eqrm.risks import MeasuredRisks


def risks_of_files(data: Any, spec: MeasurementSpec) -> dict[str, Measured]:
    """The measured risks of every predictor in a table of files."""
    names = [spec.domains] if isinstance(spec.domains, str) else list(spec.domains)
    with opened(data, spec.threads, spec.memory, spec.progress) as table:
        if spec.aggregated:
            found = {k: Measured(each) for k, each in _of_aggregates(table, names, spec).items()}
        elif spec.takes_predictions and callable(spec.metric):
            found = {k: Measured(each) for k, each in _of_function(table, names, spec).items()}
        else:
            found = _of_columns(table, names, spec)
        facts = facts_of_files(table, names, spec)
    return {name: replace(each, facts=facts) for name, each in found.items()}


def _of_columns(table: TableFiles, names: list[str], spec: MeasurementSpec) -> dict[str, Measured]:
    """Losses in SQL; rows are read besides where references need them, and are not too many."""
    columns = loss_columns(table, spec)
    grouped = grouped_losses(table, names, columns, spec.with_references, spec.part)
    found = {}
    for column in columns:
        name, rows = column.predictor, None
        risks, labels = grouped.measured[name], grouped.labels.get(name)
        if labels is not None and int(risks.counts.sum()) * len(columns) <= spec.most_rows:
            rows = PredictionTable(table, names, column, grouped).all_rows()
        found[name] = Measured(risks, column.expected.several, labels, rows)
    return found


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
    rows = names_of_domains(table, names, found, len(names))
    numbers: list[Any] = [
        np.ma.filled(np.ma.asarray(found[key], dtype=float), np.nan) for key in AGGREGATED
    ]
    predictors = None if spec.predictor is None else fetched_list(found["predictor"])
    return risks_of_aggregates(rows, *numbers, predictors=predictors, part=spec.part)


def _of_function(
    table: TableFiles, names: list[str], spec: MeasurementSpec
) -> dict[str, MeasuredRisks]:
    """Losses by a Python function, which sees some 100,000 rows at a time.

    Numbers in CSV files arrive as float64, and other columns as they are.
    """
    columns = named_columns(table, spec.predictions)
    read = [spec.labels, *columns.values()]
    keys = {f"d{j}": table.domain(name) for j, name in enumerate(names)}
    held = {f"v{i}": table.column(name) for i, name in enumerate(read)}
    gathered = {name: RiskAccumulator(across_processes=False) for name in columns}
    start = 0
    sql = f"{selected({**keys, **held})} FROM {table.source}"
    for batch in table.batches(sql, ROWS_AT_A_TIME):
        columns_of_domain = [batch.column(key).to_pylist() for key in keys]
        absent = missing_domains(columns_of_domain)
        if any(absent):
            row = start + absent.index(True) + 1
            raise DomainDataError(f"The domain of row {row} is missing. {ADVICE}")
        domains = joined_columns(columns_of_domain)
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
