"""Intervals for the mean of the worst domains, by resampling domains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import SettingError

Numbers = NDArray[np.float64]
FEWEST_RESAMPLES = 100
NUMBERS_AT_A_TIME = 4_000_000


def tail_mean_intervals(
    risks: Numbers, tails: Sequence[float], confidence: float, resamples: int, seed: int
) -> list[tuple[float, float, float]]:
    """Per share of worst domains: both ends of the interval and the standard error.

    A share of 1 is the mean over all domains, a share of 1−α the superquantile at α. Domains
    are drawn with replacement, ``resamples`` times; the ends are quantiles of what comes out
    (the percentile bootstrap).

    >>> [(low, high, error)] = tail_mean_intervals(np.arange(100.0), [1.0], 0.95, 2000, 0)
    >>> bool(abs(error - np.arange(100).std() / 10) < 0.1), bool(low < 49.5 < high)
    (True, True)
    """
    if resamples < FEWEST_RESAMPLES:
        raise SettingError(
            f"A bootstrap needs at least {FEWEST_RESAMPLES} resamples, but {resamples} are asked."
        )
    descending = np.sort(risks)[::-1]
    generator = np.random.default_rng(seed)
    size = len(risks)
    rows = max(1, min(resamples, NUMBERS_AT_A_TIME // size))
    found = [
        _tail_means(descending, tails, generator, min(rows, resamples - start))
        for start in range(0, resamples, rows)
    ]
    draws = np.concatenate(found)
    miss = (1.0 - confidence) / 2.0
    ends = np.quantile(draws, [miss, 1.0 - miss], axis=0)
    errors = draws.std(axis=0, ddof=1)
    return [(float(ends[0, j]), float(ends[1, j]), float(errors[j])) for j in range(len(tails))]


def _tail_means(
    descending: Numbers, tails: Sequence[float], generator: np.random.Generator, rows: int
) -> Numbers:
    """The tail means of ``rows`` resamples: shape (rows, tails)."""
    size = len(descending)
    drawn = generator.integers(0, size, (rows, size))
    drawn += size * np.arange(rows)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
    upto = counts.cumsum(axis=1)
    pivot = descending[0]  # differences, so that nearly equal risks keep their digits
    means = np.empty((rows, len(tails)))
    for j, tail in enumerate(tails):
        wanted = tail * size
        taken = np.diff(np.minimum(upto, wanted), axis=1, prepend=0.0)
        means[:, j] = pivot + taken @ (descending - pivot) / wanted
    return means
