"""Ten laws of the risks of two predictors on the same domain, and the truth about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from eqrm import Level

Array = NDArray[np.float64]
Pair = tuple[Array, Array]
Statistic = tuple[str, float | None]
MEAN, QUANTILE, SUPERQUANTILE = "mean", "quantile", "superquantile"
DRAWN = 4_000_000
"""Domains that the truth is computed from: their error is below a hundredth of an interval."""
BLOCK = 1_000_000
Generator = np.random.Generator


def normal_risks(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """Correlated by 0.8."""
    one, other = generator.normal(size=(2, *shape))
    return 1.0 + 0.2 * one, 1.05 + 0.16 * one + 0.12 * other


def log_normal(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """With logarithms of standard deviation 1, correlated by 0.9."""
    one, other = generator.normal(size=(2, *shape))
    return np.exp(one), 0.8 * np.exp(0.9 * one + 0.44 * other)


def heavy_tails(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """Pareto with the index 2.5: a variance, but no skewness."""
    one, other = 1.0 + generator.pareto(2.5, size=(2, *shape))
    return one, 0.6 * one + 0.4 * other


def ties(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """Multiples of 0.1: sums of Poisson counts, one of them shared."""
    shared, one, other = generator.poisson(1.0, size=(3, *shape))
    return 0.1 * (shared + one), 0.1 * (shared + other)


def one_row(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """Risks that are 0 or 1, as of one row per domain; a tenth differ."""
    one = generator.random(shape) < 0.2
    other = one ^ (generator.random(shape) < 0.1)
    return one.astype(np.float64), other.astype(np.float64)


def signs_flip(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """A tenth of the domains is bad for each predictor, and half of these only for one."""
    place = generator.random(shape)
    one, other = 0.3 * generator.normal(size=(2, *shape))
    bad, bad_for_other = place < 0.1, (place > 0.05) & (place < 0.15)
    return one + 3.0 * bad, other + 3.0 * bad_for_other


def unequal_sizes(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """Mean counts over 1 to some thousands of rows per domain, with a common rate."""
    sizes = np.ceil(np.exp(2.0 + 1.5 * generator.normal(size=shape)))
    rate = np.exp(0.5 * generator.normal(size=shape) - 0.5)
    return generator.poisson(rate * sizes) / sizes, generator.poisson(0.9 * rate * sizes) / sizes


def skewed_down(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """The negative of log-normal risks."""
    one, other = log_normal(generator, shape)
    return -one, -other


def bad_for_one(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """A tenth of the domains is bad for the first predictor alone: a gap just above its quantile.

    The share is a little smaller, so that the 0.9-quantile is unique.
    """
    one, other = generator.normal(size=(2, *shape))
    place = ndtr(one)
    return place + 3.0 * (place > 0.9005), 2.0 + 0.97 * one + 0.24 * other


def density_jumps(generator: Generator, shape: tuple[int, ...]) -> Pair:
    """At the 0.9-quantiles densities jump 400-fold, down for one predictor and up for the other."""
    one, other = generator.normal(size=(2, *shape))
    first, second = ndtr(one) - 0.9, ndtr(0.97 * one + 0.243 * other) - 0.9
    return (
        20.0 + np.where(first < 0.0, 0.05, 20.0) * first,
        20.0 + np.where(second < 0.0, 20.0, 0.05) * second,
    )


LAWS: dict[str, Callable[[Generator, tuple[int, ...]], Pair]] = {
    "normal": normal_risks,
    "log-normal": log_normal,
    "heavy tails": heavy_tails,
    "ties": ties,
    "one row per domain": one_row,
    "bimodal, signs flip": signs_flip,
    "unequal sizes": unequal_sizes,
    "skewed down": skewed_down,
    "bad for one": bad_for_one,
    "density jumps": density_jumps,
}


@dataclass(frozen=True)
class Truth:
    """The statistics of both predictors, by kind and level."""

    first: dict[Statistic, float]
    second: dict[Statistic, float]

    def difference(self, statistic: Statistic) -> float:
        """second − first."""
        return self.second[statistic] - self.first[statistic]

    def change(self, statistic: Statistic) -> float:
        """The difference as a share of the first; infinite where that is 0."""
        before = abs(self.first[statistic])
        return self.difference(statistic) / before if before else np.inf


@lru_cache(maxsize=64)
def truth_of(law: str, levels: tuple[float, ...]) -> Truth:
    """From four million domains, the same for every seed of the worlds."""
    generator = np.random.default_rng(20)
    drawn = [LAWS[law](generator, (BLOCK,)) for _ in range(DRAWN // BLOCK)]
    first, second = (
        _statistics(np.sort(np.concatenate([pair[i] for pair in drawn])), levels) for i in (0, 1)
    )
    return Truth(first, second)


def _statistics(ordered: Array, levels: Sequence[float]) -> dict[Statistic, float]:
    found: dict[Statistic, float] = {(MEAN, None): float(ordered.mean())}
    for alpha in levels:
        below = int(np.ceil(alpha * ordered.size - 1e-6))
        found[QUANTILE, alpha] = float(ordered[below - 1])
        found[SUPERQUANTILE, alpha] = float(ordered[below:].mean())
    return found


def bootstrapped(
    first: Array, second: Array, levels: Sequence[float], draws: NDArray[np.int64]
) -> Array:
    """Mean, quantiles and superquantiles of both, resampled: (2, 1 + 2·levels, resamples).

    ``draws`` (resamples, m) are the domains drawn.
    """
    found = []
    for risks in (first, second):
        ordered = np.sort(risks[draws], axis=1)
        rows, size = [ordered.mean(axis=1)], ordered.shape[1]
        tails = []
        for alpha in levels:
            below, tail = int(np.ceil(alpha * size - 1e-9)), Level(alpha).tail * size
            quantile = ordered[:, below - 1]
            rows.append(quantile)
            beyond = (ordered[:, below:] - quantile[:, None]).sum(axis=1)
            tails.append(quantile + beyond / tail)
        found.append(np.stack([*rows, *tails]))
    return np.stack(found)
