"""Measured risks from arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.data.tables.frames import in_memory
from eqrm.domains import domain_names, named_domains, number_domains
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.evaluation.measuring.domain_columns import facts_of_arrays
from eqrm.evaluation.measuring.measured import LabelStatistics, Measured
from eqrm.evaluation.measuring.measurement_spec import AGGREGATED, MeasurementSpec
from eqrm.evaluation.measuring.metrics import (
    as_numbers,
    class_losses,
    positions_of,
    single_column,
)
from eqrm.evaluation.measuring.rows import (
    ENDS_IN_ORDER,
    SHOWN,
    Expected,
    Row,
    RowsOfPredictions,
    refuse_if_never_right,
    refuse_probabilities,
    refuse_rows,
)
from eqrm.risks import MeasuredRisks, Numbers, domain_risks


def risks_of_arrays(spec: MeasurementSpec) -> dict[str, Measured]:
    """The measured risks of every model, from the arrays that a specification holds."""
    if spec.aggregated:
        columns = [spec.domains, *(spec.columns[key] for key in AGGREGATED)]
        if any(isinstance(column, str) for column in columns):
            raise SettingError(
                "Without data, columns must hold the arrays of a table per domain: "
                "columns={'count': …, 'mean': …, 'variance': …}."
            )
        merged = risks_of_aggregates(*columns, models=spec.model)
        found = {name: Measured(risks) for name, risks in merged.items()}
    else:
        given = spec.predictions if spec.losses is None else spec.losses
        by_name = given if isinstance(given, Mapping) else {"model": given}
        found = {
            str(name): _predicted(str(name), each, spec)
            if spec.losses is None
            else Measured(risks_of_losses(str(name), each, spec.domains))
            for name, each in by_name.items()
        }
    facts = facts_of_arrays(spec)
    return {name: replace(each, facts=facts) for name, each in found.items()}


def risks_of_losses(name: str, losses: Any, domains: Any) -> MeasuredRisks:
    """Count, mean and variance of the losses (n,) of each domain, in float64."""
    values = as_numbers(in_memory(losses))
    return _reduced(name, values, domains, Expected(), None, values)


def _predicted(name: str, column: Any, spec: MeasurementSpec) -> Measured:
    """Predictions (n,) or probabilities (n, K) of classes, with their rows if wanted."""
    labels = in_memory(spec.target)
    if spec.requirement is not None and spec.requirement.numbers:
        return _of_intervals(name, labels, column, spec)
    predictions = in_memory(column)
    if spec.set_metric is not None:
        numbered = number_domains(spec.domains, len(labels))
        return Measured.by_metric(name, spec.set_metric, labels, stacked(predictions), numbered)
    metric = spec.known_metric
    if metric is None:
        losses = spec.metric(labels.copy(), predictions.copy())  # type: ignore[operator]
        return Measured(risks_of_losses(name, losses, spec.domains))
    labels, predictions = single_column(labels), single_column(stacked(predictions))
    if predictions.shape[:1] != labels.shape or predictions.ndim > 2:
        raise DomainDataError(
            f"{name}: labels must have the shape (n,) and predictions (n,) or (n, classes), got "
            f"{labels.shape} and {predictions.shape}."
        )
    several = predictions.ndim == 2
    if not several and metric.name == "0-1" and predictions.dtype.kind != "f":
        losses, expected = _wrong_classes(labels, predictions), Expected(metric, as_classes=True)
        return Measured(_reduced(name, losses, spec.domains, expected, labels, predictions))
    if several:
        places = positions_of(labels)
        given: Numbers = as_numbers(predictions.ravel()).reshape(-1, predictions.shape[-1])
        losses, numbers = class_losses(metric, places, given), places.astype(np.float64)
    else:
        numbers, given = as_numbers(labels), as_numbers(predictions)
        with np.errstate(over="ignore", invalid="ignore"):
            losses = metric.of_arrays(numbers, given)
    expected = Expected(metric, several=several)
    risks = _reduced(name, losses, spec.domains, expected, labels, predictions)
    if not (spec.keeps_rows and metric.has_references):
        return Measured(risks)
    ids = number_domains(spec.domains, len(labels)).ids
    classes = given.shape[1] if several else 2 * (metric.classes is not None)
    known = LabelStatistics.of_rows(risks.domains, ids, numbers, classes)
    return Measured(risks, several, known, RowsOfPredictions(ids.astype(np.int32), numbers, given))


def _of_intervals(name: str, labels: NDArray[Any], column: Any, spec: MeasurementSpec) -> Measured:
    """How far outside each number is, in units of the scale; with width and unit of its row."""
    given = single_column(stacked(in_memory(column)))
    if given.shape not in ((len(labels),), (len(labels), 2)):
        raise DomainDataError(
            f"{name}: for intervals, predictions must be a number per row, or its lower and upper "
            f"end (n, 2), got the shape {given.shape} for {len(labels):,} labels."
        )
    y, both = as_numbers(labels), as_numbers(given.ravel()).reshape(len(labels), -1)
    unit = np.ones(len(y)) if spec.scale is None else as_numbers(in_memory(spec.scale))
    if unit.shape != y.shape:
        raise DomainDataError(
            f"scale must be one number per row, got {unit.size:,} for {y.size:,} rows."
        )
    low, high = both[:, 0], both[:, -1]
    refuse_probabilities(name, len(np.unique(y)) == 2 <= 0.1 * len(y))
    with np.errstate(all="ignore"):
        away = np.maximum(low - y, y - high) / unit
    usable = np.isfinite(away) & (low <= high) & (unit > 0.0)
    losses = np.where(usable, np.abs(away), np.nan)
    expected = Expected(spec.known_metric, rule=ENDS_IN_ORDER)
    risks = _reduced(name, losses, spec.domains, expected, labels, given)
    ids = number_domains(spec.domains, len(y)).ids.astype(np.int32)
    rows = RowsOfPredictions(ids, away, np.column_stack([high - low, unit]))
    return Measured(risks, rows=rows)


def stacked(values: NDArray[Any]) -> NDArray[Any]:
    """A column of lists, as frames hold probabilities of classes, as (n, K)."""
    if values.dtype.kind == "O" and values.size and isinstance(values[0], (list, np.ndarray)):
        return in_memory([list(row) if np.ndim(row) else [row] for row in values])
    return values


def _wrong_classes(labels: NDArray[Any], predictions: NDArray[Any]) -> Numbers:
    """1 where the class differs; as text, unless both are numbers."""
    numeric = labels.dtype.kind in "fiub" and predictions.dtype.kind in "fiub"
    if numeric:
        found = (labels != predictions).astype(np.float64)
        return np.where(np.isnan(labels.astype(np.float64)), np.nan, found)
    pairs = zip(labels.tolist(), predictions.tolist(), strict=True)
    return np.array(
        [np.nan if is_missing(y) or is_missing(p) else float(str(y) != str(p)) for y, p in pairs]
    )


def _reduced(
    name: str,
    losses: Numbers,
    domains: Any,
    expected: Expected,
    labels: NDArray[Any] | None,
    predictions: NDArray[Any],
) -> MeasuredRisks:
    found = domain_risks(losses, domains)
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size:
        rows = [
            Row(
                f"index {i}",
                found.names[int(found.ids[i])],
                None if labels is None else labels[i : i + 1].tolist()[0],
                predictions[i : i + 1].tolist()[0],
            )
            for i in bad[:SHOWN].tolist()
        ]
        affected = [found.names[int(j)] for j in np.unique(found.ids[bad])]
        refuse_rows(name, rows, int(bad.size), int(losses.size), affected, expected)
    risks = found.measured()
    refuse_if_never_right(name, risks, expected)
    return risks


def risks_of_aggregates(
    domains: Any,
    counts: Any,
    means: Any,
    variances: Any,
    *,
    models: Any = None,
    part: bool = False,
) -> dict[str, MeasuredRisks]:
    """Rows of n examples with the mean and the variance (divisor n − 1) of their losses.

    The variance of a row with one example is ignored. ``models`` names the model of each
    row. A ``part`` of all rows may be of one domain. Rows of one domain and model are merged,
    as parts of its examples; a table that was read twice, or that holds several models without
    saying so, would silently give wrong numbers and is refused.
    """
    names = np.array(domain_names(in_memory(domains).tolist()), dtype=object)
    numbers = [as_numbers(in_memory(values)) for values in (counts, means, variances)]
    _refuse_impossible(names, *numbers)
    if models is None:
        return {"model": _merged(names, *numbers, part=part, several=True)}
    given = in_memory(models).tolist()
    absent = [row for row, name in enumerate(given, 1) if is_missing(name)]
    if absent:
        raise DomainDataError(
            f"The model of row {absent[0]} is missing. Fill it in or drop the row."
        )
    of_row = np.array([str(name) for name in given], dtype=object)
    return {
        name: _merged(*(values[of_row == name] for values in (names, *numbers)), part=part)
        for name in dict.fromkeys(of_row.tolist())
    }


def _merged(
    names: NDArray[Any],
    n: Numbers,
    mean: Numbers,
    variance: Numbers,
    *,
    part: bool,
    several: bool = False,
) -> MeasuredRisks:
    """Rows of one model, or of ``several`` without a column that tells them apart."""
    place = {name: i for i, name in enumerate(dict.fromkeys(names.tolist()))}
    if len(place) < len(names):
        ids = np.array([place[name] for name in names.tolist()])
        rows = np.stack([ids, n, mean, np.where(n > 1, variance, 0.0)])
        if np.unique(rows, axis=1, return_counts=True)[1].min() > 1:
            raise DomainDataError(
                "Every row occurs more than once, with the same domain, n, mean and variance. "
                "Check whether a file was read or written twice, and remove the copies."
            )
        times, first = np.bincount(ids), np.unique(ids, return_index=True)[1]
        if several and times.min() == times.max() and (n == n[first][ids]).all():
            raise DomainDataError(
                f"Every domain has {times[0]} rows with the same n, as if {times[0]} models "
                "were measured on the same examples. Name the column that tells the models "
                f"apart ({Setting('model', 'COLUMN')}). If the rows are parts of one "
                "model's examples, name a column that holds the model's name in every row."
            )
    variance = np.where(n > 1, variance, np.nan)
    return MeasuredRisks.merged(names.tolist(), n, mean, variance, part=part)


def _refuse_impossible(names: NDArray[Any], n: Numbers, mean: Numbers, variance: Numbers) -> None:
    with np.errstate(invalid="ignore"):
        uncountable = ~((n >= 1) & (n == np.floor(n)) & np.isfinite(n))
        negative = (n > 1) & ~(np.isfinite(variance) & (variance >= 0.0))
    for values, wrong, rule, advice in (
        (n, uncountable, "n must be an integer of at least 1", "Leave out rows without examples"),
        (
            mean,
            ~np.isfinite(mean),
            "mean must be a finite number",
            "Check the losses of these domains for NaN or overflow",
        ),
        (
            variance,
            negative,
            "variance must be a finite number of at least 0",
            "Use the variance of the losses in the row, var_samp in most SQL engines",
        ),
    ):
        if wrong.any():
            rows = np.flatnonzero(wrong)
            where = named_domains(list(dict.fromkeys(names[rows].tolist())))
            raise DomainDataError(f"{rule}, got {values[rows[0]]:g} for {where}. {advice}.")
