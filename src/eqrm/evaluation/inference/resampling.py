"""Statistics of risks over domains drawn again with replacement, many times at once.

A resample of m domains is a count per domain. Sorted risks and cumulated counts give every
quantile and superquantile of it exactly, and predictors measured on the same domains share
the counts, so that their statistics stay paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from eqrm.distributions.order_statistics import equal_step_index
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.level import Level

Matrix = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]

CELLS_AT_ONCE = 2_000_000
"""Resamples × domains held in memory together: 8 MB of counts."""


def statistics_of(risks: Vector, levels: Sequence[Level]) -> Vector:
    """Mean, then the quantiles, then the superquantiles at ``levels``: (1 + 2·levels,).

    >>> statistics_of(np.array([1.0, 2.0, 3.0, 4.0]), [Level(0.5)])
    array([2.5, 2. , 3.5])
    """
    once = np.ones((1, risks.size), dtype=np.int32)
    return np.asarray(_statistics(risks, once, levels)[0])


def resampled_statistics(
    risks: Matrix, levels: Sequence[Level], resamples: int, seed: int
) -> npt.NDArray[np.float64]:
    """The statistics of each resample and predictor: (resamples, predictors, 1 + 2·levels).

    ``risks`` (predictors, m): one row per predictor, the same domains in the same order.
    """
    found = np.empty((resamples, risks.shape[0], 1 + 2 * len(levels)))
    start = 0
    for counts in _drawn_counts(risks.shape[1], resamples, seed):
        stop = start + counts.shape[0]
        for predictor, row in enumerate(risks):
            found[start:stop, predictor] = _statistics(row, counts, levels)
        start = stop
    return found


def smooth_quantile(risks: Vector, level: Level) -> float:
    """The Harrell–Davis estimate of a quantile: a weighted mean of the risks around the level.

    It varies less than one order statistic (Harrell & Davis 1982), which matters where
    predictors are compared. At the levels 0 and 1 it is the smallest and the largest risk.

    >>> round(smooth_quantile(np.arange(1.0, 101.0), Level(0.9)))
    90
    """
    return float(np.sort(risks) @ np.diff(_weight_up_to(risks.size, level)))


def resampled_smooth_quantiles(
    risks: Matrix, level: Level, resamples: int, seed: int
) -> tuple[Vector, Matrix]:
    """The :func:`smooth_quantile` of each predictor (P,), and of each resample (resamples, P).

    >>> risks = np.arange(1.0, 101.0)[None]
    >>> resampled_smooth_quantiles(risks, Level(0.9), 10, seed=0)[0].round()
    array([90.])
    """
    predictors, domains = risks.shape
    reached = _weight_up_to(domains, level)
    order = np.argsort(risks, axis=1)
    values = np.take_along_axis(risks, order, axis=1)
    found = np.empty((resamples, predictors))
    start = 0
    for counts in _drawn_counts(domains, resamples, seed):
        stop = start + counts.shape[0]
        for predictor in range(predictors):
            up_to = reached[np.cumsum(counts[:, order[predictor]], axis=1)]
            found[start:stop, predictor] = np.diff(up_to, axis=1, prepend=0.0) @ values[predictor]
        start = stop
    return values @ np.diff(reached), found


def resampled_lognormal_quantiles(
    risks: Matrix, level: Level, resamples: int, seed: int
) -> tuple[Vector, Matrix]:
    """As :func:`resampled_smooth_quantiles`, of log-normal laws with the moments of log risks.

    For levels beyond the domains, where no order statistic says anything; risks are positive.

    >>> risks = np.exp(np.arange(-2.0, 3.0))[None]
    >>> resampled_lognormal_quantiles(risks, Level(0.5), 10, seed=0)[0].round(9)
    array([1.])
    """
    logarithms, domains = np.log(risks), risks.shape[1]
    centre = logarithms.mean(axis=1)
    spread = (logarithms - centre[:, None]).T
    found = []
    for counts in (np.ones((1, domains)), *_drawn_counts(domains, resamples, seed)):
        means = counts @ spread / domains
        variances = np.maximum(counts @ spread**2 / domains - means**2, 0.0)
        deviations = np.sqrt(variances * domains / (domains - 1))
        found.append(np.exp(centre + means + level.z * deviations))
    return found[0][0], np.concatenate(found[1:])


def _weight_up_to(domains: int, level: Level) -> Vector:
    """The weight of the first 0 … m sorted risks in a Harrell–Davis estimate (m+1,)."""
    tail = max(level.tail * (domains + 1), 1e-12)
    law = beta(max(level.alpha * (domains + 1), 1e-12), tail)
    return np.asarray(law.cdf(np.arange(domains + 1) / domains))


def _drawn_counts(domains: int, resamples: int, seed: int) -> Iterator[Counts]:
    """How often each domain is drawn in each resample, a block of resamples at a time."""
    generator = np.random.default_rng(seed)
    block = max(1, CELLS_AT_ONCE // domains)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = generator.integers(0, domains, (rows, domains))
        drawn += (np.arange(rows) * domains)[:, None]
        counted = np.bincount(drawn.ravel(), minlength=rows * domains)
        yield counted.reshape(rows, domains).astype(np.int32)


def _statistics(risks: Vector, counts: Counts, levels: Sequence[Level]) -> Matrix:
    """Rows: resamples. Columns: mean, quantiles, superquantiles."""
    domains = risks.size
    order = np.argsort(risks, kind="stable")
    centre = float(risks[order[domains // 2]])  # differences keep the digits of equal risks
    values = risks[order] - centre
    sorted_counts = counts[:, order]
    reached = np.cumsum(sorted_counts, axis=1, dtype=np.int32)
    sums = np.cumsum(sorted_counts * values, axis=1)
    rows = np.arange(counts.shape[0])
    means = sums[:, -1] / domains
    quantiles, superquantiles = [], []
    for level in levels:
        index = equal_step_index(domains, level.alpha, level.tail)
        at = (reached <= index).sum(axis=1)  # first position that more than `index` draws reach
        quantiles.append(values[at])
        tail = level.tail * domains
        if tail <= 0.0:
            superquantiles.append(values[at])
            continue
        beyond = domains - reached[rows, at]
        beyond_sum = sums[:, -1] - sums[rows, at]
        superquantiles.append((beyond_sum + values[at] * (tail - beyond)) / tail)
    return centre + np.stack([means, *quantiles, *superquantiles], axis=1)
