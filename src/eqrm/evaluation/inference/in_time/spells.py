"""A bound for domains that come in spells, approximate: how many independent ones they count as.

Of m domains that depend on their neighbours, the number with a risk below the α-quantile has the
mean of a binomial law and a variance L times as large: L = 1 + 2·Σ ρ_l, ρ_l the correlation of
"risk above the quantile" l domains apart. So they count as m/L independent domains, L the length
of a block. L is estimated, which is why the bound is called approximate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from eqrm.checks import OPEN_FRACTION
from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.inference.binomial_ranks import ROUNDING, domains_needed
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector, checked_alpha, checked_risks

FEWEST = 60
"""Fewer domains say too little about how long spells last."""
DOMAINS_PER_MEMORY = 45
"""Domains needed for each domain that dependence lasts: 200 for correlations that decay by 0.77."""
LONGEST_LAG = 15
VISIBLE = 8.0
"""Squared standard errors from which a decay of correlations counts."""
_DECAYS = np.linspace(0.02, 0.98, 49)


@dataclass(frozen=True, kw_only=True)
class SpellCertificate(Certificate):
    """A :class:`Certificate` for domains that come in spells; its confidence is approximate.

    ``block_length`` is the estimated L: the domains count as ``domains / block_length`` independent
    ones. ``memory`` is for how many domains dependence is estimated to last.
    """

    derived = (*Certificate.derived, "approximate")

    block_length: float
    memory: float
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
    """How long risks stay similar: ``block_length`` L, and ``memory`` 1/(1−r) for decay r."""

    block_length: float
    memory: float


def spell_bound(risks: Any, alpha: LevelLike = 0.9, confidence: float = 0.95) -> SpellCertificate:
    """An approximate upper confidence bound on the α-quantile of risk, for domains in spells.

    ``risks`` (m,) are in the order of time. The bound is the smallest order statistic R_(r) with
    P(Binomial(m/L, α) ≥ r/L) ≤ 1 − confidence (as an incomplete beta function), L the block length
    of :func:`spell_length`; L = 1 gives the bound for independent domains. Refused are fewer than
    60 domains, fewer blocks than a bound for independent domains needs, and dependence that
    lasts longer than m/45 domains: too few spells were seen to judge their length.

    >>> noise = np.random.default_rng(0).normal(size=201)
    >>> bound = spell_bound(noise[1:] + noise[:-1])
    >>> 1 < bound.block_length < 3, bound.approximate
    (True, True)
    """
    values = checked_risks(risks)
    level, asked = checked_alpha(alpha), OPEN_FRACTION.check(confidence, "confidence")
    least = max(FEWEST, domains_needed(level, asked))
    if values.size < least:
        raise _too_few(values.size, least, f"{values.size} domains are too few")
    spells = spell_length(values, level)
    least = math.ceil(DOMAINS_PER_MEMORY * spells.memory - 1e-9)
    if values.size < least:
        what = f"risks stay similar for about {spells.memory:.1f} domains"
        raise _too_few(values.size, least, what)
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
        memory=spells.memory,
    )


def spell_length(risks: Any, alpha: LevelLike = 0.9) -> SpellLength:
    """The estimated block length, at least 1, and the memory of risks in the order of time.

    The block length is the larger of two: from the correlations of "above the α-quantile" itself,
    and from those of the normal scores of the risks, carried over to such indicators as in a
    Gaussian sequence. Both sums end where pairs of correlations are no longer positive (Geyer
    1992). The memory is 1/(1−r) for the decay c·r^l that fits the correlations of the scores best.

    >>> spell_length(np.random.default_rng(0).normal(size=500)).block_length < 1.5
    True
    """
    from scipy.special import ndtri

    values, level = checked_risks(risks, at_least=20), checked_alpha(alpha)
    if np.ptp(values) == 0.0:
        return SpellLength(1.0, 1.0)
    scores = ndtri((_midranks(values) - 0.5) / values.size)
    lags = max(4, min(values.size // 4, 200))
    linear = _correlations(scores, lags)
    carried = np.concatenate([[1.0], exceedance_correlation(linear[1:], level)])
    above = (scores > ndtri(level)).astype(np.float64)
    direct = _correlations(above, lags) if 0.0 < above.mean() < 1.0 else np.zeros(lags + 1)
    length = max(_summed(carried), _summed(direct))
    # Subtracting the sample's mean lowers every correlation by about their sum over m.
    unbiased = linear[1:] + _summed(linear) / values.size
    return SpellLength(length, _memory(unbiased, values.size))


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


def _midranks(values: Vector) -> Vector:
    from scipy.stats import rankdata

    return np.asarray(rankdata(values), dtype=np.float64)


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


def _memory(correlations: Vector, domains: int) -> float:
    """1/(1−r) of the decay c·r^l that fits best; 1 where it is not clearly visible."""
    fitted = correlations[:LONGEST_LAG]
    powers = _DECAYS[:, None] ** np.arange(1, fitted.size + 1)
    # Correlations of independent domains have the standard deviation 1/√m.
    strength = domains * np.maximum(powers @ fitted, 0.0) ** 2 / (powers**2).sum(axis=1)
    best = int(strength.argmax())
    return float(1.0 / (1.0 - _DECAYS[best])) if strength[best] > VISIBLE else 1.0


def _too_few(domains: int, needed: int, what: str) -> TooFewDomainsError:
    return TooFewDomainsError(
        f"No bound for domains in spells: {what}, and at least {needed} domains are needed for "
        f"that, got {domains}. Use more domains in the order of time, or dependence=k where k is "
        "known.",
        domains=domains,
        needed=needed,
    )
