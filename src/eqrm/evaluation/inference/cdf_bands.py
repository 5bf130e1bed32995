"""Confidence bands for the whole CDF of the risk of a new domain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, gammaln

from eqrm.checks import number, one_of
from eqrm.evaluation.inference.certificates import assumption_about
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector, checked_alpha, checked_risks
from eqrm.evaluation.rounding import as_percent

METHODS = ("dkw", "exact")
MOST_RANKS = 1000
"""With more domains than this, the exact band holds on to so many of the order statistics."""
SMALLEST_MISS = 1e-12
MOST_DOMAINS_EXACT = 100_000
MOST_DOMAINS_DKW = 10_000
"""Beyond it, what the DKW band achieves is not computed but bounded by what was asked for."""


@dataclass(frozen=True, eq=False)
class CdfBand:
    """Limits between which the whole CDF lies, with a stated confidence.

    ``risks`` (m,) are sorted. ``lower`` and ``upper`` (m+1,) hold on the m+1 intervals
    (−∞, R_(1)), [R_(1), R_(2)), …, [R_(m), ∞). ``achieved`` is the exact probability, for laws
    without jumps, that all of F lies within; for other laws it lies within more often.
    """

    risks: Vector
    lower: Vector
    upper: Vector
    confidence: float
    achieved: float
    method: str

    @property
    def domains(self) -> int:
        """How many domains the band rests on."""
        return self.risks.size

    @property
    def sentence(self) -> str:
        """The statement for a reader who knows no statistics."""
        return (
            f"With {as_percent(self.confidence)} confidence, the share of new domains with a "
            "measured risk of at most r lies between the two curves for all r at once, provided "
            f"that {assumption_about(self.domains)}."
        )

    def at(self, risk: Any) -> tuple[Vector, Vector]:
        """The limits of F at one or more risks."""
        interval = np.searchsorted(self.risks, np.asarray(risk, dtype=np.float64), side="right")
        return self.lower[interval], self.upper[interval]

    def quantile_limits(self, alpha: LevelLike) -> tuple[float, float]:
        """Limits of the α-quantile, valid for all levels at once; infinite where there is none.

        >>> band = cdf_band([i / 100 for i in range(1, 101)], confidence=0.95)
        >>> band.quantile_limits(0.5), band.quantile_limits(0.99)
        ((0.35, 0.66), (0.95, inf))
        """
        level = checked_alpha(alpha)
        high = int(np.searchsorted(self.lower, level, side="left"))  # first with lower ≥ α
        low = int(np.searchsorted(self.upper, level, side="left"))  # first with upper ≥ α
        return (
            -math.inf if low == 0 else float(self.risks[low - 1]),
            math.inf if high == 0 or high > self.domains else float(self.risks[high - 1]),
        )


def cdf_band(risks: Any, confidence: float = 0.95, method: str = "exact") -> CdfBand:
    """A band that holds the whole CDF of the risk of a new domain.

    ``method="dkw"``: the empirical CDF ± ε with 2·exp(−2mε²) = 1 − confidence (Dvoretzky,
    Kiefer, Wolfowitz; Massart 1990). Equally wide everywhere, so it says nothing of the tail.

    ``method="exact"``: an interval of the Beta(r, m+1−r) law for each order statistic, all at
    the same level γ, with γ solved for by an exact recursion so that all of them hold at once
    with the confidence asked for. With more than 1,000 domains, 1,000 of the order statistics
    determine it, denser near the ends; beyond 100,000 domains the answer is the DKW band.

    Both are valid for laws with jumps: R = F⁻¹(U) gives F(R_(r)) ≥ U_(r) ≥ F(R_(r)−).

    >>> band = cdf_band([0.1, 0.2, 0.3, 0.4], method="dkw", confidence=0.5)
    >>> [round(float(limit), 3) for limit in band.at(0.25)]
    [0.084, 0.916]
    """
    values = np.sort(checked_risks(risks))
    asked = number(above=0, most=1.0 - SMALLEST_MISS).check(confidence, "confidence of a band")
    one_of(method, METHODS, "method")
    chosen = "dkw" if values.size > MOST_DOMAINS_EXACT else method
    lower, upper, achieved = _limits(values.size, asked, chosen)
    return CdfBand(values, lower, upper, asked, achieved, chosen)


@lru_cache(maxsize=32)
def _limits(domains: int, confidence: float, method: str) -> tuple[Vector, Vector, float]:
    """Limits on the m+1 intervals, and the probability that they hold."""
    if method == "dkw":
        lower, upper, achieved = _dkw_limits(domains, 1.0 - confidence)
    else:
        lower, upper, achieved = _equal_level_limits(domains, confidence)
    for limits in (lower, upper):
        limits.setflags(write=False)  # they are shared between calls
    return lower, upper, achieved


def _dkw_limits(domains: int, miss: float) -> tuple[Vector, Vector, float]:
    half_width = math.sqrt(math.log(2.0 / miss) / (2.0 * domains))
    steps = np.arange(domains + 1) / domains
    lower = np.maximum(steps - half_width, 0.0)
    upper = np.minimum(steps + half_width, 1.0)
    if domains > MOST_DOMAINS_DKW:
        return lower, upper, 1.0 - miss
    ranks = np.arange(1, domains + 1)
    return lower, upper, probability_within(domains, ranks, lower[1:], upper[:-1])


def _equal_level_limits(domains: int, confidence: float) -> tuple[Vector, Vector, float]:
    from scipy.optimize import brentq

    ranks = spaced_ranks(domains, MOST_RANKS)

    def achieved(log_level: float) -> float:
        lower, upper = _beta_limits(domains, ranks, math.exp(log_level))
        return probability_within(domains, ranks, lower, upper)

    miss = 1.0 - confidence
    sure, single = math.log(miss / (4.0 * ranks.size)), math.log(miss)
    # One statistic at level `miss` misses too often or just enough; Bonferroni's never does.
    root = brentq(lambda x: achieved(x) - confidence, sure, single, xtol=1e-10, rtol=1e-12)
    while achieved(root) < confidence and root > sure:
        root -= 1e-9
    lower, upper = _beta_limits(domains, ranks, math.exp(root))
    # On interval i, F is at least the lower limit of the last chosen rank ≤ i, and at most the
    # upper limit of the first chosen rank > i.
    before = np.searchsorted(ranks, np.arange(domains + 1), side="right")
    lower, upper = np.concatenate([[0.0], lower])[before], np.concatenate([upper, [1.0]])[before]
    return lower, upper, achieved(root)


def _beta_limits(domains: int, ranks: Ranks, level: float) -> tuple[Vector, Vector]:
    """An interval for each U_(r) ~ Beta(r, m+1−r), missed with probability ``level``."""
    tail = level / 2.0
    lower: Vector = betaincinv(ranks, domains + 1 - ranks, tail)
    return lower, 1.0 - betaincinv(domains + 1 - ranks, ranks, tail)


def spaced_ranks(domains: int, most: int) -> Ranks:
    """All ranks from 1 to m, or ``most`` of them, dense near both ends (evenly in arcsin √p)."""
    if domains <= most:
        return np.arange(1, domains + 1)
    even = np.sin(np.linspace(0.0, np.pi / 2.0, max(most, 2))) ** 2
    return np.unique(np.rint(1.0 + even * (domains - 1)).astype(np.int64))


NEGLIGIBLE = 1e-25

Ranks = npt.NDArray[np.int64]


def probability_within(domains: int, ranks: Ranks, lower: Vector, upper: Vector) -> float:
    """P(lower_j ≤ U_(ranks_j) ≤ upper_j for all j), for ``domains`` uniform numbers.

    The recursion is Noé's (1972), in the Poisson form of Moscovich and Nadler (2017), exact up to
    rounding. ``ranks`` increase, and so do ``lower`` and ``upper``. In terms of N(t), how many of
    the numbers are at most t: N(lower_j) < ranks_j and N(upper_j) ≥ ranks_j. If the number of
    points is Poisson with mean m, N has independent increments, so the law of N(t) on the paths
    still allowed is carried from limit to limit by convolutions; the condition N(1) = m is a
    division at the end.
    """
    times = np.unique(np.clip(np.concatenate([lower, upper, [1.0]]), 0.0, 1.0))
    # At time t, N may lie between `least` and `most`.
    reached = np.searchsorted(upper, times, side="right")
    least = np.concatenate([[0], ranks])[reached]
    not_yet = np.searchsorted(lower, times, side="left")
    most = np.concatenate([ranks - 1, [domains]])[not_yet]
    if (least > most).any():
        return 0.0
    law, first, time = np.ones(1), 0, 0.0
    for t, low, high in zip(times.tolist(), least.tolist(), most.tolist(), strict=True):
        steps = _poisson_law(domains * (t - time), high - first)
        spread = np.convolve(law, steps)[: high - first + 1]
        # Counts that are next to impossible are dropped; without lower limits there are many.
        possible = np.flatnonzero(spread > NEGLIGIBLE)
        if possible.size == 0:
            return 0.0
        start = max(low - first, int(possible[0]))
        first, time, law = first + start, t, spread[start:]
        if law.size == 0:
            return 0.0
    # N(1) = m is the last entry; the Poisson law has it with probability e^-m m^m / m!.
    missing = domains - first
    if missing >= law.size:
        return 0.0
    log_norm = domains * math.log(domains) - domains - math.lgamma(domains + 1.0)
    return float(min(1.0, law[missing] / math.exp(log_norm)))


def _poisson_law(mean: float, longest: int) -> Vector:
    """P(Poisson(mean) = 0, 1, …, longest), cut where it is below 1e-20."""
    if mean <= 0.0:
        return np.ones(1)
    length = min(longest, int(mean + 10.0 * math.sqrt(mean) + 40.0))
    counts = np.arange(length + 1)
    return np.asarray(np.exp(counts * math.log(mean) - mean - gammaln(counts + 1.0)))
