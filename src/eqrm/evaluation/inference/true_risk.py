"""Certificates for the true risk of new domains, when domains were measured by finite samples.

**The argument.** Domain i has a true risk R_i, drawn from the law of domains, and given the
domain u_i is an upper confidence bound on R_i from its n_i losses: P(u_i < R_i | domain) ≤ η.
Let q be the α-quantile of R. If u_i < q, then R_i < q, which has probability at most α, or
R_i ≥ q > u_i, which has probability at most η given such a domain. Together at most
α' = α + (1−α)·η, independently for each domain. So k or more of the u_i lie below q with
probability at most P(Binomial(m, α') ≥ k); where that is at most 1 − confidence, u_(k) ≥ q
with the confidence asked for, over the draw of both domains and examples.

No confidence is split and no union over domains is taken, so η need not shrink with m. It is chosen
from m, α and the confidence alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaincinv, rel_entr, xlogy

from eqrm.checks import CONFIDENCE, number, one_of
from eqrm.errors import SettingError
from eqrm.evaluation.inference import certificates
from eqrm.evaluation.inference.certificates import TRUE, Certificate, too_few
from eqrm.evaluation.inference.risk_checks import (
    LevelLike,
    Vector,
    checked_alpha,
    checked_counts,
    checked_range,
    checked_risks,
    checked_variances,
    refuse_first,
)

METHODS = ("auto", "bernstein", "clopper-pearson", "kl")
EPSILON = float(np.finfo(np.float64).eps)
MOST_STEPS = 100
"""Newton steps of :func:`kl`; about ten are taken."""
MISS_PER_DOMAIN = 0.05
"""The η aimed at: domains of a thousand examples would like a smaller one, of twenty a larger."""
SMALLEST_MISS = 1e-9


def true_risk_bound(
    risks: Any,
    counts: Any,
    alpha: LevelLike = 0.9,
    confidence: float = 0.95,
    *,
    loss_range: tuple[float, float] = (0.0, 1.0),
    loss_variances: Any = None,
    method: str = "auto",
) -> Certificate:
    """An upper confidence bound on the α-quantile of the true risk of new domains.

    With probability at least ``confidence``, over the draw of domains and of the examples in
    them, the true risk of a new domain is at most the bound with probability at least α. Losses
    must lie within ``loss_range``.

    ``risks`` (m,) are mean losses of ``counts`` (m,) independent examples each, and
    ``loss_variances`` (m,) the variances of the losses (divisor n−1). ``method`` bounds each
    domain: "kl" (Hoeffding's sharper form), "bernstein" (needs variances), "clopper-pearson"
    (losses 0 or 1), or "auto": kl, and with variances the better of kl and bernstein.

    >>> risks = np.linspace(0.05, 0.25, 100)
    >>> few, many = (true_risk_bound(risks, counts=n).bound for n in (50, 5000))
    >>> round(few, 3), round(many, 3)
    (0.382, 0.255)
    """
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    uppers_at, domains = _upper_bounds(risks, counts, loss_range, loss_variances, method)
    rank, miss = rank_and_miss(domains, level, asked)
    bound = float(np.sort(uppers_at(miss))[rank - 1])
    reached = certificates.at_least(rank, domains, level + (1.0 - level) * miss)
    return Certificate(
        bound=bound,
        confidence=asked,
        achieved=1.0 - reached,
        domains=domains,
        method=f"order statistic of {method} bounds",
        rank=rank,
        alpha=level,
        risk_kind=TRUE,
        vacuous=bound >= loss_range[1] - 1e-6 * (loss_range[1] - loss_range[0]),
    )


def true_probability_bound(
    risks: Any,
    counts: Any,
    threshold: float,
    confidence: float = 0.95,
    *,
    loss_range: tuple[float, float] = (0.0, 1.0),
    loss_variances: Any = None,
    method: str = "auto",
) -> Certificate:
    """A lower confidence bound on P(a new domain's true risk ≤ threshold).

    With u_i as in :func:`true_risk_bound` and p = P(R ≤ t): u_i ≤ t implies R_i ≤ t or
    u_i < R_i, so P(u_i ≤ t) ≤ p + (1−p)·η. Clopper and Pearson's bound c on the share of
    u_i ≤ t therefore gives p ≥ (c − η)/(1 − η).
    """
    asked = CONFIDENCE.check(confidence, "confidence")
    uppers_at, domains = _upper_bounds(risks, counts, loss_range, loss_variances, method)
    miss = MISS_PER_DOMAIN
    below = int((uppers_at(miss) <= number().check(threshold, "threshold")).sum())
    share = certificates.probability_below(below, domains, 1.0 - asked)
    bound = max(0.0, (share - miss) / (1.0 - miss))
    return Certificate(
        bound=bound,
        confidence=asked,
        achieved=asked,
        domains=domains,
        method=f"Clopper-Pearson on {method} bounds",
        rank=below,
        threshold=float(threshold),
        risk_kind=TRUE,
        vacuous=bound == 0.0,
    )


def rank_and_miss(domains: int, alpha: float, confidence: float) -> tuple[int, float]:
    """The rank k, and the η that makes P(Binomial(m, α + (1−α)η) ≥ k) the miss allowed.

    The smallest k whose η is ``MISS_PER_DOMAIN`` or more; the last one if none is.
    """
    miss = 1.0 - confidence
    if certificates.upper_rank(domains, alpha, miss) is None:
        raise too_few(domains, alpha, confidence)
    aimed_at = alpha + (1.0 - alpha) * MISS_PER_DOMAIN
    rank = certificates.upper_rank(domains, aimed_at, miss) or domains
    inflated = certificates.probability_below(rank, domains, miss)
    per_domain = min((inflated - alpha) / (1.0 - alpha), 0.5)
    if per_domain < SMALLEST_MISS:
        raise too_few(domains, alpha, confidence, needed=domains + 1)
    return rank, per_domain


def _upper_bounds(
    risks: Any, counts: Any, loss_range: tuple[float, float], loss_variances: Any, method: str
) -> tuple[Any, int]:
    """A function from η to the bounds u (m,) in the units of the losses, and m."""
    values = checked_risks(risks)
    numbers = checked_counts(counts, values.size)
    low, high = checked_range(loss_range, "loss_range")
    width = high - low
    refuse_first(
        (values < low - 1e-9 * width) | (values > high + 1e-9 * width),
        values,
        f"The risk of {{domain}} is {{value:g}}, outside loss_range ({low:g}, {high:g}). A "
        "certificate for the true risk needs bounded losses: give their range, or clip them "
        "before they are averaged.",
    )
    one_of(method, METHODS, "method")
    means, variances = np.clip((values - low) / width, 0.0, 1.0), None
    if loss_variances is not None:
        variances = checked_variances(loss_variances, values.size) / width**2
    if method == "bernstein" and variances is None:
        raise SettingError("method='bernstein' needs loss_variances, the variance in each domain.")
    if method == "clopper-pearson":
        errors = means * numbers
        refuse_first(
            np.abs(errors - np.rint(errors)) > 1e-6 + 1e-9 * numbers,
            errors,
            "method='clopper-pearson' is for losses that are 0 or 1, but domain {i} has a sum of "
            "losses of {value:.6g} in units of the range. Use method='kl'.",
        )

    def uppers_at(miss: float) -> Vector:
        return low + width * _each_bound(method, means, numbers, miss, variances)

    return uppers_at, values.size


def kl(means: Vector, counts: Vector, miss: float) -> Vector:
    """The largest u with n·KL(mean ‖ u) ≤ log(1/η), KL of two Bernoulli laws.

    Hoeffding's sharper form (1963, eq. 2.1), for any losses in [0, 1]. By Newton steps to the last
    digit, from above: KL is convex in u, so that none goes below the solution. They begin at the
    lower of two bounds, one of which is Hoeffding's mean + √(log(1/η)/2n) (Theorem 1).
    """
    target, others = math.log(1.0 / miss) / counts, 1.0 - means
    some = np.where(others > 0.0, others, 1.0)
    # KL(p ‖ u) ≥ p·log p + (1−p)·log((1−p)/(1−u)), which has an inverse.
    least = others * np.exp((xlogy(means, means) - target) / some)
    upper = np.minimum(means + np.sqrt(target / 2.0), 1.0 - least)
    for _ in range(MOST_STEPS):
        slope = (upper - means) / np.where(upper < 1.0, upper * (1.0 - upper), np.inf)
        at = np.where(slope > 0.0, upper, means)
        excess = np.maximum(rel_entr(means, at) + rel_entr(others, 1.0 - at) - target, 0.0)
        step = excess / np.where(slope > 0.0, slope, 1.0)
        upper = upper - step
        if (step <= EPSILON * upper).all():
            break
    return np.asarray(np.minimum(upper * (1.0 + 4.0 * EPSILON), 1.0))


def bernstein(means: Vector, counts: Vector, miss: float, variances: Vector) -> Vector:
    """mean + √(2s²·log(2/η)/n) + 7·log(2/η)/3(n−1) (Maurer & Pontil 2009, Theorem 4).

    ``variances`` (m,) are those of the losses, with divisor n−1. One example alone gives 1.
    """
    log = math.log(2.0 / miss)
    several = counts > 1.0
    linear = 7.0 * log / (3.0 * np.where(several, counts - 1.0, 1.0))
    upper = means + np.sqrt(2.0 * variances * log / counts) + linear
    return np.where(several, np.minimum(upper, 1.0), 1.0)


def clopper_pearson(means: Vector, counts: Vector, miss: float) -> Vector:
    """Clopper and Pearson's bound for losses that are 0 or 1, exact."""
    errors = np.rint(means * counts)
    some_right = errors < counts
    safe = np.where(some_right, errors, 0.0)
    return np.where(some_right, betaincinv(safe + 1.0, counts - safe, 1.0 - miss), 1.0)


def _each_bound(
    method: str, means: Vector, counts: Vector, miss: float, variances: Vector | None
) -> Vector:
    """The bound of the method named; "auto" is the smaller of two, each at η/2."""
    if method == "clopper-pearson":
        return clopper_pearson(means, counts, miss)
    if method == "kl" or variances is None:
        return kl(means, counts, miss)
    if method == "bernstein":
        return bernstein(means, counts, miss, variances)
    half = miss / 2.0
    return np.minimum(kl(means, counts, half), bernstein(means, counts, half, variances))
