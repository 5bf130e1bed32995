"""The linear world of the paper: X1 ← N1, Y ← X1 + NY, X2 ← Y + N2, in any domain.

It is the example of appendix A.1, used in §6.1 and G.1. Domains differ in the standard deviations
of some of the noises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import lognorm

from eqrm.linear import DomainMoments
from eqrm.linear.running_moments import MomentAccumulator, RunningMoments

Floats = NDArray[np.float64]
Domain = Mapping[str, float]
"""The standard deviations of the noises that are not those of the world, by variable."""
Domains = Mapping[str, Domain]

FEATURES, TARGET = ("X1", "X2"), "Y"
CAUSAL_ORDER = ("X1", "Y", "X2")
EFFECTS = torch.tensor([[1.0, 0, 0], [1, 1, 1], [1, 1, 0]], dtype=torch.float64)
"""Of the noises, in causal order, on X1, X2 and Y."""
ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class ExampleWorld:
    """The standard deviations of the noises where a domain says nothing else."""

    sigma1: float = 1.0
    sigma_y: float = 2.0**0.5
    sigma2: float = 1.0

    def scales(self, domain: Domain) -> list[tuple[float, float]]:
        """For each noise, in causal order, its own deviation and what a domain multiplies it by."""
        found = []
        for name, sigma in zip(CAUSAL_ORDER, (self.sigma1, self.sigma_y, self.sigma2), strict=True):
            own = math.sqrt(sigma**2)
            found.append((own, domain[name] / own if name in domain else 1.0))
        return found

    def population(self, domains: Domains) -> DomainMoments:
        """The exact moments of every domain."""
        scales = torch.tensor(
            [self.scales(domain) for domain in domains.values()], dtype=torch.float64
        )
        root = EFFECTS * (scales[..., 1] ** 2 * scales[..., 0] ** 2).sqrt().unsqueeze(1)
        mean = torch.zeros(len(domains), 3, dtype=torch.float64)
        return DomainMoments.population(
            mean, root @ root.mT, names=list(domains), features=FEATURES, target=TARGET
        )

    def blocks(self, domain: Domain, rows: int, seed: int = 0, index: int = 0) -> Iterator[Floats]:
        """Samples (≤ 32,768, 3) of domain number ``index``, X1, X2 and Y, block by block.

        They are the same for the same seed, whatever other domains there are.
        """
        sequence = np.random.SeedSequence(seed, spawn_key=(1, index))
        generator = np.random.Generator(np.random.SFC64(sequence))
        for start in range(0, rows, ROWS_AT_ONCE):
            size = min(ROWS_AT_ONCE, rows - start)
            drawn: list[Floats] = []
            for own, factor in self.scales(domain):
                value = generator.standard_normal(size)
                value *= own
                value *= factor
                drawn.append(value if not drawn else value + drawn[-1])
            yield np.stack([drawn[0], drawn[2], drawn[1]]).T

    def sample_moments(
        self,
        domains: Domains,
        rows: int,
        seed: int = 0,
        workers: int = 2,
        tell: Callable[[float], None] = lambda share: None,
    ) -> DomainMoments:
        """The moments of the blocks of all domains, with ``workers`` threads.

        ``tell`` is called with the share of the domains that has been begun.

        The same to the last bit for any number of workers.
        """
        names = list(domains)

        def reduce(index: int) -> RunningMoments:
            tell((index + 1) / len(names))
            blocks = self.blocks(domains[names[index]], rows, seed, index)
            first = next(blocks)
            # A copy: a view of the first row would keep its whole block in memory.
            result = RunningMoments.of(first, first[0].copy())
            for block in blocks:
                result.add(RunningMoments.of(block, result.pivot))
            return result

        with ThreadPoolExecutor(max_workers=workers) as pool:
            parts = list(pool.map(reduce, range(len(names))))
        accumulator = MomentAccumulator(FEATURES, TARGET)
        accumulator.parts = dict(zip(names, parts, strict=True))
        return DomainMoments.of_accumulator(accumulator, names)


def example_domains(count: int, seed: int = 0) -> dict[str, Domain]:
    """Domains "0", "1", … with σ2 ~ LogNormal(0, √0.5): the training domains of §6.1."""
    law, found = lognorm(0.5**0.5), dict[str, Domain]()
    for index in range(count):
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, index)))
        found[str(index)] = {"X2": float(law.rvs(random_state=generator))}
    return found


def changing_sigmas(**sigmas: Sequence[float]) -> dict[str, Domain]:
    """Domains in which some noises change: one standard deviation for each (appendix G.1.2)."""
    rows = enumerate(zip(*sigmas.values(), strict=True))
    return {str(e): dict(zip(sigmas, map(float, row), strict=True)) for e, row in rows}
