"""Measured risks from arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.data.tables.frames import in_memory
from eqrm.domains import number_domains
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation.measuring.aggregated import risks_of_aggregates
from eqrm.evaluation.measuring.constants import LabelStatistics
from eqrm.evaluation.measuring.domain_columns import facts_of_arrays
from eqrm.evaluation.measuring.measurement_spec import AGGREGATED, MeasurementSpec
from eqrm.evaluation.measuring.metrics import (
    Metric,
    as_numbers,
    class_losses,
    positions_of,
    single_column,
)
from eqrm.evaluation.measuring.prediction_rows import Measured, RowsOfPredictions
from eqrm.evaluation.measuring.unusable_rows import (
    SHOWN,
    Expected,
    Row,
    refuse_if_never_right,
    refuse_rows,
)
from eqrm.risks import MeasuredRisks, Numbers, domain_risks


def risks_of_arrays(spec: MeasurementSpec) -> dict[str, Measured]:
    """The measured risks of every predictor, from the arrays that a specification holds."""
    found, facts = _every_predictor(spec), facts_of_arrays(spec)
    return {name: replace(each, facts=facts) for name, each in found.items()}


def _every_predictor(spec: MeasurementSpec) -> dict[str, Measured]:
    if spec.aggregated:
        columns = [spec.domains, *(spec.columns[key] for key in AGGREGATED)]
        if any(isinstance(column, str) for column in columns):
            raise SettingError(
                "Without data, columns must hold the arrays of a table per domain: "
                "columns={'count': …, 'mean': …, 'variance': …}."
            )
        merged = risks_of_aggregates(*columns, predictors=spec.predictor)
        return {name: Measured(risks) for name, risks in merged.items()}
    given = spec.predictions if spec.losses is None else spec.losses
    by_name = given if isinstance(given, Mapping) else {"predictor": given}
    return {str(name): _measured(str(name), column, spec) for name, column in by_name.items()}


def _measured(name: str, column: Any, spec: MeasurementSpec) -> Measured:
    if spec.losses is not None:
        return Measured(risks_of_losses(name, column, spec.domains))
    if spec.set_metric is not None:
        labels, given = in_memory(spec.labels), in_memory(column)
        numbered = number_domains(spec.domains, len(labels))
        return Measured.by_metric(name, spec.set_metric, labels, stacked(given), numbered)
    metric = spec.known_metric
    if metric is not None:
        risks = risks_of_predictions(name, spec.labels, column, spec.domains, metric)
        if spec.with_references and metric.has_references:
            return _with_rows(risks, column, spec, metric)
        return Measured(risks)
    losses = spec.metric(in_memory(spec.labels), in_memory(column))  # type: ignore[operator]
    return Measured(risks_of_losses(name, losses, spec.domains))


def _with_rows(
    risks: MeasuredRisks, column: Any, spec: MeasurementSpec, metric: Metric
) -> Measured:
    """Rows that were measured, and so are known to be usable; classes as predictions are not."""
    labels, predictions = (
        single_column(in_memory(spec.labels)),
        single_column(stacked(in_memory(column))),
    )
    if metric.name == "0-1" and predictions.ndim == 1 and predictions.dtype.kind != "f":
        return Measured(risks)
    several, ids = predictions.ndim == 2, number_domains(spec.domains, len(labels)).ids
    numbers = positions_of(labels.tolist()).astype(np.float64) if several else as_numbers(labels)
    values = predictions.astype(np.float64) if several else as_numbers(predictions)
    classes = values.shape[1] if several else 2 * (metric.classes is not None)
    known = LabelStatistics.of_rows(risks.domains, ids, numbers, classes)
    return Measured(risks, several, known, RowsOfPredictions(ids.astype(np.int32), numbers, values))


def risks_of_losses(name: str, losses: Any, domains: Any) -> MeasuredRisks:
    """Count, mean and variance of the losses (n,) of each domain, in float64.

    >>> risks = risks_of_losses("ERM", [1.0, 3.0, 5.0], ["a", "a", "b"])
    >>> risks.risks.tolist(), risks.variances.tolist()
    ([2.0, 5.0], [2.0, nan])
    """
    values = as_numbers(in_memory(losses))
    return _reduced(name, values, domains, Expected(), None, values)


def risks_of_predictions(
    name: str, labels: Any, predictions: Any, domains: Any, metric: Metric
) -> MeasuredRisks:
    """The same for the losses of predictions: (n,), or (n, K) probabilities of classes.

    >>> from eqrm.evaluation.measuring.metrics import metric_of
    >>> risks_of_predictions("a", [1, 0], [0.5, 0.5], [1, 2], metric_of("brier")).risks.tolist()
    [0.25, 0.25]
    """
    labels, predictions = (
        single_column(in_memory(labels)),
        single_column(stacked(in_memory(predictions))),
    )
    if predictions.shape[:1] != labels.shape or predictions.ndim > 2:
        raise DomainDataError(
            f"{name}: labels must have the shape (n,) and predictions (n,) or (n, classes), got "
            f"{labels.shape} and {predictions.shape}."
        )
    if predictions.ndim == 2:
        places = positions_of(labels.tolist())
        losses = class_losses(metric, places, _probabilities(name, predictions))
        expected = Expected(metric, several=True)
    elif metric.name == "0-1" and predictions.dtype.kind != "f":
        losses = _wrong_classes(labels, predictions)
        expected = Expected(metric, as_classes=True)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            losses = metric.of_arrays(as_numbers(labels), as_numbers(predictions))
        expected = Expected(metric)
    return _reduced(name, losses, domains, expected, labels, predictions)


def stacked(values: NDArray[Any]) -> NDArray[Any]:
    """A column of lists, as frames hold probabilities of classes, as (n, K)."""
    if values.dtype.kind == "O" and values.size and isinstance(values[0], (list, np.ndarray)):
        return in_memory([list(row) if np.ndim(row) else [row] for row in values])
    return values


def _probabilities(name: str, predictions: NDArray[Any]) -> Numbers:
    """Probabilities (n, K) of classes as float64."""
    try:
        return predictions.astype(np.float64)
    except (TypeError, ValueError):
        raise DomainDataError(
            f"{name}: predictions of shape {predictions.shape} must be probabilities of classes, "
            "but they are not numbers."
        ) from None


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
    found = domain_risks(torch.from_numpy(np.ascontiguousarray(losses)), domains)
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size:
        ids = found.ids.numpy()
        rows = [
            Row(
                f"index {i}",
                found.names[int(ids[i])],
                None if labels is None else labels[i : i + 1].tolist()[0],
                predictions[i : i + 1].tolist()[0],
            )
            for i in bad[:SHOWN].tolist()
        ]
        affected = [found.names[int(j)] for j in np.unique(ids[bad])]
        refuse_rows(name, rows, int(bad.size), int(losses.size), affected, expected)
    risks = found.measured()
    refuse_if_never_right(name, risks, expected)
    return risks
