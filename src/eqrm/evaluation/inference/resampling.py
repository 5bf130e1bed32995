"""Smooth quantiles of risks, also over domains drawn again with replacement, many times at once.

A resample of m domains is a count per domain. Sorted risks and cumulated counts give the
quantiles of it, and predictors measured on the same domains share the counts, so that they stay
paired. Surrogates are chosen by them; intervals are in :mod:`eqrm.evaluation.inference.intervals`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.level import Level

Matrix = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]

CELLS_AT_ONCE = 2_000_000
"""Resamples × domains held in memory together: 8 MB of counts."""


def smooth_quantile(risks: Vector, level: Level) -> float:
    """The Harrell–Davis estimate of a quantile: a weighted mean of the risks around the level.

    It varies less than one order statistic (Harrell & Davis 1982), which matters where
    predictors are compared. At the levels 0 and 1 it is the smallest and the largest risk.

    >>> round(smooth_quantile(np.arange(1.0, 101.0), Level(0.9)))
    90
    """
    return float(np.sort(risks) @ np.diff(weight_up_to(risks.size, level)))


def resampled_smooth_quantiles(
    risks: Matrix, level: Level, resamples: int, seed: int, wide: float = 1.0, block: int = 1
) -> tuple[Vector, Matrix]:
    """The :func:`smooth_quantile` of each predictor (P,), and of each resample (resamples, P).

    Domains in the order of time are drawn in blocks of so many consecutive ones.

    With ``wide`` above 1 the weights are those of that many times fewer domains, but of no fewer
    than leave one expected beyond the level: quantiles of a range of levels around this one, which
    vary less still, and order predictors better than they estimate their quantiles.

    >>> risks = np.arange(1.0, 101.0)[None]
    >>> resampled_smooth_quantiles(risks, Level(0.9), 10, seed=0)[0].round()
    array([90.])
    """
    predictors, domains = risks.shape
    reached = weight_up_to(domains, level, wide)
    start, stop = _ranks_that_count(reached, block)
    order = np.argsort(risks, axis=1)
    values = np.take_along_axis(risks, order, axis=1)
    found: list[Matrix] = [np.empty((0, predictors))]
    for counts in drawn_counts(domains, resamples, seed, block):
        each = np.empty((counts.shape[0], predictors))
        for predictor, ranked in enumerate(order):
            above = counts[:, ranked[stop:]].sum(axis=1, keepdims=True)
            counted = counts[:, ranked[start:stop]][:, ::-1].cumsum(axis=1) + above
            up_to = reached[domains - counted][:, ::-1]  # below each rank that counts
            weights = np.diff(up_to, axis=1, append=1.0)
            each[:, predictor] = weights @ values[predictor, start:stop]
        found.append(each)
    return values @ np.diff(reached), np.concatenate(found)


def _ranks_that_count(reached: Vector, block: int) -> tuple[int, int]:
    """The first, and one past the last, of the sorted domains that have weight in resamples.

    A share of the domains is drawn more or less often than once each; eight standard deviations of
    that are allowed for. The weight of all other domains together is below 10⁻¹².
    """
    domains = reached.size - 1
    least, most = np.searchsorted(reached, [1e-12, 1.0 - 1e-12])
    slack = 4.0 * np.sqrt(domains * block)  # the standard deviation is at most half of the root
    return max(0, int(least - slack)), min(domains, int(most + slack) + 1)


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
    for counts in (np.ones((1, domains)), *drawn_counts(domains, resamples, seed)):
        means = counts @ spread / domains
        variances = np.maximum(counts @ spread**2 / domains - means**2, 0.0)
        deviations = np.sqrt(variances * domains / (domains - 1))
        with np.errstate(over="ignore"):
            found.append(np.exp(centre + means + level.z * deviations))
    return found[0][0], np.concatenate(found)[1:]


@lru_cache(maxsize=8)
def weight_up_to(domains: int, level: Level, wide: float = 1.0) -> Vector:
    """The weight of the first 0 … m sorted risks in a Harrell–Davis estimate (m+1,)."""
    fewest = (domains + 1) * min(level.alpha, level.tail)
    number = (domains + 1) / max(1.0, min(wide, fewest))
    below, tail = max(level.alpha * number, 1e-12), max(level.tail * number, 1e-12)
    return np.asarray(betainc(below, tail, np.arange(domains + 1) / domains))


def drawn_counts(domains: int, resamples: int, seed: int, block: int = 1) -> Iterator[Counts]:
    """How often each domain is drawn in each resample, some resamples at a time.

    With ``block`` above 1, blocks of consecutive domains are drawn until there are as many as
    before; the last block is cut off, and the first domain follows the last one.

    >>> next(drawn_counts(6, 2, seed=0, block=3))
    array([[1, 1, 0, 1, 1, 2],
           [0, 1, 1, 2, 1, 1]], dtype=int32)
    """
    generator = np.random.default_rng(seed)
    at_once, pieces = max(1, CELLS_AT_ONCE // domains), -(-domains // block)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = generator.integers(0, domains, (rows, pieces))
        if block > 1:
            drawn = (drawn[:, :, None] + np.arange(block)).reshape(rows, -1)[:, :domains] % domains
        drawn += (np.arange(rows) * domains)[:, None]
        counted = np.bincount(drawn.ravel(), minlength=rows * domains)
        yield counted.reshape(rows, domains).astype(np.int32)
