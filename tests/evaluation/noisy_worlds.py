"""Worlds whose true risks are known, measured with noise: what de-noising is worth there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from eqrm.evaluation import denoised_quantile

TRUE_RISKS = {
    "normal": stats.norm(1.0, 0.2),
    "lognormal": stats.lognorm(0.6, scale=0.5),
    "exponential": stats.expon(0.2, 0.3),
    "uniform": stats.uniform(0.1, 0.8),
    "Student with 4 degrees": stats.t(4, 1.0, 0.15),
    "beta": stats.beta(2, 6),
}
KINDS = [
    *((law, "normal") for law in TRUE_RISKS if law != "beta"),
    *((law, "exponential") for law in TRUE_RISKS if law != "beta"),
    ("beta", "binary"),
    ("uniform", "binary"),
]
SIZES = [(30, 5), (30, 20), (30, 60), (30, 100), (100, 5), (100, 20), (100, 60), (500, 5)]
SIZES += [(500, 20), (500, 100)]


@dataclass(frozen=True)
class Outcome:
    """The error of the .9-quantile of true risks, root mean square, with and without noise."""

    law: str
    losses: str
    domains: int
    examples: int
    noise_share: float
    measured: float
    denoised: float
    simulation_error: float
    """One standard error of the ratio, for worlds are drawn too."""

    @property
    def ratio(self) -> float:
        """Below 1 where de-noising helps."""
        return self.denoised / self.measured


def measure(
    true: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], losses: str, seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean and variance (divisor n−1) of the losses in each domain."""
    generator = np.random.default_rng(seed)
    of_each = np.repeat(true, counts)
    if losses == "normal":
        drawn = generator.normal(0.0, 0.8, of_each.size)
        drawn += of_each
    elif losses == "exponential":
        drawn = generator.exponential(1.0, of_each.size)
        drawn *= of_each
    else:
        drawn = (generator.random(of_each.size) < of_each).astype(float)
    first = np.cumsum(counts) - counts
    means = np.add.reduceat(drawn, first) / counts
    drawn -= np.repeat(means, counts)
    squares = np.add.reduceat(np.square(drawn, out=drawn), first)
    return means, squares / (counts - 1)


def outcome(
    law: str, losses: str, domains: int, examples: int, worlds: int, unequal: bool, seed: int = 0
) -> Outcome:
    """The errors over many worlds of one kind; sizes are equal, or spread around ``examples``."""
    generator = np.random.default_rng([seed, domains, examples])
    distribution = TRUE_RISKS[law]
    truth = float(distribution.ppf(0.9))
    measured, without, noise = [], [], []
    for world in range(worlds):
        true = distribution.rvs(domains, random_state=generator)
        if losses == "exponential":
            true = np.maximum(true, 0.0)
        counts = np.full(domains, examples)
        if unequal:
            sizes = examples * generator.lognormal(0.0, 0.8, domains)
            counts = np.maximum(2, np.rint(sizes)).astype(np.int64)
        means, variances = measure(true, counts, losses, seed=world)
        measured.append(means)
        without.append(denoised_quantile(means, counts, variances, 0.9))
        noise.append(variances / counts)
    plain = np.quantile(measured, 0.9, axis=1, method="inverted_cdf")
    before, after = np.square(plain - truth), np.square(np.array(without) - truth)
    shares = np.mean(noise, axis=1) / np.var(measured, axis=1, ddof=1)
    ratio = float(np.sqrt(after.mean() / before.mean()))
    scatter = float(np.std(after - ratio**2 * before) / np.sqrt(worlds))
    return Outcome(
        law,
        losses + (", unequal sizes" if unequal else ""),
        domains,
        examples,
        float(np.mean(shares)),
        float(np.sqrt(before.mean())),
        float(np.sqrt(after.mean())),
        scatter / (2.0 * ratio * float(before.mean())),
    )
