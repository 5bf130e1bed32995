"""What 200 domains can tell about the length of spells: three statistics, and the best test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eqrm.evaluation.inference.in_time.spells import spell_evidences
from studies.domains_in_time.worlds import REGIMES, Vector, ar_world, regime_world

REFUSED = (0.8, 0.9, 0.95)
LONG = 10.0
"""The mean stay of the regimes that are to be refused."""


@dataclass(frozen=True)
class Told:
    """The share of worlds of short spells that is served where ``refused`` of those with stays of
    10 are refused, by statistic. ``best`` is that of the most powerful test, which knows both
    worlds: no statistic can have more."""

    world: str
    refused: float
    served: dict[str, float]
    best: float


def spells_told_apart(domains: int, worlds: int, seed: int) -> list[Told]:
    """AR(1) and regimes with stays of 5 against regimes with stays of 10."""
    generator = np.random.default_rng([seed, domains, 10])
    long = [regime_world(means, LONG).draw(generator, worlds, domains) for means in REGIMES]
    of_long = {name: [of(each) for each in long] for name, of in STATISTICS.items()}
    found = []
    for correlation in (0.3, 0.5, 0.7):
        world = ar_world(correlation)
        risks = world.draw(generator, worlds, domains)
        best = [
            _best_ar(risks, correlation, each, m) for each, m in zip(long, REGIMES, strict=True)
        ]
        found += _told(world.name, risks, of_long, [min(each) for each in zip(*best, strict=True)])
    for means, each in zip(REGIMES, long, strict=True):
        world = regime_world(means, 5)
        risks = world.draw(generator, worlds, domains)
        against = [_in_regimes(r, means, LONG) - _in_regimes(r, means, 5.0) for r in (risks, each)]
        found += _told(world.name, risks, of_long, _served(against[0], [against[1]]))
    return found


def _told(
    name: str, risks: Vector, of_long: dict[str, list[Vector]], best: Sequence[float]
) -> list[Told]:
    served = {each: _served(of(risks), of_long[each]) for each, of in STATISTICS.items()}
    return [
        Told(name, refused, {each: shares[i] for each, shares in served.items()}, best[i])
        for i, refused in enumerate(REFUSED)
    ]


def _served(short: Vector, long: Sequence[Vector]) -> list[float]:
    """Shares of ``short`` below the value that enough of every one of ``long`` exceeds."""
    limits = [min(float(np.quantile(each, 1.0 - refused)) for each in long) for refused in REFUSED]
    return [float((short < limit).mean()) for limit in limits]


def _best_ar(
    risks: Vector, correlation: float, long: Vector, means: tuple[float, ...]
) -> list[float]:
    """The likelihood ratio of AR(1) and regimes, both with the mean and variance of the regimes."""
    centre, spread = float(np.mean(means)), float(np.sqrt(np.var(means) + 1.0))

    def ratio(values: Vector) -> Vector:
        scaled = (values - centre) / spread
        steps = scaled[:, 1:] - correlation * scaled[:, :-1]
        noise = 1.0 - correlation**2
        squares = scaled[:, 0] ** 2 + (steps**2).sum(axis=1) / noise
        logs = squares + steps.shape[1] * np.log(noise) + 2.0 * values.shape[1] * np.log(spread)
        return np.asarray(_in_regimes(values, means, LONG) + 0.5 * logs)

    return _served(ratio(risks * spread + centre), [ratio(long)])


def _in_regimes(risks: Vector, means: tuple[float, ...], stay: float) -> Vector:
    """Log-likelihoods (worlds,) of regimes with these means, less the normal constant."""
    centres, others = np.array(means), len(means) - 1
    chance, logs = np.full((len(risks), others + 1), 1.0 / (others + 1)), np.zeros(len(risks))
    for now in risks.T:
        # The nearest regime first, so that risks far from all of them do not vanish.
        squares = (now[:, None] - centres) ** 2
        nearest = squares.min(axis=1)
        joint = chance * np.exp(-0.5 * (squares - nearest[:, None]))
        total = joint.sum(axis=1)
        logs += np.log(total) - 0.5 * nearest
        joint /= total[:, None]
        chance = (1.0 - 1.0 / stay) * joint + (1.0 - joint) / (stay * others)
    return logs


def _correlations(risks: Vector) -> Vector:
    """The sum of the serial correlations of ranks up to 15 domains apart."""
    ranks = risks.argsort(axis=1).argsort(axis=1) - 0.5 * (risks.shape[1] - 1.0)
    sums = [(ranks[:, :-lag] * ranks[:, lag:]).sum(axis=1) for lag in range(1, 16)]
    return np.asarray(np.sum(sums, axis=0) / (ranks[0] ** 2).sum())


def _runs(risks: Vector) -> Vector:
    """The mean length of runs above the 0.75-quantile of each world's risks."""
    above = risks > np.quantile(risks, 0.75, axis=1, keepdims=True)
    starts = above[:, 0] + (above[:, 1:] & ~above[:, :-1]).sum(axis=1)
    return np.asarray(above.sum(axis=1) / starts)


def _odds(risks: Vector) -> Vector:
    return -np.log([each.odds for each in spell_evidences(risks)])


STATISTICS: dict[str, Callable[[Vector], Vector]] = {
    "correlations": _correlations,
    "runs above the 0.75-quantile": _runs,
    "likelihood of ranks (used)": _odds,
}
