"""Measured risks from arrays in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.data.tables.frames import in_memory
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.class_probabilities import class_losses, positions_of
from eqrm.evaluation.measuring.measured_risks import MeasuredRisks
from eqrm.evaluation.measuring.metrics import Metric, as_numbers
from eqrm.evaluation.measuring.unusable_rows import Expected, Row, refuse, refuse_if_never_right
from eqrm.risks import domain_risks

Numbers = NDArray[np.float64]
LossFunction = Callable[[Any, Any], Any]


def risks_of_losses(name: str, losses: Any, domains: Any) -> MeasuredRisks:
    """Count, mean and variance of the losses (n,) of each domain, in float64.

    >>> risks = risks_of_losses("ERM", [1.0, 3.0, 5.0], ["a", "a", "b"])
    >>> risks.risks.tolist(), risks.variances.tolist()
    ([2.0, 5.0], [2.0, nan])
    """
    values = as_numbers(in_memory(losses))
    return _reduced(name, values, domains, Expected(), None, values)


def risks_of_predictions(
    name: str, labels: Any, predictions: Any, domains: Any, metric: Metric, clip: float = 0.0
) -> MeasuredRisks:
    """The same for the losses of predictions: (n,), or (n, K) probabilities of classes.

    >>> from eqrm.evaluation.measuring.metrics import metric_of
    >>> risks_of_predictions("a", [1, 0], [0.5, 0.5], [1, 2], metric_of("brier")).risks.tolist()
    [0.25, 0.25]
    """
    labels, predictions = _single(in_memory(labels)), _single(_stacked(in_memory(predictions)))
    if labels.ndim != 1 or predictions.ndim not in (1, 2):
        raise DomainDataError(
            f"{name}: labels must be one per example (n,), and predictions (n,) or (n, classes), "
            f"but their shapes are {labels.shape} and {predictions.shape}."
        )
    if len(labels) != len(predictions):
        raise DomainDataError(
            f"{name}: there must be one prediction per label, but there are {len(labels)} labels "
            f"and {len(predictions)} predictions."
        )
    if predictions.ndim == 2:
        places = positions_of(labels.tolist(), None)
        losses = class_losses(metric, places, _probabilities(name, predictions), clip)
        expected = Expected(metric, several=True)
    elif metric.name == "0-1" and predictions.dtype.kind != "f":
        losses = _wrong_classes(labels, predictions)
        expected = Expected(metric, as_classes=True)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            losses = metric.of_arrays(as_numbers(labels), as_numbers(predictions))
        expected = Expected(metric)
    return _reduced(name, losses, domains, expected, labels, predictions)


def risks_of_function(
    name: str, labels: Any, predictions: Any, domains: Any, loss: LossFunction
) -> MeasuredRisks:
    """The same for a loss given as a function of labels and predictions, one loss per row."""
    losses = as_numbers(in_memory(loss(in_memory(labels), in_memory(predictions))))
    return _reduced(name, losses, domains, Expected(), None, losses)


def _stacked(values: NDArray[Any]) -> NDArray[Any]:
    """A column of lists, as frames hold probabilities of classes, as (n, K)."""
    if values.dtype.kind == "O" and values.size and isinstance(values[0], (list, np.ndarray)):
        return in_memory([list(row) if np.ndim(row) else [row] for row in values])
    return values


def _single(values: NDArray[Any]) -> NDArray[Any]:
    """One number per example, also where a model gave them as a column (n, 1)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _probabilities(name: str, predictions: NDArray[Any]) -> Numbers:
    """Probabilities (n, K) of classes as float64."""
    try:
        return predictions.astype(np.float64)
    except (TypeError, ValueError):
        raise DomainDataError(
            f"{name}: predictions of shape {predictions.shape} must be probabilities of classes, "
            "but they are no numbers."
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
    measured = domain_risks(torch.from_numpy(np.ascontiguousarray(losses)), domains)
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size:
        ids = measured.ids.numpy()
        rows = [
            Row(
                f"index {i}",
                measured.names[int(ids[i])],
                None if labels is None else labels[i : i + 1].tolist()[0],
                predictions[i : i + 1].tolist()[0],
            )
            for i in bad[:3].tolist()
        ]
        found = [measured.names[int(j)] for j in np.unique(ids[bad])]
        refuse(name, rows, int(bad.size), int(losses.size), found, expected)
    squares = measured.squared_deviations(measured.values).numpy()
    counts = measured.counts.numpy()
    risks = MeasuredRisks.of(
        measured.names, counts, measured.values.numpy(), variances_from(squares, counts)
    )
    refuse_if_never_right(name, risks, expected)
    return risks


def variances_from(squares: Numbers, counts: NDArray[np.int64]) -> Numbers:
    """Sums of squared deviations over n − 1; NaN where n is 1."""
    return np.where(counts > 1, squares / np.maximum(counts - 1, 1), np.nan)
