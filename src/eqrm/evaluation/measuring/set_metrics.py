"""Metrics of a set of examples that are not means of losses, as WILDS and OGB compute them.

- **accuracy**: the share of examples whose class is predicted.
- **macro-f1**: the mean of F1 = 2·hits/(labels + predictions of the class) over the classes that
  occur among the labels (WILDS, iWildCam). A class that is only predicted does not count as one.
- **average-precision**: Σ (Rₖ − Rₖ₋₁)·Pₖ over the distinct scores, from the highest down, with
  recall R and precision P of the examples that score at least as high (OGB-MolPCBA).
- **roc-auc**: how often a positive scores higher than a negative, where a tie is one half.

The last two are means over tasks that have a positive and a negative label; missing labels of a
task are left out. Examples of several classes are one task per class, the class against the rest.
Where no task has both labels the metric is not defined: its value is None, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_missing, one_of
from eqrm.domains import Name, domain_names, number_domains
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.metrics import as_numbers, positions_of, single_column
from eqrm.text import counted

if TYPE_CHECKING:
    from eqrm.risks import MeasuredRisks

Array = NDArray[Any]
Flags = NDArray[np.bool_]
NO_LABELS, ONE_CLASS = "no labels", "one class"
WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0*")
"""A whole number that is written with a point."""


@dataclass(frozen=True)
class MetricValue:
    """A metric of some examples, or None and the ``reason`` why it is not defined for them."""

    value: float | None
    reason: str = ""

    def __str__(self) -> str:
        return f"not defined: {self.reason}" if self.value is None else f"{self.value:.4f}"


@dataclass(frozen=True)
class SetMetric:
    """A metric from 0 to 1, the higher the better, of labels and predictions.

    ``read`` checks labels and predictions of all examples and puts them in the form (n, …) that
    ``of_read`` takes, of which any rows may be chosen.
    """

    name: str
    read: Callable[[Any, Any], tuple[Array, Array]]
    of_read: Callable[[Array, Array], MetricValue]

    @property
    def ranks(self) -> bool:
        """Whether it takes scores of tasks, which it ranks examples by, and not classes."""
        return self.read is read_tasks


@dataclass(frozen=True, eq=False)
class DomainMetric:
    """A metric of one model: of all examples together (``pooled``), and of each domain.

    ``values`` are in the order of ``domains``; one that is not defined is None, with the reason.
    """

    metric: str
    pooled: MetricValue
    domains: tuple[Name, ...]
    counts: NDArray[np.int64]
    values: tuple[MetricValue, ...]

    @classmethod
    def of(cls, metric: SetMetric, labels: Any, predictions: Any, domains: Any) -> DomainMetric:
        """Of labels and predictions (n, …), with the domain of each example (n,)."""
        y, given = metric.read(labels, predictions)
        in_words = not metric.ranks and np.asarray(predictions).dtype.kind in "OSU"
        if in_words and y.size and not np.isin(given, y).any():
            raise DomainDataError(
                f"None of the classes that are predicted is the label of any of {y.size:,} rows. "
                "Use the same codes for labels and predictions: 'cat' is not 0, and 'True' is not "
                "1."
            )
        numbered = number_domains(domains, len(y))
        counts = np.bincount(numbered.ids, minlength=len(numbered.names))
        rows = np.split(np.argsort(numbered.ids, kind="stable"), np.cumsum(counts)[:-1])
        found = tuple(metric.of_read(y[each], given[each]) for each in rows)
        pooled = metric.of_read(y, given)
        return cls(metric.name, pooled, tuple(numbered.names), counts, found)

    @cached_property
    def undefined(self) -> dict[Name, str]:
        """Domains that cannot have the metric, and why."""
        named = zip(self.domains, self.values, strict=True)
        return {name: found.reason for name, found in named if found.value is None}

    @property
    def defined(self) -> int:
        """How many domains have the metric."""
        return len(self.domains) - len(self.undefined)

    @property
    def mean(self) -> float | None:
        """The mean over the domains that have the metric; None if there are none."""
        found = [each.value for each in self.values if each.value is not None]
        return float(np.mean(found)) if found else None

    @cached_property
    def risks(self) -> MeasuredRisks:
        """1 − metric of the domains that have it; raises if there are fewer than two."""
        from eqrm.risks import FEWEST_DOMAINS, MeasuredRisks  # and so torch

        if self.defined < FEWEST_DOMAINS:
            raise DomainDataError(
                f"The {self.metric} of all examples is {self.pooled}, but it is defined in "
                f"{counted(self.defined, 'domain')} of {len(self.domains):,}, and at least two are "
                "needed to see how it varies. Give larger domains, or use another column as the "
                "domain."
            )
        rows = [
            (name, n, 1.0 - each.value)
            for name, n, each in zip(self.domains, self.counts, self.values, strict=True)
            if each.value is not None
        ]
        names, counts, risks = zip(*rows, strict=True)
        return MeasuredRisks.of(names, counts, risks, np.full(len(rows), np.nan))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; a value that is not defined is None."""
        return {
            "metric": self.metric,
            "pooled": self.pooled.value,
            "reason": self.pooled.reason,
            "domains": [
                {"domain": name, "n": n, "value": found.value, "reason": found.reason}
                for name, n, found in zip(
                    self.domains, self.counts.tolist(), self.values, strict=True
                )
            ],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> DomainMetric:
        """The reverse of :meth:`to_dict`."""
        rows: Sequence[Mapping[str, Any]] = content["domains"]
        return cls(
            str(content["metric"]),
            MetricValue(content["pooled"], content["reason"]),
            tuple(domain_names([row["domain"] for row in rows])),
            np.array([int(row["n"]) for row in rows], dtype=np.int64),
            tuple(MetricValue(row["value"], row["reason"]) for row in rows),
        )


def set_metric(name: str) -> SetMetric:
    """The metric of a name."""
    return SET_METRICS[one_of(name, SET_METRICS, "metric")]


def read_classes(labels: Any, predictions: Any) -> tuple[Array, Array]:
    """Labels (n,) and predicted classes (n,), both numbered by the classes that occur.

    Predictions are classes (n,), as integers or strings; probabilities of label 1 (n,), as floats,
    with a threshold of ½; or scores (n, K) of the classes 0 … K−1, of which the highest counts.
    """
    y, given = single_column(np.asarray(labels)), single_column(np.asarray(predictions))
    if y.ndim != 1 or given.shape[:1] != y.shape or given.ndim > 2:
        raise DomainDataError(
            "labels must have the shape (n,) and predictions (n,) or (n, classes), got "
            f"{np.shape(labels)} and {np.shape(predictions)}."
        )
    _refuse_where(_missing(y), "A label is missing", y, "Fill it in or drop the row")
    if given.ndim == 2:
        return _positions(y, given.shape[1]), _finite_scores(given).argmax(axis=1)
    if given.dtype.kind == "f":
        wrong = ~((given >= 0.0) & (given <= 1.0))
        _refuse_where(
            wrong, "Floats are probabilities of label 1", given, "Give classes as integers"
        )
        return _binary(y).astype(np.int64), (given >= 0.5).astype(np.int64)
    _refuse_where(_missing(given), "A prediction is missing", given, "Fill it in or drop the row")
    if not (y.dtype.kind in "fiub" and given.dtype.kind in "fiub"):
        y, given = (np.array([_written(value) for value in each.tolist()]) for each in (y, given))
    _, numbers = np.unique(np.concatenate([y, given]), return_inverse=True)
    return numbers[: y.size], numbers[y.size :]


def _written(value: object) -> str:
    """A class as text; a whole number is the same class however it is written."""
    text = str(value)
    whole = WHOLE.fullmatch(text)
    return whole[1] if whole else text


def read_tasks(labels: Any, scores: Any) -> tuple[Array, Array]:
    """Labels 0, 1 or NaN (missing) and scores, both (n, tasks).

    Labels 0 and 1 and scores are (n,), or (n, tasks) with NaN for missing labels. Labels 0 … K−1
    (n,) with scores (n, K) are a task per class, or the second class alone where K is 2.
    """
    y, given = np.asarray(labels), np.asarray(scores)
    if y.ndim == 1:
        _refuse_where(_missing(y), "A label is missing", y, "Fill it in or drop the row")
        given = single_column(given)
    if y.ndim == 1 and given.ndim == 2 and len(given) == y.size:
        values, classes = _finite_scores(given), _positions(y, given.shape[1])
        if given.shape[1] == 2:
            return (classes == 1)[:, None].astype(np.float64), values[:, 1:]
        return np.eye(given.shape[1])[classes], values
    y, given = (each[:, None] if each.ndim == 1 else each for each in (y, given))
    if y.ndim != 2 or y.shape != given.shape:
        raise DomainDataError(
            "labels and scores must both have the shape (n,) or (n, tasks), or labels (n,) and "
            f"scores (n, classes), got {np.shape(labels)} and {np.shape(scores)}."
        )
    known = _binary(y, missing=True)
    return known, _finite_scores(given, ~np.isnan(known))


def _accuracy(labels: Array, classes: Array) -> MetricValue:
    if not labels.size:
        return MetricValue(None, NO_LABELS)
    return MetricValue(float((labels == classes).mean()))


def _macro_f1(labels: Array, classes: Array) -> MetricValue:
    if not labels.size:
        return MetricValue(None, NO_LABELS)
    most = 1 + max(int(labels.max()), int(classes.max()))
    true, predicted, hits = (
        np.bincount(each, minlength=most) for each in (labels, classes, labels[labels == classes])
    )
    there = true > 0
    return MetricValue(float((2.0 * hits[there] / (true + predicted)[there]).mean()))


def _over_tasks(of_task: Callable[[Flags, Array], float]) -> Callable[[Array, Array], MetricValue]:
    """The mean over tasks with a positive and a negative label."""

    def of_read(labels: Array, scores: Array) -> MetricValue:
        known = ~np.isnan(labels)
        both = ((labels == 1.0).any(axis=0)) & ((labels == 0.0).any(axis=0))
        if not both.any():
            several = " in every task" if labels.shape[1] > 1 else ""
            return MetricValue(None, ONE_CLASS + several if known.any() else NO_LABELS)
        values = [
            of_task(labels[known[:, t], t] == 1.0, scores[known[:, t], t])
            for t in np.flatnonzero(both).tolist()
        ]
        return MetricValue(float(np.mean(values)))

    return of_read


def average_precision(positive: Flags, scores: Array) -> float:
    """Of one task with at least one positive."""
    order = np.argsort(scores)[::-1]
    ends = np.flatnonzero(scores[order] != np.append(scores[order][1:], np.nan))  # of equal scores
    found = np.cumsum(positive[order])[ends]
    return float((np.diff(found, prepend=0) * found / (ends + 1.0)).sum() / found[-1])


def roc_area(positive: Flags, scores: Array) -> float:
    """The area under the ROC curve of one task with positives and negatives."""
    _, place, times = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2.0)[place]
    inside = int(positive.sum())
    above = ranks[positive].sum() - inside * (inside + 1) / 2
    return float(above / (inside * (len(positive) - inside)))


SET_METRICS = {
    metric.name: metric
    for metric in (
        SetMetric("accuracy", read_classes, _accuracy),
        SetMetric("average-precision", read_tasks, _over_tasks(average_precision)),
        SetMetric("macro-f1", read_classes, _macro_f1),
        SetMetric("roc-auc", read_tasks, _over_tasks(roc_area)),
    )
}


def _missing(values: Array) -> Flags:
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.array([is_missing(value) for value in values.tolist()], dtype=bool)


def _positions(labels: Array, classes: int) -> Array:
    places = positions_of(labels)
    wrong = (places < 0) | (places >= classes)
    _refuse_where(wrong, f"Labels must be 0 to {classes - 1}", labels, "Number the classes so")
    return places


def _binary(labels: Array, missing: bool = False) -> Array:
    """Labels as 0.0 and 1.0; NaN where they may be ``missing``."""
    found = as_numbers(labels.reshape(-1)).reshape(labels.shape)
    absent = _missing(labels.reshape(-1)).reshape(labels.shape)
    wrong = ~((found == 0.0) | (found == 1.0) | (absent & missing))
    allowed = "0, 1 or missing" if missing else "0 or 1"
    _refuse_where(
        wrong, f"Labels must be {allowed}", labels, "Number them so, or give a score of each class"
    )
    return found


def _finite_scores(scores: Array, needed: Any = True) -> Array:
    values = as_numbers(scores.reshape(-1)).reshape(scores.shape)
    wrong = ~np.isfinite(values) & needed
    _refuse_where(wrong, "Scores must be finite numbers", scores, "Check the predictions")
    return values


def _refuse_where(wrong: Flags, rule: str, values: Array, advice: str) -> None:
    """Raise with the first row that is wrong, and how many there are."""
    places = np.argwhere(wrong)
    if len(places):
        first = values[tuple(places[0])]
        shown = first.item() if isinstance(first, np.generic) else first
        raise DomainDataError(
            f"{rule}, got {shown!r} at index {int(places[0][0])} "
            f"(in {len(np.unique(places[:, 0])):,} of {len(values):,} rows). {advice}."
        )
