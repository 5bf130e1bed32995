"""What every trained model is compared with: constants, ERM, and ERM recalibrated for the level."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.task import Task
from eqrm.domains import NumberedDomains
from eqrm.evaluation.measuring.constants import BASE_RATE, EQUAL_ODDS, MEAN
from eqrm.level import Level
from eqrm.linear.scored_rows import Correction

Array = NDArray[np.float64]
ERM = "ERM"


def trained_name(level: Level) -> str:
    """What the predictor trained for a level is called.

    >>> trained_name(Level(0.9)), trained_name(Level(1.0)), recalibrated_name(Level(0.9))
    ('α = 0.9', 'worst', 'ERM recalibrated for 0.9')
    """
    return "worst" if level == Level(1.0) else f"α = {level}"


def recalibrated_name(level: Level) -> str:
    """What ERM recalibrated for a level is called."""
    return f"ERM recalibrated for {level}"


def constant_scores(
    task: Task, labels: NDArray[Any], weights: Array | None = None
) -> dict[str, Array]:
    """The scores (1,) or (1, K) of constant predictors: the base rate and equal odds, or the mean.

    >>> found = constant_scores(Task(("no", "yes")), np.array([0, 0, 0, 1]))
    >>> {name: scores.round(2).tolist() for name, scores in found.items()}
    {'base rate': [-1.1], 'equal odds': [0.0]}
    """
    if not task.classes:
        return {MEAN: np.array([np.average(labels, weights=weights)])}
    counts = np.bincount(labels, weights, minlength=len(task.classes))
    shares = counts / counts.sum()
    if len(shares) == 2:
        return {BASE_RATE: np.array([math.log(shares[1] / shares[0])]), EQUAL_ODDS: np.zeros(1)}
    return {BASE_RATE: np.log(shares)[None], EQUAL_ODDS: np.zeros((1, len(shares)))}


def recalibrated_copy(estimator: Any, correction: Correction) -> Any:
    """A fitted estimator of eqrm with corrected scores; the original stays as it is."""
    found = copy.copy(estimator)
    found._correct(correction)
    return found


def weighted_losses(losses: Array, weights: Array, domains: NumberedDomains) -> Array:
    """Losses whose plain mean in each domain is the weighted mean R = Σwℓ/Σw of the given ones.

    Each becomes R + w(ℓ − R)/w̄, so that the variance of their mean is that of the weighted mean
    (a ratio, linearised).

    >>> both = NumberedDomains(np.array([0, 0, 1]), ("a", "b"))
    >>> weighted_losses(np.array([1.0, 3.0, 5.0]), np.array([3.0, 1.0, 9.0]), both)
    array([0.75, 2.25, 5.  ])
    """
    ids, number = domains.ids, len(domains.names)
    total = np.bincount(ids, weights, number)
    risks = np.bincount(ids, weights * losses, number) / total
    share = weights * (np.bincount(ids, minlength=number) / total)[ids]
    found: Array = risks[ids] + share * (losses - risks[ids])
    return found
