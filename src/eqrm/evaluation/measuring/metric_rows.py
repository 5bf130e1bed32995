"""Labels and predictions of all rows of files in memory, for metrics that need them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.files import TableFiles, opened
from eqrm.domains import ADVICE, joined_columns
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.evaluation.measuring.domain_columns import facts_of_files
from eqrm.evaluation.measuring.from_arrays import stacked
from eqrm.evaluation.measuring.grouped_losses import missing_domains, selected
from eqrm.evaluation.measuring.loss_columns import (
    as_double,
    is_probability,
    named_columns,
    template_columns,
)
from eqrm.evaluation.measuring.measurement_spec import MOST_ROWS, MeasurementSpec
from eqrm.evaluation.measuring.set_metrics import SET_METRICS
from eqrm.text import listed

Array = NDArray[Any]
CLASS, TASK = "{class}", "{task}"


@dataclass(frozen=True, eq=False)
class MetricRows:
    """The ``domains`` (n,), ``labels`` (n,) or (n, tasks), and ``predictions`` of each predictor.

    ``seen`` are the names of domains that training has seen.
    """

    domains: Any
    labels: dict[str, Array]
    predictions: dict[str, Array]
    seen: frozenset[str]


def metric_rows(data: Any, spec: MeasurementSpec) -> MetricRows:
    """Read the columns that a specification names; ``p_{task}`` and ``p_{class}`` match several."""
    names = [spec.domains] if isinstance(spec.domains, str) else list(spec.domains)
    with opened(data, spec.threads, spec.memory, spec.progress) as table:
        (rows,) = table.run(f"SELECT count(*) FROM {table.source}").fetchone()
        if rows > MOST_ROWS:
            raise SettingError(
                f"The metric {spec.metric!r} needs all rows in memory, at most {MOST_ROWS:,}, got "
                f"{rows:,}. Evaluate fewer domains at a time, or choose a metric that is a loss."
            )
        tasks = _tasks(table, spec.labels)
        wanted = named_columns(table, spec.predictions)
        columns = {name: _columns(table, spec, column, tasks) for name, column in wanted.items()}
        label = {"": spec.labels} if tasks is None else tasks
        held = {f"d{j}": table.domain(name) for j, name in enumerate(names)}
        held |= {f"y{j}": table.column(column) for j, column in enumerate(label.values())}
        held |= {
            f"p{i}_{j}": sql
            for i, (_, found) in enumerate(columns.values())
            for j, sql in enumerate(found)
        }
        found = table.fetched(f"{selected(held)} FROM {table.source}")
        seen = facts_of_files(table, names, spec).seen or frozenset[str]()
    keys = [_plain(found[f"d{j}"]).tolist() for j in range(len(names))]
    absent = missing_domains(keys)
    if any(absent):
        raise DomainDataError(f"The domain of row {absent.index(True) + 1} is missing. {ADVICE}")
    labels = _together(found, "y", len(label), tasks is not None)
    known = {
        name: labels if classes is None else _places(labels, classes, wanted[name])
        for name, (classes, _) in columns.items()
    }
    predictions = {
        name: _together(found, f"p{i}_", len(sql), classes is not None or tasks is not None)
        for i, (name, (classes, sql)) in enumerate(columns.items())
    }
    return MetricRows(joined_columns(keys), known, predictions, seen)


def _tasks(table: TableFiles, labels: str) -> dict[str, str] | None:
    """The columns of labels by task, where there is one per task."""
    if TASK not in labels or labels in table.types:
        return None
    return template_columns(table, labels, "task", 1)


def _columns(
    table: TableFiles, spec: MeasurementSpec, column: str, tasks: Mapping[str, str] | None
) -> tuple[list[str] | None, list[str]]:
    """The classes that have a column each, and the predictions in SQL."""
    if (TASK in column and column not in table.types) != (tasks is not None):
        raise SettingError(
            "Labels and predictions of several tasks need '{task}' in both, such as "
            f"{Setting('labels', 'y_{task}')} and {Setting('predictions', 'p_{task}')}, got "
            f"{spec.labels!r} and {column!r}."
        )
    if tasks is not None:
        found = template_columns(table, column, "task", 1)
        if set(found) != set(tasks):
            lacking = sorted(set(found) ^ set(tasks))
            raise DomainDataError(
                f"Tasks must have labels and predictions, but {listed(lacking)} have only one of "
                f"them: {spec.labels!r} and {column!r} do not match the same tasks."
            )
        return None, [_number(table, found[task]) for task in tasks]
    if CLASS in column and column not in table.types:
        found = template_columns(table, column, "class", 2)
        return list(found), [_number(table, each) for each in found.values()]
    ranks = SET_METRICS[str(spec.metric)].ranks
    identifier = table.column(column)
    if not table.types[column].endswith("]") and (ranks or is_probability(table, column)):
        return None, [_number(table, column)]
    return None, [identifier]


def _number(table: TableFiles, column: str) -> str:
    return as_double(table.column(column), table.types[column])


def _plain(values: Any) -> Array:
    """A column without its mask: NaN or None where there is no value."""
    if not np.ma.is_masked(values):
        return np.ma.getdata(values)
    if values.dtype.kind == "f":
        return np.asarray(values.filled(np.nan))
    plain = np.ma.getdata(values).astype(object)
    plain[np.ma.getmaskarray(values)] = None
    return np.asarray(plain)


def _together(found: Mapping[str, Any], prefix: str, number: int, several: bool) -> Array:
    """Columns beside each other (n, k); one alone is (n,), unless it is of ``several``."""
    columns = [_plain(found[f"{prefix}{j}"]) for j in range(number)]
    return np.column_stack(columns) if several else stacked(columns[0])


def _places(labels: Array, classes: Sequence[str], template: str) -> Array:
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
