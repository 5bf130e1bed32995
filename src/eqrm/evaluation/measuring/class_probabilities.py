"""Losses of predictions that give a probability to each of several classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import SettingError
from eqrm.evaluation.measuring.metrics import Metric, minus_log, sql_minus_log

Numbers = NDArray[np.float64]
SLACK_OF_SUM = 0.01
"""How far the probabilities of the classes may be from adding up to 1 (half precision)."""


def class_losses(
    metric: Metric, classes: NDArray[np.int64], probabilities: Numbers, clip: float = 0.0
) -> Numbers:
    """The losses (n,) of probabilities (n, K), with the classes of the labels as 0 … K−1.

    A class of −1 (a label that is none of the classes) gives NaN, and so do impossible
    probabilities.

    >>> from eqrm.evaluation.measuring.metrics import metric_of
    >>> p = np.array([[0.25, 0.75], [0.5, 0.5]])
    >>> class_losses(metric_of("brier"), np.array([1, 0]), p).tolist()
    [0.125, 0.5]
    """
    refuse_other_metrics(metric)
    possible = (classes >= 0) & (classes < probabilities.shape[1])
    possible &= ((probabilities >= 0.0) & (probabilities <= 1.0)).all(axis=1)
    possible &= np.abs(probabilities.sum(axis=1) - 1.0) <= SLACK_OF_SUM
    rows = np.arange(len(classes))
    chosen = np.where(possible, probabilities[rows, np.where(possible, classes, 0)], np.nan)
    if metric.name == "log-loss":
        return minus_log(chosen, clip)
    if metric.name == "brier":
        losses: Numbers = np.square(probabilities).sum(axis=1) - 2.0 * chosen + 1.0
        return losses
    wrong = probabilities.argmax(axis=1) != classes
    return np.where(possible, wrong.astype(np.float64), np.nan)


def sql_class_losses(metric: Metric, position: str, probabilities: str, clip: float = 0.0) -> str:
    """The same in SQL: ``probabilities`` is a LIST, ``position`` of the label's class from 1."""
    refuse_other_metrics(metric)
    possible = (
        f"list_min({probabilities}) >= 0 AND list_max({probabilities}) <= 1 "
        f"AND abs(list_sum({probabilities}) - 1) <= {SLACK_OF_SUM} "
        f"AND {position} BETWEEN 1 AND len({probabilities})"
    )
    chosen = f"(CASE WHEN {possible} THEN {probabilities}[{position}] END)"
    if metric.name == "log-loss":
        return sql_minus_log(chosen, clip)
    if metric.name == "brier":
        squares = f"list_inner_product({probabilities}, {probabilities})"
        return f"({squares} - 2 * {chosen} + 1)"
    likeliest = f"list_position({probabilities}, list_max({probabilities}))"
    wrong = f"CAST({likeliest} <> {position} AS DOUBLE)"
    return f"(CASE WHEN {chosen} IS NOT NULL THEN {wrong} END)"


def largest_class_loss(metric: Metric) -> float:
    """The largest loss there can be: Brier's sum over classes reaches 2."""
    return 2.0 if metric.name == "brier" else metric.bounds[1]


def positions_of(labels: Sequence[object], classes: Sequence[str] | None) -> NDArray[np.int64]:
    """The class of each label as 0 … K−1, −1 for none; without names, labels are positions.

    >>> positions_of(["cat", "dog", "cow"], ["dog", "cat"]).tolist()
    [1, 0, -1]
    """
    if classes is None:
        return np.array([_whole_number(label) for label in labels], dtype=np.int64)
    place = {name: i for i, name in enumerate(classes)}
    return np.array([place.get(str(label), -1) for label in labels], dtype=np.int64)


def refuse_other_metrics(metric: Metric) -> None:
    """Only log-loss, Brier and 0-1 are losses of class probabilities."""
    if not metric.probabilities:
        raise SettingError(
            f"Probabilities of several classes have no {metric.name!r} loss. "
            "Choose from: 0-1, brier, log-loss."
        )


def _whole_number(label: object) -> int:
    try:
        number = float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return -1
    return int(number) if number >= 0 and number == int(number) else -1
