"""Measured risks from files: one group-by in DuckDB, however large they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.files import TableFiles, fetched_list, opened
from eqrm.data.tables.frames import in_memory
from eqrm.domains import ADVICE, joined_columns, number_domains
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.evaluation.measuring.accumulator import RiskAccumulator
from eqrm.evaluation.measuring.domain_columns import facts_of_files
from eqrm.evaluation.measuring.from_arrays import risks_of_aggregates, stacked
from eqrm.evaluation.measuring.grouped_losses import (
    ROWS_AT_A_TIME,
    GroupedLosses,
    PredictionTable,
    grouped_losses,
    missing_domains,
    names_of_domains,
    selected,
)
from eqrm.evaluation.measuring.loss_columns import (
    LossColumn,
    as_double,
    is_probability,
    loss_columns,
    named_columns,
    template_columns,
)
from eqrm.evaluation.measuring.measured import Measured
from eqrm.evaluation.measuring.measurement_spec import AGGREGATED, MOST_ROWS, MeasurementSpec
from eqrm.evaluation.measuring.metrics import as_numbers
from eqrm.evaluation.measuring.rows import RowsOfPredictions
from eqrm.evaluation.measuring.set_metrics import SetMetric
from eqrm.risks import MeasuredRisks
from eqrm.text import listed

CLASS, TASK = "{class}", "{task}"


def risks_of_files(data: Any, spec: MeasurementSpec) -> dict[str, Measured]:
    """The measured risks of every model in a table of files."""
    with opened(data, spec.threads, spec.memory, spec.progress) as table:
        spec.refuse_incomplete(table.types)
        names = [spec.domains] if isinstance(spec.domains, str) else list(spec.domains)
        if spec.aggregated:
            found = {k: Measured(each) for k, each in _of_aggregates(table, names, spec).items()}
        elif spec.set_metric is not None:
            found = _of_set_metric(table, names, spec, spec.set_metric)
        elif spec.takes_predictions and callable(spec.metric):
            found = {k: Measured(each) for k, each in _of_function(table, names, spec).items()}
        else:
            found = _of_columns(table, names, spec)
        facts = facts_of_files(table, names, spec)
    return {name: replace(each, facts=facts) for name, each in found.items()}


def _of_columns(table: TableFiles, names: list[str], spec: MeasurementSpec) -> dict[str, Measured]:
    """Losses in SQL; rows are read besides where references need them, and are not too many."""
    columns = loss_columns(table, spec)
    grouped = grouped_losses(table, names, columns, spec.keeps_rows, spec.part)
    found = {}
    for column in columns:
        name, rows = column.model, None
        risks, labels = grouped.measured[name], grouped.labels.get(name)
        if labels is not None and int(risks.counts.sum()) * len(columns) <= spec.most_rows:
            every = PredictionTable(table, names, column, grouped).rows()
            rows = RowsOfPredictions.joined(list(every))
        again = partial(_reread, spec, names, column, grouped, table.files)
        classes = tuple(column.expected.classes or ())
        several = column.expected.several
        found[name] = Measured(risks, several, labels, rows, reread=again, classes=classes)
    return found


def _reread(
    spec: MeasurementSpec,
    names: list[str],
    column: LossColumn,
    grouped: GroupedLosses,
    files: Sequence[Path],
) -> Iterator[RowsOfPredictions]:
    """All rows of one model from the files, sorted by domain: some whole domains at a time."""
    with opened(files, spec.threads, spec.memory, spec.progress) as table:
        rows, held = PredictionTable(table, names, column, grouped), list[RowsOfPredictions]()
        for part in rows.rows(ordered=True):
            whole = int(np.searchsorted(part.domain, part.domain[-1]))
            if whole:
                yield RowsOfPredictions.joined([*held, part.of(slice(whole))])
                held = []
            held.append(part.of(slice(whole, None)))
        if held:
            yield RowsOfPredictions.joined(held)


def _of_aggregates(
    table: TableFiles, names: list[str], spec: MeasurementSpec
) -> dict[str, MeasuredRisks]:
    held = {f"d{j}": table.domain(name) for j, name in enumerate(names)}
    held |= {key: as_double(table, spec.columns[key]) for key in AGGREGATED}
    label = "NULL" if spec.model is None else table.column(spec.model)
    held |= {"model": f"CAST({label} AS VARCHAR)", "n": "1"}
    found = table.fetched(f"{selected(held)} FROM {table.source}")
    rows = names_of_domains(table, names, found)
    numbers: list[Any] = [
        np.ma.filled(np.ma.asarray(found[key], dtype=float), np.nan) for key in AGGREGATED
    ]
    models = None if spec.model is None else fetched_list(found["model"])
    return risks_of_aggregates(rows, *numbers, models=models, part=spec.part)


def _batches(
    table: TableFiles, names: list[str], held: Mapping[str, str]
) -> Iterator[tuple[Any, dict[str, NDArray[Any]]]]:
    """Some 100,000 rows at a time: their domains, and the columns that are held."""
    keys = {f"d{j}": table.domain(name) for j, name in enumerate(names)}
    start, sql = 0, f"{selected({**keys, **held})} FROM {table.source}"
    for batch in table.batches(sql, ROWS_AT_A_TIME):
        columns = [batch.column(key).to_pylist() for key in keys]
        absent = missing_domains(columns)
        if any(absent):
            row = start + absent.index(True) + 1
            raise DomainDataError(f"The domain of row {row} is missing. {ADVICE}")
        values = {key: batch.column(key).to_numpy(zero_copy_only=False) for key in held}
        yield joined_columns(columns), values
        start += batch.num_rows


def _of_function(
    table: TableFiles, names: list[str], spec: MeasurementSpec
) -> dict[str, MeasuredRisks]:
    """Losses by a Python function; text that holds numbers, as in CSV files, arrives as float64."""
    columns = named_columns(table, spec.predictions)
    held = {"label": table.column(spec.target)}
    held |= {f"v{i}": table.column(name) for i, name in enumerate(columns.values())}
    gathered = {name: RiskAccumulator(across_processes=False) for name in columns}
    start = 0
    for domains, found in _batches(table, names, held):
        labels, *predictions = (_numbers_in(found[key]) for key in held)
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
        start += len(labels)
    return {name: accumulator.compute() for name, accumulator in gathered.items()}


def _numbers_in(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "O":
        numbers = as_numbers(values)
        return values if np.isnan(numbers).any() else numbers
    return values


def _of_set_metric(
    table: TableFiles, names: list[str], spec: MeasurementSpec, metric: SetMetric
) -> dict[str, Measured]:
    """All rows at once; ``p_{task}`` and ``p_{class}`` match several columns."""
    ((rows,),) = table.run(f"SELECT count(*) FROM {table.source}").fetchall()
    if rows > MOST_ROWS:
        raise SettingError(
            f"The metric {metric.name!r} needs all rows in memory, at most {MOST_ROWS:,}, got "
            f"{rows:,}. Evaluate fewer domains at a time, or choose a metric that is a loss."
        )
    tasks = None
    if TASK in spec.target and spec.target not in table.types:
        tasks = template_columns(table, spec.target, "task", 1)
    wanted = named_columns(table, spec.predictions)
    columns = {name: _columns(table, spec, metric, each, tasks) for name, each in wanted.items()}
    label = [spec.target] if tasks is None else list(tasks.values())
    held = {f"y{j}": table.column(column) for j, column in enumerate(label)}
    for i, (_, found) in enumerate(columns.values()):
        held |= {f"p{i}_{j}": sql for j, sql in enumerate(found)}
    if rows == 0:
        raise DomainDataError(f"{table.files[0].name} has columns, but no rows.")
    parts = list(_batches(table, names, held))
    domains = number_domains(np.concatenate([np.asarray(part, dtype=object) for part, _ in parts]))
    values = {key: np.concatenate([part[key] for _, part in parts]) for key in held}

    def together(prefix: str, number: int, several: bool) -> NDArray[Any]:
        """Columns beside each other (n, k); one alone is (n,), unless it is of several."""
        found = [values[f"{prefix}{j}"] for j in range(number)]
        return np.column_stack(found) if several else stacked(found[0])

    labels = together("y", len(label), tasks is not None)
    measured = {}
    for i, (name, (classes, found)) in enumerate(columns.items()):
        known = labels if classes is None else _places(labels, classes, wanted[name])
        given = together(f"p{i}_", len(found), tasks is not None or classes is not None)
        measured[name] = Measured.by_metric(name, metric, known, given, domains)
    return measured


def _columns(
    table: TableFiles,
    spec: MeasurementSpec,
    metric: SetMetric,
    column: str,
    tasks: Mapping[str, str] | None,
) -> tuple[list[str] | None, list[str]]:
    """The classes that have a column each, and the predictions in SQL."""
    if (TASK in column and column not in table.types) != (tasks is not None):
        raise SettingError(
            "Labels and predictions of several tasks need '{task}' in both, such as "
            f"{Setting('target', 'y_{task}')} and {Setting('predictions', 'p_{task}')}, got "
            f"{spec.target!r} and {column!r}."
        )
    if tasks is not None:
        found = template_columns(table, column, "task", 1)
        if set(found) != set(tasks):
            lacking = sorted(set(found) ^ set(tasks))
            raise DomainDataError(
                f"Tasks must have labels and predictions, but {listed(lacking)} have only one of "
                f"them: {spec.target!r} and {column!r} do not match the same tasks."
            )
        return None, [as_double(table, found[task]) for task in tasks]
    if CLASS in column and column not in table.types:
        found = template_columns(table, column, "class", 2)
        return list(found), [as_double(table, each) for each in found.values()]
    identifier = table.column(column)
    scores = not table.types[column].endswith("]")
    scores = scores and (metric.ranks or is_probability(table, column))
    return None, [as_double(table, column) if scores else identifier]


def _places(labels: NDArray[Any], classes: Sequence[str], template: str) -> NDArray[np.int64]:
    """The labels as positions of classes that have a column each."""
    place = {name: i for i, name in enumerate(classes)}
    values = [str(value) for value in labels.tolist()]
    unknown = [value for value in dict.fromkeys(values) if value not in place]
    if unknown:
        raise DomainDataError(
            f"Labels without a column of {template!r}: {listed(unknown)}. It matches the classes "
            f"{listed(list(classes))}."
        )
    return np.array([place[value] for value in values], dtype=np.int64)
