"""The loss of each model as SQL, from the columns of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eqrm.data.tables.files import TableFiles, quoted
from eqrm.domains import name_order
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.evaluation.measuring.measurement_spec import (
    Columns,
    MeasurementSpec,
    by_column,
    class_columns_in_words,
    ends_of_intervals,
)
from eqrm.evaluation.measuring.metrics import Metric, sql_class_losses
from eqrm.evaluation.measuring.rows import (
    ENDS_IN_ORDER,
    Expected,
    refuse_probabilities,
)
from eqrm.text import counted, listed

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "BOOLEAN")
FLOATS = ("FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class LossColumn:
    """One model: the loss in SQL, NULL where it cannot be used, and what it is made of.

    ``inputs`` are the columns that the loss is computed from, by the names that ``loss`` uses;
    ``shown`` are the SQL of label and prediction as they are in the file.
    """

    model: str
    loss: str
    inputs: Mapping[str, str]
    shown: tuple[str, str]
    expected: Expected
    parameters: Mapping[str, Any]

    @property
    def has_classes(self) -> bool:
        """Whether predictions are probabilities or classes, not numbers."""
        return self.expected.metric is not None and self.expected.metric.classes is not None

    @property
    def scores_rows(self) -> bool:
        """Whether rows hold a label and probabilities or a number: what references need."""
        metric = self.expected.metric
        return metric is not None and not self.expected.as_classes and metric.has_references

    @property
    def label_key(self) -> str:
        """What ``loss`` calls the label."""
        return next(iter(self.inputs))


def loss_columns(table: TableFiles, spec: MeasurementSpec) -> list[LossColumn]:
    """The loss of each model."""
    given = spec.predictions if spec.losses is None else spec.losses
    columns = enumerate(named_columns(table, given).items())
    return [_loss_column(table, spec, i, name, column) for i, (name, column) in columns]


def named_columns(table: TableFiles, given: Columns) -> dict[str, str]:
    """Models and their columns; ``NAME=COLUMN`` names one, unless a column has that name."""
    found = {}
    for name, column in by_column(given).items():
        before, separator, after = column.partition("=")
        if separator and name == column not in table.types and before:
            name, column = before, after
        if name in found:
            raise SettingError(
                f"Two models are called {name!r}. Give each its own name: NAME=COLUMN."
            )
        found[name] = column
    return found


def _given_loss(table: TableFiles, i: int, name: str, column: str) -> LossColumn:
    identifier = table.column(column)
    if table.types[column].endswith("]"):
        raise DomainDataError(
            f"Losses must be one number per row, but column {column!r} holds lists. "
            f"Probabilities of classes are {Setting('predictions')}, with {Setting('target')}."
        )
    inputs = {f"p{i}": as_double(table, column)}
    return LossColumn(name, f"p{i}", inputs, ("NULL", identifier), Expected(), {})


def _loss_column(
    table: TableFiles, spec: MeasurementSpec, i: int, name: str, column: str
) -> LossColumn:
    if spec.losses is not None:
        return _given_loss(table, i, name, column)
    metric = spec.known_metric
    if metric is None:
        raise TypeError("a loss given as a function is not SQL")
    label = table.column(spec.target)
    if spec.requirement is not None and spec.requirement.numbers:
        return _interval(table, spec, i, name, column)
    if "{class}" in column and column not in table.types:
        return _template(table, spec, metric, i, name, column)
    prediction = table.column(column)
    shown = label, prediction
    if table.types[column].endswith("]"):
        position = f"TRY_CAST({label} AS BIGINT) + 1"
        inputs = {"k": position, f"p{i}": f"CAST({prediction} AS DOUBLE[])"}
        loss = sql_class_losses(metric, "k", f"p{i}")
        return LossColumn(name, loss, inputs, shown, Expected(metric, several=True), {})
    if metric.name == "0-1" and not is_probability(table, column):
        inputs = {"c": f"CAST({label} AS VARCHAR)", f"p{i}": f"CAST({prediction} AS VARCHAR)"}
        loss = f"CAST(c <> p{i} AS DOUBLE)"
        return LossColumn(name, loss, inputs, shown, Expected(metric, as_classes=True), {})
    inputs = {"y": as_double(table, spec.target), f"p{i}": as_double(table, column)}
    instead = class_columns_in_words(table.types) if metric.classes is not None else ""
    expected = Expected(metric, instead=instead)
    return LossColumn(name, metric.sql("y", f"p{i}"), inputs, shown, expected, {})


def _interval(
    table: TableFiles, spec: MeasurementSpec, i: int, name: str, column: str
) -> LossColumn:
    """How far outside the number is, in units of the scale; with width and unit of the row."""
    ends = ends_of_intervals(column, table.types) or (column, column)
    if table.types.get(ends[0], "").endswith("]"):
        raise SettingError(
            f"The column {column!r} holds lists. For sets of classes use "
            f"{Setting('score', 'lac')}; the ends of an interval are two columns, "
            f"{Setting('predictions', 'LOWER:UPPER')}."
        )
    y, low, high = (as_double(table, each) for each in (spec.target, *ends))
    few = f"SELECT count(DISTINCT {y}) = 2 AND count(*) >= 20 FROM {table.source}"
    refuse_probabilities(name, table.run(few).fetchall()[0][0])
    unit = "CAST(1 AS DOUBLE)" if spec.scale is None else as_double(table, spec.scale)
    away = f"greatest({low} - {y}, {y} - {high}) / {unit}"
    inputs = {
        f"y{i}": f"CASE WHEN {low} <= {high} AND {unit} > 0 THEN {away} END",
        f"p{i}": f"[{high} - {low}, {unit}]",
    }
    shown = table.column(spec.target), table.column(ends[0])
    expected = Expected(spec.known_metric, rule=ENDS_IN_ORDER)
    return LossColumn(name, f"abs(y{i})", inputs, shown, expected, {})


def _template(
    table: TableFiles, spec: MeasurementSpec, metric: Metric, i: int, name: str, template: str
) -> LossColumn:
    """Probabilities in a column per class: ``p_{class}`` matches p_cat, p_dog, …"""
    found = template_columns(table, template, "class", 2)
    label = table.column(spec.target)
    parameters = {f"class{j}": each for j, each in enumerate(found)}
    whens = " ".join(f"WHEN $class{j} THEN {j + 1}" for j in range(len(found)))
    values = ", ".join(as_double(table, each) for each in found.values())
    inputs = {f"k{i}": f"CASE CAST({label} AS VARCHAR) {whens} END", f"p{i}": f"[{values}]"}
    loss = sql_class_losses(metric, f"k{i}", f"p{i}")
    expected = Expected(metric, classes=list(found), several=True)
    return LossColumn(name, loss, inputs, (label, f"[{values}]"), expected, parameters)


def template_columns(table: TableFiles, template: str, mark: str, least: int) -> dict[str, str]:
    """The columns that ``p_{class}`` or ``p_{task}`` matches, by what stands for the mark."""
    before, after = (re.escape(part) for part in template.split(f"{{{mark}}}", 1))
    pattern = re.compile(f"{before}(.+){after}", re.DOTALL)
    found = {m.group(1): column for column in table.types if (m := pattern.fullmatch(column))}
    if len(found) < least:
        needed = "two classes are" if mark == "class" else f"one {mark} is"
        raise DomainDataError(
            f"{template!r} matches {counted(len(found), 'column')} of {table.files[0].name}, but "
            f"at least {needed} needed. Columns: {listed(list(table.types), most=20)}."
        )
    return dict(sorted(found.items(), key=lambda item: name_order(item[0])))


def is_probability(table: TableFiles, column: str) -> bool:
    """Whether the predictions of a 0-1 loss are probabilities: floats are, classes are not."""
    if table.kind != "csv":
        return table.types[column].startswith(FLOATS)
    # All rows decide, for 0.3 may be the only prediction that is written with a point.
    sql = (
        "SELECT coalesce(bool_and(TRY_CAST(x AS DOUBLE) IS NOT NULL) "
        "AND bool_or(TRY_CAST(x AS DOUBLE) IS NOT NULL AND regexp_matches(x, '[.eEnN]')), false) "
        f"FROM (SELECT {quoted(column)} AS x FROM {table.source}) WHERE x IS NOT NULL"
    )
    return bool(table.run(sql).fetchall()[0][0])


def as_double(table: TableFiles, column: str) -> str:
    """A column as a number in SQL, NULL where it is not one; true and false are 1 and 0."""
    identifier, kind = table.column(column), table.types[column]
    if kind == "VARCHAR":
        return (
            f"(CASE lower(trim({identifier})) WHEN 'true' THEN 1 WHEN 'false' THEN 0 "
            f"ELSE TRY_CAST({identifier} AS DOUBLE) END)"
        )
    if kind == "DOUBLE":
        return identifier
    never_fails = kind.removeprefix("U") in INTEGERS or kind.startswith(FLOATS)
    return f"{'CAST' if never_fails else 'TRY_CAST'}({identifier} AS DOUBLE)"
