"""How many independent domains the members of groups count as, estimated from their risks."""

from __future__ import annotations

import numpy as np

from eqrm.evaluation.inference.in_time.spells import exceedance_correlation
from eqrm.evaluation.inference.nested.members import NestedRisks
from eqrm.evaluation.inference.risk_checks import Vector


def effective_number(nested: NestedRisks, alpha: float, miss: float = 0.05) -> float:
    """How many independent domains the members count as, where every group counts the same.

    The mean over groups of the share below the α-quantile has the variance v/g with g groups, and
    that of n independent domains α(1−α)/n. v is the larger of two estimates: the variance of the
    groups' shares, and the variance that the correlation of normal scores within groups implies,
    with groups as small as those that matter above the quantile.
    As in survey statistics (Korn & Graubard 1998), n is lowered because v rests on few groups.

    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(40), 10)
    >>> equal = NestedRisks.of(rng.normal(size=40)[groups], groups)
    >>> different = NestedRisks.of(rng.normal(size=400), groups)
    >>> round(effective_number(equal, 0.9)), round(effective_number(different, 0.9)) > 150
    (40, True)
    """
    from scipy.special import ndtri, stdtrit

    number, binomial = len(nested), alpha * (1.0 - alpha)
    # Not mean_share_up_to: a share that equals alpha must not fall below it by rounding.
    quantile, _ = nested.first_risk(
        lambda risk: bool(nested.shares_up_to(risk).mean() >= alpha), between=(alpha, alpha)
    )
    shares = nested.shares_up_to(quantile)
    own = max(float((1.0 / nested.sizes).mean()), _in_the_tail(shares, nested))
    correlation = float(exceedance_correlation(np.array([nested.likeness]), alpha)[0])
    implied = binomial * (correlation + (1.0 - correlation) * own)
    variance = max(float(shares.var(ddof=1)), implied)
    few = float((ndtri(1.0 - miss) / stdtrit(number - 1, 1.0 - miss)) ** 2)
    return min(max(number * binomial / variance * few, number), number / own)


def _in_the_tail(shares: Vector, nested: NestedRisks) -> float:
    """The mean of 1/members over the members above the quantile, weighted by its square.

    A member of a group of n counts 1/n. Where some of those above the quantile are in small groups,
    few of them decide, and the sum of what they count is skewed.
    """
    above = (1.0 - shares) / nested.sizes
    return float((above / nested.sizes).sum() / above.sum()) if above.any() else 0.0
