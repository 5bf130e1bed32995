"""How long spells last: ranks of risks under sequences with short and with long spells.

A sequence in regimes jumps between levels and stays there for a geometric number of domains; a
noisy AR(1) sequence moves gradually. Both give a likelihood to the ranks of the risks alone (the
density of their copula), so that the law of the risk does not matter. Correlations see less: AR(1)
with .7 and regimes with stays of 10 domains differ by one standard error in those of 200 domains,
and clearly in their jumps.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eqrm.evaluation.inference.risk_checks import Vector

SHORT, LONG = (2.0, 3.0, 5.0), (10.0, 20.0, 40.0)
"""Lengths of spells in 200 domains: a bound is for the short ones."""
REFERENCE = 200
LENGTH_PER_MEMORY = 1.5
"""The length of spells of an AR(1) sequence is 1.5/(1−r): 5 for a correlation of .7."""
_SIGNAL = (1.0, 0.6, 0.3)
"""Shares of the variance that the AR(1) part of a noisy sequence has."""
_RANKS = 200
_UNSCALED = 16

Mixture = tuple[tuple[float, ...], tuple[float, ...]]
"""Means of normal risks with standard deviation 1, and the shares of the domains around each."""


@dataclass(frozen=True)
class SpellEvidence:
    """``length``: of spells, in domains, likelihoods as weights. ``odds``: how many times as likely
    the ranks are under short spells (at most m/40 of m domains) as under long ones (m/20 and more).
    """

    length: float
    odds: float


def spell_evidence(risks: Vector) -> SpellEvidence:
    """What the order of risks (m,) says about the length of spells.

    Short and long spells each have the mean likelihood of kinds of sequences with the same weight:
    two regimes that overlap, nearly touch or are apart, four regimes, and noisy AR(1). Sequences in
    which neighbours alternate have short spells only.
    Of 800 domains and more, every (m // 400)-th is used.

    >>> quiet = np.random.default_rng(0).normal(size=200)
    >>> spell_evidence(quiet).odds > 100
    True
    >>> spell_evidence(quiet + 5 * (np.arange(200) // 12 % 2)).odds < 0.01
    True
    """
    from scipy.special import ndtri

    apart = max(1, risks.size // (2 * REFERENCE))
    kept = (midranks(risks[::apart]) - 0.5) / len(risks[::apart])
    lengths = np.array(SHORT + LONG) * max(1.0, kept.size / REFERENCE)
    ranks = (kept * _RANKS).astype(np.int64)
    scores = np.asarray(ndtri(kept))
    similar, alternating = _autoregressive(scores, lengths)
    alternating[:, len(SHORT) :] = -np.inf
    logs = [*_in_regimes(ranks, lengths, _families()), similar, alternating]
    largest = max(float(each.max()) for each in logs)
    likely = np.mean([np.exp(each - largest).mean(axis=0) for each in logs], axis=0)
    short, long = likely[: len(SHORT)].mean(), likely[len(SHORT) :].mean()
    length = float(likely @ lengths / likely.sum()) * apart
    return SpellEvidence(length, float(short / max(long, np.finfo(np.float64).tiny)))


def midranks(values: Vector) -> Vector:
    """Ranks from 1; equal values have the mean of their ranks.

    >>> midranks(np.array([3.0, 1.0, 1.0]))
    array([3. , 1.5, 1.5])
    """
    order = np.argsort(values)
    ordered, ranks = values[order], np.empty(values.size)
    if (ordered[1:] > ordered[:-1]).all():
        ranks[order] = np.arange(1.0, values.size + 1.0)
        return ranks
    left, right = (np.searchsorted(ordered, ordered, side) for side in ("left", "right"))
    ranks[order] = 0.5 * (left + right + 1)
    return ranks


@lru_cache
def _families() -> tuple[tuple[Mixture, ...], ...]:
    """Kinds of regimes. Shares vary, because those of 200 domains differ from the expected ones."""
    shares = {1.5: (0.35, 0.5, 0.65), 2.5: (0.2, 0.35, 0.5, 0.65, 0.8)}
    shares[5.0] = tuple((np.arange(4, 37) / 40.0).tolist())
    two = [tuple(((0.0, d), (1.0 - p, p)) for p in each) for d, each in shares.items()]
    equal = (0.25, 0.25, 0.25, 0.25)
    four = [((0.0, 3.0, 6.0, 9.0), each) for each in itertools.permutations((0.4, 0.3, 0.2, 0.1))]
    four += [((0.0, 3.0, 6.0, 9.0), equal), ((0.0, 1.5, 3.0, 4.5), equal)]
    return (*two, tuple(four))


def _in_regimes(
    ranks: NDArray[np.int64], lengths: Vector, families: tuple[tuple[Mixture, ...], ...]
) -> list[Vector]:
    """Log-likelihoods (mixtures, lengths) of each family of regimes: the forward algorithm.

    A regime that ends is followed by any other of its mixture, with equal chance.
    """
    mixtures = tuple(itertools.chain(*families))
    shares, densities = _densities(mixtures, lengths.size)
    others = (shares > 0.0).sum(axis=0, keepdims=True).T - 1.0
    # Shorter spells than independent domains have would be alternating ones.
    change = 1.0 / np.maximum(lengths, (others + 1.0) / others) / others
    keep = (1.0 - (others + 1.0) * change).ravel()
    change = change.ravel() * (shares > 0.0).repeat(lengths.size, axis=1)
    chance = shares.repeat(lengths.size, axis=1)
    logs = np.zeros(keep.size)
    for place, rank in enumerate(ranks.tolist(), start=1):
        chance *= densities[rank]
        total = np.add.reduce(chance)
        if place % _UNSCALED == 0 or place == ranks.size:
            logs += np.log(total)
            chance /= total
            total[:] = 1.0
        chance *= keep
        chance += change * total
    sizes = np.cumsum([len(family) for family in families])
    return np.split(logs.reshape(-1, lengths.size), sizes[:-1])


@lru_cache
def _densities(mixtures: tuple[Mixture, ...], copies: int) -> tuple[Vector, Vector]:
    """Shares (regimes, mixtures), and the density of each regime over that of its mixture at each
    rank (ranks, regimes, mixtures · copies); 0 for regimes that a mixture does not have."""
    from scipy.special import ndtr

    at, most = (np.arange(_RANKS) + 0.5) / _RANKS, max(len(means) for means, _ in mixtures)
    weights = np.zeros((most, len(mixtures)))
    densities = np.zeros((_RANKS, most, len(mixtures)))
    for column, (means, shares) in enumerate(mixtures):
        centres, grid = np.array(means), np.linspace(min(means) - 6.0, max(means) + 6.0, 4001)
        risks = np.interp(at, ndtr(grid[:, None] - centres) @ np.array(shares), grid)
        normal = np.exp(-0.5 * (risks[:, None] - centres) ** 2)
        weights[: len(means), column] = shares
        densities[:, : len(means), column] = normal / (normal @ np.array(shares))[:, None]
    return weights, densities.repeat(copies, axis=2)


def _autoregressive(scores: Vector, lengths: Vector) -> Vector:
    """Log-likelihoods of noisy AR(1) sequences (2, shares of signal, lengths): Kalman's filter.

    The first have similar neighbours, the second alternate.
    """
    decay = np.tile(np.maximum(0.0, 1.0 - LENGTH_PER_MEMORY / lengths), len(_SIGNAL))
    decay, signal = np.append(decay, -decay), np.tile(np.repeat(_SIGNAL, lengths.size), 2)
    gains, spreads = _kalman(tuple(decay.tolist()), tuple(signal.tolist()), scores.size)
    expected, mean = np.empty_like(gains), np.zeros(decay.size)
    for place, score in enumerate(scores.tolist()):
        expected[place] = mean
        mean = decay * mean + gains[place] * (score - mean)
    surprise = (scores[:, None] - expected) ** 2 / spreads + np.log(spreads)
    logs = 0.5 * (float(scores @ scores) - surprise.sum(axis=0))
    return np.asarray(logs.reshape(2, len(_SIGNAL), lengths.size))


@lru_cache(maxsize=8)
def _kalman(
    decay: tuple[float, ...], signal: tuple[float, ...], steps: int
) -> tuple[Vector, Vector]:
    """Gains (times decay) and predicted variances (steps, sequences): they depend on no risk."""
    slower, of_signal = np.array(decay), np.array(signal)
    gains, spreads = np.empty((2, steps, slower.size))
    variance = of_signal.copy()
    for place in range(steps):
        spreads[place] = variance + 1.0 - of_signal
        gains[place] = slower * variance / spreads[place]
        left = variance * (1.0 - variance / spreads[place])
        variance = slower**2 * left + (1.0 - slower**2) * of_signal
    return gains, spreads
