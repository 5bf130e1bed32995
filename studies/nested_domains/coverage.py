"""How often bounds for members of groups hold, and how tight they are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation import quantile_bound
from eqrm.evaluation.inference.nested.bounds import nested_bound
from eqrm.evaluation.inference.nested.members import NestedRisks
from studies.domains_in_time.worlds import Vector
from studies.nested_domains.settings import (
    COMPARED,
    CONFIDENCE,
    FEWEST_POOLED,
    ONCE,
    POOLED,
    REPEATED,
    NestedCase,
)
from studies.nested_domains.worlds import NestedWorld, uniform_law


@dataclass(frozen=True)
class NestedCovered:
    """The share of worlds in which each bound held; ``plain`` takes members for independent.

    ``pooled`` is the share of those worlds in which the pooled form was given, ``refused`` the
    share of the others. Both are None where there are too few groups for it.
    """

    law: str
    sizes: str
    correlation: float
    groups: int
    alpha: float
    once: float
    repeated: float
    pooled: float | None
    refused: float | None
    plain: float


def nested_coverage(case: NestedCase, worlds: int, seed: int) -> list[NestedCovered]:
    """Every bound at every level in simulated worlds; each draws one member per group anew."""
    world, pooled = case.world, case.groups >= FEWEST_POOLED
    tried = (ONCE, REPEATED, POOLED) if pooled else (ONCE, REPEATED)
    generator = np.random.default_rng(
        [seed, case.groups, round(100 * world.correlation), *_key(world)]
    )
    held: dict[tuple[str, float], list[bool]] = {
        (name, alpha): [] for name in (ONCE, REPEATED, POOLED, "plain") for alpha in case.alphas
    }
    truths = {alpha: world.quantile(alpha) for alpha in case.alphas}
    for number in range(worlds):
        risks, ids, _ = world.draw(generator, case.groups)
        nested = NestedRisks.of(risks, ids)
        for alpha, truth in truths.items():
            plain = quantile_bound(risks, alpha, CONFIDENCE).bound
            held["plain", alpha].append(plain >= truth)
            for sampling in tried:
                with suppress(TooFewDomainsError):
                    found = nested_bound(nested, alpha, CONFIDENCE, sampling=sampling, seed=number)
                    held[sampling, alpha].append(found.bound >= truth)
    return [_counted(case, alpha, held, worlds) for alpha in case.alphas]


def _counted(
    case: NestedCase, alpha: float, held: dict[tuple[str, float], list[bool]], worlds: int
) -> NestedCovered:
    given = held[POOLED, alpha]
    return NestedCovered(
        law=case.world.law.name,
        sizes=case.world.sizes,
        correlation=case.world.correlation,
        groups=case.groups,
        alpha=alpha,
        once=sum(held[ONCE, alpha]) / worlds,
        repeated=sum(held[REPEATED, alpha]) / worlds,
        pooled=sum(given) / len(given) if given else None,
        refused=1.0 - len(given) / worlds if case.groups >= FEWEST_POOLED else None,
        plain=sum(held["plain", alpha]) / worlds,
    )


def _key(world: NestedWorld) -> bytes:
    return f"{type(world).__name__} {world.law.name} {world.sizes}".encode()


@dataclass(frozen=True)
class KnownCovered:
    """How often the bound for a new member of a known group held."""

    members: int
    correlation: float
    held: float


def known_coverage(members: int, correlation: float, worlds: int, seed: int) -> KnownCovered:
    """The bound of the members of one group against the quantile within it."""
    world = NestedWorld(uniform_law(), correlation)
    generator = np.random.default_rng([seed, 2, members, round(100 * correlation)])
    held = 0
    for _ in range(worlds):
        effect = generator.normal()
        risks = world.risks(effect, generator.normal(size=members))
        found = quantile_bound(risks, COMPARED, CONFIDENCE)
        held += found.bound >= world.quantile_within(effect, COMPARED)
    return KnownCovered(members, correlation, held / worlds)


def asked_for(groups: int, sampling: str) -> float | None:
    """How many groups are asked for where there are ``groups`` of ten members; None if enough."""
    ids = np.repeat(np.arange(groups), 10)
    try:
        nested = NestedRisks.of(np.linspace(0, 1, ids.size), ids)
        nested_bound(nested, COMPARED, CONFIDENCE, sampling=sampling)
        return None
    except TooFewDomainsError as refusal:
        return refusal.needed


@dataclass(frozen=True)
class Tightness:
    """The level that bounds of the 0.9-quantile reach in the middle half of worlds, by method."""

    groups: int
    correlation: float
    once: tuple[float, float]
    repeated: tuple[float, float]
    twice: tuple[float, float]
    pooled: tuple[float, float]


def tightness(groups: int, correlation: float, worlds: int, seed: int) -> Tightness:
    """Risks are uniform, so that a bound is the level that it reaches."""
    world = NestedWorld(uniform_law(), correlation)
    generator = np.random.default_rng([seed, 3, groups, round(100 * correlation)])
    found: dict[str, list[float]] = {name: [] for name in (ONCE, REPEATED, "twice", POOLED)}
    for number in range(worlds):
        risks, ids, _ = world.draw(generator, groups)
        nested = NestedRisks.of(risks, ids)
        for sampling in (ONCE, REPEATED, POOLED):
            bound = nested_bound(nested, COMPARED, CONFIDENCE, sampling=sampling, seed=number)
            found[sampling].append(bound.bound)
        found["twice"].append(twice_the_mean(risks, ids, COMPARED))
    ends = {k: tuple(np.quantile(v, [0.25, 0.75]).tolist()) for k, v in found.items()}
    return Tightness(groups, correlation, ends[ONCE], ends[REPEATED], ends["twice"], ends[POOLED])


def twice_the_mean(risks: Vector, ids: NDArray[np.int64], alpha: float) -> float:
    """The bound by twice the mean p-value of all draws of one member per group, for comparison.

    The number of drawn members below a risk has a Poisson binomial law over draws.
    """
    from scipy.stats import binom

    sizes = np.bincount(ids)
    tails = binom.sf(np.arange(sizes.size + 1) - 1, sizes.size, alpha)
    order = np.argsort(risks)
    low, high = 0, risks.size - 1
    while low < high:  # the smallest risk that is enough, as the largest is
        middle = (low + high) // 2
        shares = np.bincount(ids[risks <= risks[order[middle]]], minlength=sizes.size) / sizes
        enough = 2.0 * float(_poisson_binomial(shares) @ tails) <= 1.0 - CONFIDENCE
        low, high = (low, middle) if enough else (middle + 1, high)
    return float(risks[order[low]])


def _poisson_binomial(shares: Vector) -> Vector:
    """The probabilities of 0 … m successes with different chances."""
    law = np.ones(1)
    for share in shares:
        law = np.convolve(law, [1.0 - share, share])
    return law


@dataclass(frozen=True)
class NestedWorlds:
    """What the simulations found."""

    needed: dict[str, int]
    asked: dict[str, float | None]
    covered: list[NestedCovered]
    known: list[KnownCovered]
    tightness: list[Tightness]
