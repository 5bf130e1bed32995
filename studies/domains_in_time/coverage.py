"""How often bounds on the quantile hold: for k-dependent domains, and for domains in spells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation import quantile_bound, recent_bound
from eqrm.evaluation.inference.in_time.spells import bound_by_evidence, spell_evidences
from studies.domains_in_time.settings import ALPHA, CONFIDENCE, NEEDED
from studies.domains_in_time.worlds import (
    InTime,
    Law,
    moving_average,
    moving_maximum,
)

SEQUENCES = {"moving average": moving_average, "moving maximum": moving_maximum}


@dataclass(frozen=True)
class Covered:
    """How often a bound for k-dependent domains held, and the plain one in the same worlds."""

    sequence: str
    law: str
    dependence: int
    domains: int
    held: float
    plain: float


def dependent_coverage(
    sequence: str, law: Law, dependence: int, domains: int, worlds: int, seed: int
) -> Covered:
    """Both bounds in simulated worlds of k-dependent domains."""
    kind = list(SEQUENCES).index(sequence)
    generator = np.random.default_rng([seed, kind, dependence, domains, len(law.name)])
    uniform = SEQUENCES[sequence](generator, worlds, domains, dependence)
    risks, truth = np.asarray(law.quantile(uniform)), float(law.quantile(ALPHA))
    bounds = [
        (
            quantile_bound(each, ALPHA, CONFIDENCE, dependence).bound,
            quantile_bound(each, ALPHA, CONFIDENCE).bound,
        )
        for each in risks
    ]
    held, plain = (np.array(bounds) >= truth).mean(axis=0).tolist()
    return Covered(sequence, law.name, dependence, domains, held, plain)


def refused_below(dependence: int) -> bool:
    """Whether one domain fewer than needed is refused, naming the number needed."""
    needed = NEEDED[dependence]
    generator = np.random.default_rng([7, dependence])
    try:
        quantile_bound(generator.random(needed - 1), ALPHA, CONFIDENCE, dependence)
    except TooFewDomainsError as error:
        return error.needed == needed
    return False


@dataclass(frozen=True)
class SpellCovered:
    """``held``: how often the bound held where one was given; ``wrong``: given and too low."""

    world: str
    expected: str
    domains: int
    held: float | None
    refused: float
    wrong: float
    plain: float
    block_length: float | None


def spell_coverage(world: InTime, domains: int, worlds: int, seed: int) -> SpellCovered:
    """The bound for spells and the plain one in simulated worlds."""
    generator = np.random.default_rng([seed, domains, *world.name.encode()])
    risks, truth = world.draw(generator, worlds, domains), world.quantile(ALPHA)
    given, lengths, plain = [], [], []
    for each, evidence in zip(risks, spell_evidences(risks), strict=True):
        plain.append(quantile_bound(each, ALPHA, CONFIDENCE).bound >= truth)
        try:
            found = bound_by_evidence(each, ALPHA, CONFIDENCE, evidence)
        except TooFewDomainsError:
            continue
        given.append(found.bound >= truth)
        lengths.append(found.block_length)
    wrong = len(given) - sum(given)
    return SpellCovered(
        world=world.name,
        expected=world.expected,
        domains=domains,
        held=float(np.mean(given)) if given else None,
        refused=1.0 - len(given) / worlds,
        wrong=wrong / worlds,
        plain=float(np.mean(plain)),
        block_length=float(np.mean(lengths)) if lengths else None,
    )


@dataclass(frozen=True)
class RecentCovered:
    """How often the next risk was within a weighted bound, and the least that was computed."""

    drift: float
    half_life: float
    held: float
    promised: float


def recent_coverage(drift: float, half_life: float, worlds: int, seed: int) -> RecentCovered:
    """Independent normal risks whose mean rises by as much as ``drift`` in total variation allows.

    The distance of N(0, 1) and N(d, 1) is 2Φ(d/2) − 1.
    """
    from scipy.special import ndtri

    domains, rise = 200, 2.0 * float(ndtri(0.5 + 0.5 * drift))
    generator = np.random.default_rng([seed, round(1e5 * drift), round(half_life)])
    risks = generator.normal(size=(worlds, domains + 1)) + rise * np.arange(domains + 1)
    bounds = [recent_bound(each[:-1], ALPHA, half_life) for each in risks]
    held = float(np.mean([bound.bound for bound in bounds] >= risks[:, -1]))
    return RecentCovered(drift, half_life, held, bounds[0].probability(drift))
