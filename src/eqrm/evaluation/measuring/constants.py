"""Cross-fitted constants: what a predictor that looks at no row would have scored.

Each domain is predicted by the base rate, or the mean, of the rows of all other domains; two or
more classes also by an even guess. The counts of the labels are enough for the risk of every
domain, so tables of any size are read once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.domains import Name
from eqrm.evaluation.measuring.metrics import Metric, class_losses
from eqrm.evaluation.measuring.skill import Skill
from eqrm.risks import MeasuredRisks

Array = NDArray[np.float64]
BASE_RATE, MEAN = "base rate", "mean"
GUESSES = ("50/50 guess", "even guess")
"""The same probability for every class: of two, and of more."""
HALF_A_ROW = 0.5
"""What a class without rows counts, so that its probability is not 0."""


def guess_name(classes: int) -> str:
    """What guessing among the classes is called.

    >>> guess_name(2), guess_name(10)
    ('50/50 guess', 'even guess')
    """
    return GUESSES[classes > 2]


@dataclass(frozen=True, eq=False)
class LabelStatistics:
    """The labels of each domain: ``counts`` (m, K) of classes.

    Where labels are numbers, ``counts`` is (m, 1), with ``means`` and ``variances`` (m,), whose
    divisor is n: the sum of weights.
    """

    domains: tuple[Name, ...]
    counts: Array
    means: Array | None = None
    variances: Array | None = None

    @classmethod
    def of_rows(
        cls,
        domains: tuple[Name, ...],
        ids: NDArray[Any],
        labels: Array,
        classes: int,
        weights: Array | None = None,
    ) -> LabelStatistics:
        """From the number of the domain (n,), the label (n,) and the weight (n,) of each row.

        >>> ids, labels = np.array([0, 0, 1]), np.array([1.0, 0.0, 1.0])
        >>> LabelStatistics.of_rows(("a", "b"), ids, labels, 2).counts.tolist()
        [[1.0, 1.0], [0.0, 1.0]]
        """
        m = len(domains)
        if classes:
            cells = ids * classes + labels.astype(np.int64)
            counts = np.bincount(cells, weights, m * classes).astype(np.float64)
            return cls(domains, counts.reshape(m, classes))
        share: Any = 1.0 if weights is None else weights
        counts = np.bincount(ids, weights, m).astype(np.float64)
        means = np.bincount(ids, share * labels, m) / counts
        squares = np.bincount(ids, share * (labels - means[ids]) ** 2, m)
        return cls(domains, counts[:, None], means, squares / counts)

    def only(self, domains: Sequence[Name]) -> LabelStatistics:
        """The same of these domains, in this order; they may have become text."""
        place = {str(name): i for i, name in enumerate(self.domains)}
        rows = [place[str(name)] for name in domains]
        kept = [None if part is None else part[rows] for part in (self.means, self.variances)]
        return LabelStatistics(tuple(domains), self.counts[rows], *kept)


@dataclass(frozen=True, eq=False)
class Constant:
    """The risks of a constant, domain by domain, and its skill over all rows."""

    risks: MeasuredRisks
    skill: Skill


def cross_fitted_constants(
    labels: LabelStatistics, metric: Metric, several: bool = False
) -> Mapping[str, Constant]:
    """The base rate and an even guess of classes, or the mean of numbers.

    ``several`` says that predictors give a probability of every class, not of label 1 alone.

    >>> from eqrm.evaluation.measuring.metrics import metric_of
    >>> labels = LabelStatistics(("a", "b"), np.array([[3.0, 1.0], [2.0, 2.0]]))
    >>> found = cross_fitted_constants(labels, metric_of("brier"))
    >>> found["base rate"].risks.risks.tolist(), found["50/50 guess"].risks.risks.tolist()
    ([0.25, 0.3125], [0.25, 0.25])
    """
    if labels.means is not None and labels.variances is not None:
        return {MEAN: _mean(labels.domains, labels.counts[:, 0], labels.means, labels.variances)}
    m, classes = labels.counts.shape
    others = labels.counts.sum(axis=0) - labels.counts
    rates = np.maximum(others, HALF_A_ROW)
    rates /= rates.sum(axis=1, keepdims=True)
    found = {BASE_RATE: _of_classes(labels, rates, metric, several)}
    if metric.name != "0-1":  # which needs a class
        even = np.full((m, classes), 1.0 / classes)
        found[guess_name(classes)] = _of_classes(labels, even, metric, several)
    return found


def _of_classes(labels: LabelStatistics, shares: Array, metric: Metric, several: bool) -> Constant:
    """``shares`` (m, K) are the probabilities in each domain."""
    counts = labels.counts
    m, classes = counts.shape
    label = np.tile(np.arange(classes), m)
    if several:
        losses = class_losses(metric, label, np.repeat(shares, classes, axis=0))
    else:
        losses = metric.of_arrays(label.astype(np.float64), np.repeat(shares[:, 1], 2))
    losses = losses.reshape(m, classes)
    n = counts.sum(axis=1)
    risks = (counts * losses).sum(axis=1) / n
    squares = (counts * (losses - risks[:, None]) ** 2).sum(axis=1)
    variances = np.where(n > 1, squares / np.maximum(n - 1, 1), np.nan)
    total = n.sum()
    accuracy = float(counts[np.arange(m), shares.argmax(axis=1)].sum() / total)
    if classes == 2:
        gap = (n * shares[:, 1]).sum() / total - counts[:, 1].sum() / total
    else:
        gap = (n * shares.max(axis=1)).sum() / total - accuracy
    ranking = 0.5 if (counts.sum(axis=0) > 0).sum() > 1 else math.nan  # it ranks nothing
    found = MeasuredRisks.of(labels.domains, n, risks, variances)
    return Constant(found, Skill(ranking, accuracy, abs(float(gap))))


def _mean(domains: tuple[Name, ...], n: Array, means: Array, variances: Array) -> Constant:
    """Squared errors of the mean of the other domains; their variance would need fourth moments."""
    total = n.sum()
    centre = float((n * means).sum() / total)
    own = means - centre  # sums of differences keep their digits
    inside = n * variances
    constant = -n * own / (total - n)
    risks = inside / n + (own - constant) ** 2
    spread = float((inside + n * own**2).sum())
    ranking = 1.0 - float((n * risks).sum()) / spread if spread else math.nan
    return Constant(MeasuredRisks.of(domains, n, risks, np.full(len(n), np.nan)), Skill(ranking))
