"""Worlds of domains of unequal sizes, whose spread is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from eqrm.evaluation import denoised_quantile, noise_split
from eqrm.evaluation.inference.noise import NoiseSplit

Vector = npt.NDArray[np.float64]
Sizes = npt.NDArray[np.int64]
Generator = np.random.Generator

SIZES: dict[str, Callable[[Generator], Sizes]] = {
    "equal": lambda rng: np.full(50, 50),
    "3 to 600": lambda rng: rng.integers(3, 601, 50),
    "log-uniform, 2 to 600": lambda rng: np.exp(rng.uniform(np.log(2), np.log(601), 50)).astype(
        np.int64
    ),
    "one huge": lambda rng: np.append(100_000, rng.integers(20, 101, 49)),
    "many of one row": lambda rng: np.append(np.ones(60, np.int64), rng.integers(20, 201, 40)),
}
LOSSES = ("exponential", "normal", "Bernoulli")
SPREAD = 0.25
"""The standard deviation between domains, as a share of the mean risk."""
MEANS = {"exponential": 1.0, "normal": 1.0, "Bernoulli": 0.3}


@cache
def law(losses: str, spread: float) -> stats.rv_frozen:
    """The law of the true risks."""
    mean, deviation = MEANS[losses], spread * MEANS[losses]
    if losses == "exponential":
        return stats.gamma(1.0 / spread**2, scale=mean * spread**2)
    if losses == "normal":
        return stats.norm(mean, deviation)
    number = mean * (1.0 - mean) / deviation**2 - 1.0
    return stats.beta(mean * number, (1.0 - mean) * number)


@dataclass(frozen=True)
class World:
    """What was measured in each domain, and the true risks."""

    risks: Vector
    counts: Sizes
    variances: Vector
    true: Vector

    @property
    def split(self) -> NoiseSplit:
        return noise_split(self.risks, self.counts, self.variances)


def drawn_world(sizes: str, losses: str, rng: Generator, spread: float = SPREAD) -> World:
    """One world of domains of these sizes."""
    counts = SIZES[sizes](rng)
    number = len(counts)
    true = (
        law(losses, spread).rvs(number, random_state=rng)
        if spread
        else np.full(number, MEANS[losses])
    )
    return measured_losses(true, counts, losses, rng)


def measured_losses(true: Vector, counts: Sizes, losses: str, rng: Generator) -> World:
    """Losses of domains; exponential and Bernoulli ones are noisier where the risk is higher."""
    each = np.repeat(true, counts)
    if losses == "exponential":
        values = each * rng.exponential(1.0, each.size)
    elif losses == "normal":
        values = each + rng.normal(0.0, 1.0, each.size)
    else:
        values = (rng.random(each.size) < each).astype(float)
    starts = np.append(0, counts.cumsum()[:-1])
    risks = np.add.reduceat(values, starts) / counts
    squares = np.add.reduceat((values - np.repeat(risks, counts)) ** 2, starts)
    return World(
        risks, counts, np.where(counts > 1, squares / np.maximum(counts - 1, 1), np.nan), true
    )


@dataclass(frozen=True)
class Accuracy:
    """Over many worlds of one kind; errors as shares of the true standard deviation."""

    sizes: str
    losses: str
    error: float
    least_error: float
    none_found: float
    covered: float
    false_alarms: float
    noise: float
    quantile_error: float
    measured_quantile_error: float
    below: float
    true_below: float


def accuracy(sizes: str, losses: str, worlds: int, seed: int = 0) -> Accuracy:
    """Of the standard deviation between domains, its interval, and the de-noised .9-quantile."""
    rng = np.random.default_rng([seed, list(SIZES).index(sizes), LOSSES.index(losses)])
    deviation, truth = SPREAD * MEANS[losses], float(law(losses, SPREAD).ppf(0.9))
    rows = []
    for _ in range(worlds):
        world = drawn_world(sizes, losses, rng)
        split, alone = world.split, drawn_world(sizes, losses, rng, spread=0.0).split
        precisions = 1.0 / (deviation**2 + split.loss_variance / world.counts)
        quantiles = [
            denoised_quantile(world.risks, world.counts, world.variances),
            *(np.quantile(r, 0.9, method="inverted_cdf") for r in (world.risks, world.true)),
        ]
        rows.append(
            [
                split.spread_variance**0.5 / deviation - 1.0,
                np.sqrt(0.5 / (precisions**2).sum()) / deviation**2,
                "no difference between domains" in split.sentence,
                split.spread_low <= deviation <= split.spread_high,
                alone.differs,
                split.noise_share,
                *(quantile - truth for quantile in quantiles),
            ]
        )
    found = np.array(rows, dtype=float)
    errors = np.sqrt((found**2).mean(axis=0))
    shares = found.mean(axis=0)
    below = (found[:, 6:] < 0.0).mean(axis=0)
    return Accuracy(
        sizes, losses, *errors[:2], *shares[2:6], errors[6], errors[7], below[0], below[2]
    )
