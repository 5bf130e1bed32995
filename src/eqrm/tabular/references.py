"""Constants that every model is compared with, and the risks of scores by domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.preprocessor import Task
from eqrm.domains import NumberedDomains
from eqrm.estimators.tasks import Classification, Regression
from eqrm.evaluation.measuring.from_arrays import risks_of_losses
from eqrm.evaluation.references import BASE_RATE, MEAN, guess_name
from eqrm.risks import MeasuredRisks
from eqrm.tabular.preparation import EncodedPart

Array = NDArray[np.float64]


def constant_scores(
    task: Task, labels: NDArray[Any], weights: Array | None = None
) -> dict[str, Array]:
    """The scores (1,) or (1, K) of constant predictors: the base rate and a guess, or the mean.

    >>> found = constant_scores(Task(("no", "yes")), np.array([0, 0, 0, 1]))
    >>> {name: scores.round(2).tolist() for name, scores in found.items()}
    {'base rate': [-1.1], '50/50 guess': [0.0]}
    """
    if not task.classes:
        return {MEAN: np.array([np.average(labels, weights=weights)])}
    counts = np.bincount(labels, weights, minlength=len(task.classes))
    shares = counts / counts.sum()
    if len(shares) == 2:
        return {BASE_RATE: np.array([math.log(shares[1] / shares[0])]), guess_name(2): np.zeros(1)}
    return {BASE_RATE: np.log(shares)[None], guess_name(len(shares)): np.zeros((1, len(shares)))}


def weighted_losses(losses: Array, weights: Array, domains: NumberedDomains) -> Array:
    """Losses whose plain mean in each domain is the weighted mean R = Σwℓ/Σw of the given ones.

    Each becomes R + w(ℓ − R)/w̄, so that the variance of their mean is that of the weighted mean
    (a ratio, linearised).
    """
    ids, number = domains.ids, len(domains.names)
    total = np.bincount(ids, weights, number)
    risks = np.bincount(ids, weights * losses, number) / total
    share = weights * (np.bincount(ids, minlength=number) / total)[ids]
    return risks[ids] + share * (losses - risks[ids])


def measured_rows(
    scores: Mapping[str, Array], rows: EncodedPart, task: Task
) -> dict[str, MeasuredRisks]:
    """The risks of predictors by name, from their scores (n,) or (n, K) of all rows."""
    domains, found = rows.table.numbered_domains, {}
    kind = Classification if task.classes else Regression
    for name, each in scores.items():
        losses = kind._losses_of(each, rows.labels)  # a probability may be rounded to 0
        if rows.weights is not None:
            losses = weighted_losses(losses, rows.weights, domains)
        found[name] = risks_of_losses(name, losses, domains)
    return found
