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
_AT_ONCE = 32
"""Sequences that are computed together: more of them do not fit into the cache."""

Matrix = NDArray[np.float64]
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
    return spell_evidences(risks[None])[0]


def spell_evidences(risks: Matrix) -> list[SpellEvidence]:
    """:func:`spell_evidence` of each of several sequences of the same length (n, m)."""
    from scipy.special import ndtri

    apart = max(1, risks.shape[1] // (2 * REFERENCE))
    thinned = risks[:, ::apart]
    domains = thinned.shape[1]
    kept = (np.array([midranks(each) for each in thinned]) - 0.5) / domains
    lengths = np.array(SHORT + LONG) * max(1.0, domains / REFERENCE)
    found = []
    for first in range(0, len(kept), _AT_ONCE):
        some = kept[first : first + _AT_ONCE]
        regimes = _in_regimes((some * _RANKS).astype(np.int64), lengths, _families())
        similar, alternating = _autoregressive(np.asarray(ndtri(some)), lengths)
        alternating[:, :, len(SHORT) :] = -np.inf
        found += _weighed([*regimes, similar, alternating], lengths, apart)
    return found


def _weighed(logs: list[Vector], lengths: Vector, apart: int) -> list[SpellEvidence]:
    """From the log-likelihoods (n, sequences, lengths) of each kind of sequence."""
    largest = np.max([each.max(axis=(1, 2), keepdims=True) for each in logs], axis=0)
    likely = np.mean([np.exp(each - largest).mean(axis=1) for each in logs], axis=0)
    short, long = likely[:, : len(SHORT)].mean(axis=1), likely[:, len(SHORT) :].mean(axis=1)
    mean_lengths = (likely * lengths).sum(axis=1) / likely.sum(axis=1) * apart
    odds = short / np.maximum(long, np.finfo(np.float64).tiny)
    return [SpellEvidence(*each) for each in zip(mean_lengths.tolist(), odds.tolist(), strict=True)]


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
    """Log-likelihoods (n, mixtures, lengths) of ranks (n, m) under each family of regimes, whose
    mixtures have the same number of them."""
    found = []
    for _, alike in itertools.groupby(families, key=lambda family: len(family[0][0])):
        some = tuple(alike)
        logs = _forward(ranks, lengths, tuple(itertools.chain(*some)))
        found += np.split(logs, np.cumsum([len(family) for family in some])[:-1], axis=1)
    return found


def _forward(
    ranks: NDArray[np.int64], lengths: Vector, mixtures: tuple[Mixture, ...]
) -> NDArray[np.float64]:
    """Log-likelihoods (n, mixtures, lengths) of ranks (n, m): the forward algorithm.

    A regime that ends is followed by any other of its mixture, with equal chance.
    """
    shares, densities = _densities(mixtures, lengths.size)
    others = len(shares) - 1.0
    # Shorter spells than independent domains have would be alternating ones.
    change = np.tile(1.0 / np.maximum(lengths, (others + 1.0) / others) / others, len(mixtures))
    keep = 1.0 - (others + 1.0) * change
    number, steps = ranks.shape
    chance = np.repeat(shares.repeat(lengths.size, axis=1)[None], number, axis=0)
    total, logs = np.empty((number, 1, keep.size)), np.zeros((number, 1, keep.size))
    at_rank = np.empty_like(chance)
    for place, rank in enumerate(ranks.T, start=1):
        chance *= densities.take(rank, axis=0, out=at_rank, mode="clip")
        np.add.reduce(chance, axis=1, keepdims=True, out=total)
        if place % _UNSCALED == 0 or place == steps:
            logs += np.log(total)
            chance /= total
            total[:] = 1.0
        chance *= keep
        total *= change
        chance += total
    return logs.reshape(number, -1, lengths.size)


@lru_cache
def _densities(mixtures: tuple[Mixture, ...], copies: int) -> tuple[Vector, Vector]:
    """Shares (regimes, mixtures) of mixtures of as many regimes, and the density of each over that
    of its mixture at each rank (ranks, regimes, mixtures · copies)."""
    from scipy.special import ndtr

    at = (np.arange(_RANKS) + 0.5) / _RANKS
    weights = np.array([shares for _, shares in mixtures]).T
    densities = np.empty((_RANKS, *weights.shape))
    for column, (means, shares) in enumerate(mixtures):
        centres, grid = np.array(means), np.linspace(min(means) - 6.0, max(means) + 6.0, 4001)
        risks = np.interp(at, ndtr(grid[:, None] - centres) @ np.array(shares), grid)
        normal = np.exp(-0.5 * (risks[:, None] - centres) ** 2)
        densities[:, :, column] = normal / (normal @ np.array(shares))[:, None]
    return weights, densities.repeat(copies, axis=2)


def _autoregressive(scores: Matrix, lengths: Vector) -> Vector:
    """Log-likelihoods of scores (n, m) under noisy AR(1) sequences (2, n, shares of signal,
    lengths): Kalman's filter.

    The first have similar neighbours, the second alternate.
    """
    decay = np.tile(np.maximum(0.0, 1.0 - LENGTH_PER_MEMORY / lengths), len(_SIGNAL))
    decay, signal = np.append(decay, -decay), np.tile(np.repeat(_SIGNAL, lengths.size), 2)
    number, steps = scores.shape
    gains, spreads = _kalman(tuple(decay.tolist()), tuple(signal.tolist()), steps)
    missed, mean = np.empty((steps, number, decay.size)), np.zeros((number, decay.size))
    for place, score in enumerate(scores.T[:, :, None]):
        np.subtract(score, mean, out=missed[place])
        mean *= decay
        mean += gains[place] * missed[place]
    surprise = missed**2 / spreads[:, None] + np.log(spreads)[:, None]
    squares = np.array([float(each @ each) for each in scores])
    logs = 0.5 * (squares[:, None] - surprise.sum(axis=0))
    return np.moveaxis(logs.reshape(number, 2, len(_SIGNAL), lengths.size), 1, 0)


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
