"""The probability that sorted uniform numbers stay within given limits, all at once.

Every band for a CDF comes down to P(a_r ≤ U_(r) ≤ b_r for all r), U_(1) ≤ … ≤ U_(m) the order
statistics of m uniform numbers: no law of the risks enters. The recursion over the limits is
Noé's (1972), in the Poisson form of Moscovich and Nadler (2017), exact up to rounding.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eqrm.evaluation.inference.risk_checks import Vector

NEGLIGIBLE = 1e-25

Ranks = npt.NDArray[np.int64]


def probability_within(domains: int, ranks: Ranks, lower: Vector, upper: Vector) -> float:
    """P(lower_j ≤ U_(ranks_j) ≤ upper_j for all j), for ``domains`` uniform numbers.

    ``ranks`` increase, and so do ``lower`` and ``upper``. In terms of N(t), how many of the
    numbers are at most t: N(lower_j) < ranks_j and N(upper_j) ≥ ranks_j. If the number of
    points is Poisson with mean m, N has independent increments, so the law of N(t) on the
    paths still allowed is carried from limit to limit by convolutions; the condition
    N(1) = m is a division at the end.

    >>> both = np.array([1, 2])
    >>> p = probability_within(2, both, np.array([0.0, 0.5]), np.array([1.0, 1.0]))
    >>> round(p, 12)  # the larger of two is at least 1/2
    0.75
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
    from scipy.special import gammaln

    if mean <= 0.0:
        return np.ones(1)
    length = min(longest, int(mean + 10.0 * math.sqrt(mean) + 40.0))
    counts = np.arange(length + 1)
    law: Vector = np.exp(counts * math.log(mean) - mean - gammaln(counts + 1.0))
    return law
