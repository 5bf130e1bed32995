"""Intervals for the mean of the worst domains, by resampling domains."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import SettingError
from eqrm.level import Level

Numbers = NDArray[np.float64]
Interval = tuple[float, float, float]
FEWEST_RESAMPLES = 100
MANY = 5_000
"""A mean over more domains than this is normal enough for the central limit theorem."""
NUMBERS_AT_A_TIME = 2_000_000


def tail_mean_intervals(
    risks: Numbers, tails: Sequence[float], confidence: float, resamples: int, seed: int
) -> list[Interval]:
    """Per share of worst domains: both ends of the interval and the standard error.

    A share of 1 is the mean over all domains, a share of 1−α the superquantile at α. Domains
    are drawn with replacement, ``resamples`` times; the ends are quantiles of what comes out
    (the percentile bootstrap). Means over more than 5,000 domains are taken as normal, with
    the standard deviation of their influence function.

    >>> [(low, high, error)] = tail_mean_intervals(np.arange(100.0), [1.0], 0.95, 2000, 0)
    >>> bool(abs(error - np.arange(100).std() / 10) < 0.1), bool(low < 49.5 < high)
    (True, True)
    """
    if resamples < FEWEST_RESAMPLES:
        raise SettingError(
            f"A bootstrap needs at least {FEWEST_RESAMPLES} resamples, but {resamples} are asked."
        )
    descending = np.sort(risks)[::-1]
    few = [tail for tail in tails if tail * len(risks) <= MANY]
    found = dict(zip(few, _resampled(descending, few, confidence, resamples, seed), strict=True))
    return [
        found[tail] if tail in found else _by_the_central_limit(descending, tail, confidence)
        for tail in tails
    ]


def _by_the_central_limit(descending: Numbers, tail: float, confidence: float) -> Interval:
    """The influence of a risk R on the mean beyond the quantile q is (R − q)₊/tail + q − mean."""
    size = len(descending)
    wanted = tail * size
    edge = descending[min(size, math.ceil(wanted)) - 1] if tail < 1.0 else descending[-1]
    excess = np.maximum(descending - edge, 0.0)
    mean = float(edge + excess.sum() / wanted)
    error = float(excess.std(ddof=1) / tail / math.sqrt(size))
    width = Level((1.0 + confidence) / 2.0).z * error
    return mean - width, mean + width, error


def _resampled(
    descending: Numbers, tails: Sequence[float], confidence: float, resamples: int, seed: int
) -> list[Interval]:
    if not tails:
        return []
    size = len(descending)
    wanted = max(tails) * size
    # Only the worst domains matter. How many draws fall among the first ``top`` is binomial,
    # and at ten standard deviations never fewer than are wanted.
    top = min(size, math.ceil(wanted + 10.0 * math.sqrt(wanted) + 100.0))
    generator = np.random.default_rng(seed)
    rows = max(1, min(resamples, NUMBERS_AT_A_TIME // top))
    draws = np.concatenate(
        [
            _tail_means(descending[:top], size, tails, generator, min(rows, resamples - start))
            for start in range(0, resamples, rows)
        ]
    )
    miss = (1.0 - confidence) / 2.0
    low, high = np.quantile(draws, [miss, 1.0 - miss], axis=0).tolist()
    errors = draws.std(axis=0, ddof=1).tolist()
    return list(zip(low, high, errors, strict=True))


def _tail_means(
    worst: Numbers, size: int, tails: Sequence[float], generator: np.random.Generator, rows: int
) -> Numbers:
    """The tail means of ``rows`` resamples of ``size`` domains: shape (rows, tails)."""
    top = len(worst)
    numbers = np.full(rows, size) if top == size else generator.binomial(size, top / size, rows)
    drawn = generator.integers(0, top, int(numbers.sum()))
    drawn += top * np.repeat(np.arange(rows), numbers)
    upto = np.bincount(drawn, minlength=rows * top).reshape(rows, top).cumsum(axis=1)
    pivot = worst[0]  # differences, so that nearly equal risks keep their digits
    gaps = np.diff(worst - pivot, append=0.0)
    means = np.empty((rows, len(tails)))
    for j, tail in enumerate(tails):
        # Σ taken_i·(worst_i − pivot), summed by parts: taken is the difference of min(upto, …).
        filled = np.minimum(upto, tail * size)
        means[:, j] = pivot - (filled[:, :-1] @ gaps[:-1]) / (tail * size)
        means[:, j] += (filled[:, -1] / (tail * size)) * (worst[-1] - pivot)
    return means
