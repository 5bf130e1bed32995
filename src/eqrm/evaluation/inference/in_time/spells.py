"""A bound for domains that come in spells, approximate: how many independent ones they count as.

Of m domains that depend on their neighbours, the number with a risk below the α-quantile has the
mean of a binomial law and a variance L times as large: L = 1 + 2·Σ ρ_l, ρ_l the correlation of
"risk above the quantile" l domains apart. So they count as m/L independent domains, L the length
of a block. L is estimated, which is why the bound is called approximate, and only where many spells
were seen: where long ones cannot be ruled out, there is no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from eqrm.checks import CONFIDENCE
from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.inference.binomial_ranks import ROUNDING, domains_needed
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.in_time.spell_models import (
    LONG,
    REFERENCE,
    SHORT,
    SpellEvidence,
    midranks,
    spell_evidence,
)
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector, checked_alpha, checked_risks

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
    approximate = True

    @property
    def assumption(self) -> str:
        """What must be true of new domains, as a clause."""
        return (
            f"new domains and these {self.domains} belong to a stationary sequence whose spells "
            f"are short (estimated block length {self.block_length:.1f}: they count as "
            f"{math.floor(self.domains / self.block_length)} independent domains)"
        )

    @property
    def sentence(self) -> str:
        """The statement for a reader who knows no statistics."""
        return f"Approximate, because the length of spells is estimated: {super().sentence}"


@dataclass(frozen=True)
class SpellLength:
    """The block length L, the ``length`` of spells in domains, and the ``odds`` of short spells
    against long ones, at most a million."""

    block_length: float
    length: float
    odds: float


def spell_bound(risks: Any, alpha: LevelLike = 0.9, confidence: float = 0.95) -> SpellCertificate:
    """An approximate upper confidence bound on the α-quantile of risk, for domains in spells.

    ``risks`` (m,) are in the order of time. The bound is the smallest order statistic R_(r) with
    P(Binomial(m/L, α) ≥ r/L) ≤ 1 − confidence (as an incomplete beta function), L the block length
    of :func:`spell_length`; L = 1 gives the bound for independent domains. Refused are fewer than
    60 domains, fewer blocks than a bound for independent domains needs, and risks whose order does
    not rule out long spells: those of at most m/40 domains must be 19 times as likely as those of
    m/20 and more (5 and 10 for up to 200 domains).

    >>> noise = np.random.default_rng(0).normal(size=201)
    >>> bound = spell_bound(noise[1:] + noise[:-1])
    >>> 1 < bound.block_length < 3, bound.approximate
    (True, True)
    """
    values = checked_risks(risks)
    return bound_by_evidence(values, alpha, confidence, spell_evidence(values))


def bound_by_evidence(
    values: Vector, alpha: LevelLike, confidence: float, evidence: SpellEvidence
) -> SpellCertificate:
    """:func:`spell_bound` where the evidence of the risks is known already."""
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    least = max(FEWEST, domains_needed(level, asked))
    if values.size < least:
        raise _too_few(values.size, least, f"{values.size} domains are too few")
    spells = _spell_length(values, level, evidence)
    if spells.odds < ODDS:
        least = math.ceil(REFERENCE / max(SHORT) * spells.length)
        what = (
            f"spells of {min(LONG) * max(1.0, values.size / REFERENCE):.0f} domains and longer "
            f"cannot be ruled out (they seem to last about {spells.length:.1f})"
        )
        raise _too_few(values.size, max(least, values.size + 1), what)
    rank = _rank(values.size, level, 1.0 - asked, spells.block_length)
    if rank is None:
        least = math.ceil(domains_needed(level, asked) * spells.block_length)
        what = f"{values.size} domains in blocks of about {spells.block_length:.1f} are too few"
        raise _too_few(values.size, max(least, values.size + 1), what)
    return SpellCertificate(
        bound=float(np.partition(values, rank - 1)[rank - 1]),
        confidence=asked,
        achieved=asked,
        domains=values.size,
        method="blocks of estimated length",
        rank=rank,
        alpha=level,
        block_length=spells.block_length,
        length=spells.length,
        odds=spells.odds,
    )


def spell_length(risks: Any, alpha: LevelLike = 0.9) -> SpellLength:
    """The estimated block length, at least 1, and the length of spells of risks in order of time.

    The block length is the larger of two: from the correlations of "above the α-quantile" itself,
    and from those of the normal scores of the risks, carried over to such indicators as in a
    Gaussian sequence. Both sums end where pairs of correlations are no longer positive (Geyer
    1992). The length of spells comes from :func:`~.spell_models.spell_evidence`.

    >>> spell_length(np.random.default_rng(0).normal(size=500)).block_length < 1.5
    True
    """
    values, level = checked_risks(risks, at_least=20), checked_alpha(alpha)
    return _spell_length(values, level, spell_evidence(values))


def _spell_length(values: Vector, level: float, evidence: SpellEvidence) -> SpellLength:
    from scipy.special import ndtri

    if np.ptp(values) == 0.0:
        return SpellLength(1.0, 1.0, MOST)
    scores = ndtri((midranks(values) - 0.5) / values.size)
    lags = max(4, values.size // 4)
    linear = _correlations(scores, lags)
    carried = np.concatenate([[1.0], exceedance_correlation(linear[1:], level)])
    above = (scores > ndtri(level)).astype(np.float64)
    direct = _correlations(above, lags) if 0.0 < above.mean() < 1.0 else np.zeros(lags + 1)
    block = max(_summed(carried), _summed(direct))
    return SpellLength(block, evidence.length, min(evidence.odds, MOST))


def exceedance_correlation(correlations: Vector, alpha: float) -> Vector:
    """Correlation of "above the α-quantile" for two normal numbers with a given correlation.

    Plackett's identity: ∫_0^ρ φ₂(z, z; t) dt / α(1−α), by Gauss and Legendre's rule.

    >>> exceedance_correlation(np.array([0.0, 0.7, -0.5]), 0.5).round(4)
    array([ 0.    ,  0.4936, -0.3333])
    """
    from scipy.special import ndtri

    z = float(ndtri(alpha))
    nodes, weights = _gauss_legendre()
    angles = np.arcsin(np.clip(correlations, -0.999, 0.999))
    # With t = sin a the integrand is smooth: φ₂ dt = exp(−z²/(1 + sin a))/2π da.
    at = np.sin(angles[:, None] * (nodes + 1.0) / 2.0)
    sums = (np.exp(-z * z / (1.0 + at)) * weights).sum(axis=1) * angles / 2.0
    return np.asarray(sums / (2.0 * math.pi * alpha * (1.0 - alpha)))


@lru_cache
def _gauss_legendre() -> tuple[Vector, Vector]:
    """Nodes and weights."""
    return np.polynomial.legendre.leggauss(24)


def _rank(domains: int, alpha: float, miss: float, block: float) -> int | None:
    from scipy.special import betainc

    ranks = np.arange(1, domains + 1) / block
    enough = betainc(ranks, domains / block - ranks + 1.0, alpha) <= miss * (1.0 + ROUNDING)
    return int(enough.argmax()) + 1 if enough.any() else None


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
