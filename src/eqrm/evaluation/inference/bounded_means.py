"""Upper confidence bounds on the mean of bounded losses, one per domain.

Each takes the mean loss (m,), the number of examples (m,) and a probability of failure η, and
returns u (m,) with P(true mean > u) ≤ η in every domain, whatever the law of its losses on
[0, 1].
"""

from __future__ import annotations

import math

import numpy as np

from eqrm.evaluation.inference.risk_checks import Vector

METHODS = ("auto", "bernstein", "clopper-pearson", "hoeffding", "kl")
EPSILON = float(np.finfo(np.float64).eps)
MOST_STEPS = 100
"""Newton steps of :func:`kl`; about ten are taken."""


def hoeffding(means: Vector, counts: Vector, miss: float) -> Vector:
    """mean + √(log(1/η)/2n) (Hoeffding 1963, Theorem 1).

    >>> hoeffding(np.array([0.1]), np.array([200.0]), 0.05).round(4)
    array([0.1865])
    """
    return np.minimum(means + np.sqrt(math.log(1.0 / miss) / (2.0 * counts)), 1.0)


def kl(means: Vector, counts: Vector, miss: float) -> Vector:
    """The largest u with n·KL(mean ‖ u) ≤ log(1/η), KL of two Bernoulli laws.

    Hoeffding's sharper form (1963, eq. 2.1), for any losses in [0, 1]: never wider than
    :func:`hoeffding`, and much narrower for small means. By Newton steps to the last digit, from
    above: KL is convex in u, so that none goes below the solution.

    >>> kl(np.array([0.1, 0.0]), np.array([200.0, 200.0]), 0.05).round(4)
    array([0.1597, 0.0149])
    """
    from scipy.special import xlogy

    target, others = math.log(1.0 / miss) / counts, 1.0 - means
    some = np.where(others > 0.0, others, 1.0)
    # KL(p ‖ u) ≥ p·log p + (1−p)·log((1−p)/(1−u)), which has an inverse.
    least = others * np.exp((xlogy(means, means) - target) / some)
    upper = np.minimum(hoeffding(means, counts, miss), 1.0 - least)
    for _ in range(MOST_STEPS):
        slope = (upper - means) / np.where(upper < 1.0, upper * (1.0 - upper), np.inf)
        excess = np.maximum(_bernoulli_kl(means, np.where(slope > 0.0, upper, means)) - target, 0.0)
        step = excess / np.where(slope > 0.0, slope, 1.0)
        upper = upper - step
        if (step <= EPSILON * upper).all():
            break
    return np.asarray(np.minimum(upper * (1.0 + 4.0 * EPSILON), 1.0))


def bernstein(means: Vector, counts: Vector, miss: float, variances: Vector) -> Vector:
    """mean + √(2s²·log(2/η)/n) + 7·log(2/η)/3(n−1) (Maurer & Pontil 2009, Theorem 4).

    ``variances`` (m,) are those of the losses, with divisor n−1. One example alone gives 1.

    >>> bernstein(np.array([0.1]), np.array([200.0]), 0.05, np.array([0.001])).round(4)
    array([0.1493])
    """
    log = math.log(2.0 / miss)
    several = counts > 1.0
    linear = 7.0 * log / (3.0 * np.where(several, counts - 1.0, 1.0))
    upper = means + np.sqrt(2.0 * variances * log / counts) + linear
    return np.where(several, np.minimum(upper, 1.0), 1.0)


def clopper_pearson(means: Vector, counts: Vector, miss: float) -> Vector:
    """Clopper and Pearson's bound for losses that are 0 or 1, exact.

    >>> clopper_pearson(np.array([0.1, 1.0]), np.array([200.0, 3.0]), 0.05).round(4)
    array([0.142, 1.   ])
    """
    from scipy.special import betaincinv

    errors = np.rint(means * counts)
    some_right = errors < counts
    safe = np.where(some_right, errors, 0.0)
    return np.where(some_right, betaincinv(safe + 1.0, counts - safe, 1.0 - miss), 1.0)


def upper_bounds(
    method: str, means: Vector, counts: Vector, miss: float, variances: Vector | None
) -> Vector:
    """The bound of the method named; "auto" is the smaller of two, each at η/2."""
    if method == "clopper-pearson":
        return clopper_pearson(means, counts, miss)
    if method == "hoeffding":
        return hoeffding(means, counts, miss)
    if method == "kl" or variances is None:
        return kl(means, counts, miss)
    if method == "bernstein":
        return bernstein(means, counts, miss, variances)
    half = miss / 2.0
    return np.minimum(kl(means, counts, half), bernstein(means, counts, half, variances))


def _bernoulli_kl(p: Vector, q: Vector) -> Vector:
    """p·log(p/q) + (1−p)·log((1−p)/(1−q)), with 0·log 0 = 0."""
    from scipy.special import rel_entr

    return np.asarray(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))
