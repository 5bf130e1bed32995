"""A bound for domains that come in spells, approximate: how many independent ones they count as.

Of m domains that depend on their neighbours, the number with a risk below the α-quantile has the
mean of a binomial law and a variance L times as large: L = 1 + 2·Σ ρ_l, ρ_l the correlation of
"risk above the quantile" l domains apart. So they count as m/L independent domains.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr, ndtri

from eqrm.checks import CONFIDENCE
from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.inference.certificates import ROUNDING, Certificate, domains_needed
from eqrm.evaluation.inference.risk_checks import (
    LevelLike,
    Vector,
    checked_alpha,
    checked_risks,
    midranks,
)

FEWEST = 60
"""Fewer domains say too little about how long spells last."""
ODDS = 19.0
"""How many times as likely short spells must be as long ones: 95%, if both were before."""
MOST = 1e6


@dataclass(frozen=True, kw_only=True)
class SpellCertificate(Certificate):
    """A :class:`Certificate` for domains that come in spells; its confidence is approximate.

    ``block_length`` is the estimated L: the domains count as ``domains / block_length`` independent
    ones. ``length`` is how many domains spells last, and ``odds`` how many times as likely spells
    of at most m/40 of the m domains are as spells of m/20 and more; both are estimated too.
    """

    derived = (*Certificate.derived, "approximate")

    block_length: float
    length: float
    odds: float

    @property
    def estimated(self) -> str:
        return "the length of spells is estimated"

    @property
    def assumption(self) -> str:
        return (
            f"new domains and these {self.domains} belong to a stationary sequence whose spells "
            f"are short (estimated block length {self.block_length:.1f}: they count as "
            f"{math.floor(self.domains / self.block_length)} independent domains)"
        )


def spell_bound(risks: Any, alpha: LevelLike = 0.9, confidence: float = 0.95) -> SpellCertificate:
    """An approximate upper confidence bound on the α-quantile of risk, for domains in spells.

    ``risks`` (m,) are in the order of time. The bound is the smallest order statistic R_(r) with
    P(Binomial(m/L, α) ≥ r/L) ≤ 1 − confidence (as an incomplete beta function), L the
    :func:`block_length`. Refused are fewer than 60 domains, fewer blocks than a bound for
    independent domains needs, and risks whose order does not rule out long spells: those of at
    most m/40 domains must be 19 times as likely as those of m/20 and more (5 and 10 for up to 200).

    >>> noise = np.random.default_rng(0).normal(size=201)
    >>> bound = spell_bound(noise[1:] + noise[:-1])
    >>> 1 < bound.block_length < 3, bound.approximate
    (True, True)
    """
    values = checked_risks(risks)
    return bound_by_evidence(values, alpha, confidence, spell_evidences(values[None])[0])


def bound_by_evidence(
    values: Vector, alpha: LevelLike, confidence: float, evidence: SpellEvidence
) -> SpellCertificate:
    """:func:`spell_bound` where the evidence of the risks is known already."""
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    least = max(FEWEST, domains_needed(level, asked))
    if values.size < least:
        raise _too_few(values.size, least, f"{values.size} domains are too few")
    if np.ptp(values) == 0.0:
        evidence = SpellEvidence(1.0, MOST)
    if evidence.odds < ODDS:
        least = math.ceil(REFERENCE / max(SHORT) * evidence.length)
        what = (
            f"spells of {min(LONG) * max(1.0, values.size / REFERENCE):.0f} domains and longer "
            f"cannot be ruled out (they seem to last about {evidence.length:.1f})"
        )
        raise _too_few(values.size, max(least, values.size + 1), what)
    block = block_length(values, level)
    ranks = np.arange(1, values.size + 1) / block
    misses = betainc(ranks, values.size / block - ranks + 1.0, level)
    enough = misses <= (1.0 - asked) * (1.0 + ROUNDING)
    if not enough.any():
        least = math.ceil(domains_needed(level, asked) * block)
        what = f"{values.size} domains in blocks of about {block:.1f} are too few"
        raise _too_few(values.size, max(least, values.size + 1), what)
    rank = int(enough.argmax()) + 1
    return SpellCertificate(
        bound=float(np.partition(values, rank - 1)[rank - 1]),
        confidence=asked,
        achieved=asked,
        domains=values.size,
        method="blocks of estimated length",
        rank=rank,
        alpha=level,
        block_length=block,
        length=evidence.length,
        odds=min(evidence.odds, MOST),
    )


def block_length(values: Vector, level: float) -> float:
    """The estimated L of risks in the order of time, at least 1.

    The larger of two: from the correlations of "above the α-quantile" itself, and from those of the
    normal scores of the risks, carried over to such indicators as in a Gaussian sequence. Both sums
    end where pairs of correlations are no longer positive (Geyer 1992).
    """
    if np.ptp(values) == 0.0:
        return 1.0
    scores = ndtri((midranks(values) - 0.5) / values.size)
    lags = max(4, values.size // 4)
    linear = _correlations(scores, lags)
    carried = np.concatenate([[1.0], exceedance_correlation(linear[1:], level)])
    above = (scores > ndtri(level)).astype(np.float64)
    direct = _correlations(above, lags) if 0.0 < above.mean() < 1.0 else np.zeros(lags + 1)
    return max(_summed(carried), _summed(direct))


def exceedance_correlation(correlations: Vector, alpha: float) -> Vector:
    """Correlation of "above the α-quantile" for two normal numbers with a given correlation.

    Plackett's identity: ∫_0^ρ φ₂(z, z; t) dt / α(1−α), by Gauss and Legendre's rule.
    """
    z = float(ndtri(alpha))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    angles = np.arcsin(np.clip(correlations, -0.999, 0.999))
    # With t = sin a the integrand is smooth: φ₂ dt = exp(−z²/(1 + sin a))/2π da.
    at = np.sin(angles[:, None] * (nodes + 1.0) / 2.0)
    sums = (np.exp(-z * z / (1.0 + at)) * weights).sum(axis=1) * angles / 2.0
    return np.asarray(sums / (2.0 * math.pi * alpha * (1.0 - alpha)))


def _correlations(values: Vector, lags: int) -> Vector:
    """Serial correlations at the lags 0 … lags."""
    centred = values - values.mean()
    spectrum = np.fft.rfft(centred, 2 * values.size)
    products = np.fft.irfft(np.abs(spectrum) ** 2, 2 * values.size)[: lags + 1]
    return np.asarray(products / products[0])


def _summed(correlations: Vector) -> float:
    """1 + 2·Σ ρ_l over the initial positive pairs (Geyer 1992), at least 1."""
    even = correlations[: correlations.size // 2 * 2]
    pairs = even[0::2] + even[1::2]
    positive = np.cumprod(pairs > 0.0)
    return max(1.0, float(2.0 * (pairs * positive).sum() - 1.0))


def _too_few(domains: int, needed: int, what: str) -> TooFewDomainsError:
    return TooFewDomainsError(
        f"No bound for domains in spells: {what}, and at least {needed} domains are needed for "
        f"that, got {domains}. Use more domains in the order of time, or dependence=k where k is "
        "known.",
        domains=domains,
        needed=needed,
    )


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


def spell_evidences(risks: Matrix) -> list[SpellEvidence]:
    """What the order of risks says about the length of spells, for each sequence of them (n, m).

    Sequences in regimes jump between levels and stay there for a geometric number of domains; noisy
    AR(1) sequences move gradually. Both give a likelihood to the ranks of the risks alone (the
    density of their copula), so that the law of the risk does not matter. Correlations see less.

    Short and long spells each have the mean likelihood of kinds of sequences with the same weight:
    two regimes that overlap, nearly touch or are apart, four regimes, and noisy AR(1). Sequences in
    which neighbours alternate have short spells only.
    Of 800 domains and more, every (m // 400)-th is used.
    """
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
