"""The bounds that a backtest compares: what each needs, and what it says about later domains."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.inference.binomial_ranks import domains_needed
from eqrm.evaluation.inference.certificates import Certificate, quantile_bound
from eqrm.evaluation.inference.in_time.online import OnlineBound
from eqrm.evaluation.inference.in_time.recent import recent_bound
from eqrm.evaluation.inference.in_time.spells import FEWEST, spell_bound
from eqrm.evaluation.rounding import EQUAL

Array = NDArray[np.float64]
PLAIN, DEPENDENT, SPELLS, RECENT, ONLINE = "plain", "dependent", "spells", "recent", "online"
KINDS = (PLAIN, SPELLS, RECENT, ONLINE)
"""Kinds by name; dependent domains are asked for by their k."""
HALF_LIFE = 30.0


@dataclass(frozen=True)
class BoundRule:
    """How domains of the past bound the risk of later ones.

    ``kind`` is "plain" (the certificate for independent domains), "dependent" (with
    ``dependence`` k), "spells" (approximate), "recent" (weights that halve every ``half_life``
    domains; not a certificate) or "online" (adapted after every judged domain).

    >>> BoundRule(DEPENDENT, dependence=2).name, BoundRule().name
    ('dependence=2', 'plain')
    """

    kind: str = PLAIN
    dependence: int = 0
    half_life: float = HALF_LIFE

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"dependence={self.dependence}" if self.kind == DEPENDENT else self.kind

    def needed(self, alpha: float, confidence: float) -> float:
        """The fewest domains that it takes; ∞ where no number is enough.

        >>> BoundRule().needed(0.9, 0.95), BoundRule(DEPENDENT, 1).needed(0.9, 0.95)
        (29, 71)
        >>> BoundRule(RECENT, half_life=10).needed(0.9, 0.95)
        15
        """
        if self.kind == ONLINE:
            return 1
        if self.kind == RECENT:
            try:
                recent_bound(np.zeros(2), alpha, self.half_life)
            except TooFewDomainsError as refusal:
                return refusal.needed
            return 2
        least = domains_needed(alpha, confidence, dependence=self.dependence)
        return max(least, FEWEST) if self.kind == SPELLS else least

    def judge(self, past: Array, later: Array, alpha: float, confidence: float) -> JudgedDomains:
        """The bound from the risks of ``past`` domains (m,), beside those of ``later`` ones (n,).

        Both are in the order of time. A refusal for reasons that only the risks show is a result.

        >>> found = BoundRule().judge(np.arange(40.0), np.array([3.0, 50.0]), 0.9, 0.95)
        >>> found.bounds.tolist(), found.within, round(found.expected, 3)
        ([39.0, 39.0], 1, 0.976)
        """
        if self.kind == ONLINE:
            online = OnlineBound(alpha)
            online.update_many(past)
            return JudgedDomains(online.update_many(later)[0], later)
        try:
            if self.kind == RECENT:
                bound = recent_bound(past, alpha, self.half_life).bound
                return JudgedDomains(np.full(len(later), bound), later)
            found: Certificate
            if self.kind == SPELLS:
                found = spell_bound(past, alpha, confidence)
            else:
                found = quantile_bound(past, alpha, confidence, self.dependence)
        except TooFewDomainsError as refusal:
            return JudgedDomains(np.full(len(later), np.nan), later, refusal=str(refusal))
        rank = found.rank if self.kind == PLAIN else None
        return JudgedDomains(np.full(len(later), found.bound), later, rank, found.domains)


@dataclass(frozen=True, eq=False)
class JudgedDomains:
    """A bound for each later domain (n,), and the risk that it turned out to have.

    ``rank`` is which of the ``domains`` risks the plain certificate is. ``refusal`` says why there
    is no bound; the bounds are NaN then.
    """

    bounds: Array
    risks: Array
    rank: int | None = None
    domains: int = 0
    refusal: str | None = None

    @property
    def within(self) -> int:
        """How many risks are at most their bounds.

        Up to the rounding of their sums: a constant has the same risk on every domain.
        """
        return int((self.risks - self.bounds <= EQUAL * np.abs(self.risks)).sum())

    @property
    def infinite(self) -> int:
        """How many bounds allow every risk."""
        return int((self.bounds == math.inf).sum())

    @property
    def bound(self) -> float:
        """The bound; where it changes from domain to domain, the mean of the finite ones."""
        finite = self.bounds[np.isfinite(self.bounds)]
        return float(finite.mean()) if finite.size else math.nan

    @property
    def expected(self) -> float | None:
        """The mean share within the plain certificate if all domains are exchangeable.

        The k-th smallest of m risks is as high as a share k/(m+1) of new ones, on average.
        """
        return None if self.rank is None else self.rank / (self.domains + 1)

    def chance_below(self, alpha: float) -> float | None:
        """How likely a share below α is for these many domains, if all are exchangeable.

        The number within the k-th smallest of m risks has a beta-binomial law.

        >>> found = BoundRule().judge(np.arange(40.0), np.zeros(30), 0.9, 0.95)
        >>> round(found.chance_below(0.9), 3)
        0.03
        """
        from scipy.stats import betabinom

        if self.rank is None:
            return None
        n, beyond = len(self.risks), self.domains + 1 - self.rank
        most = math.ceil(alpha * n - 1e-9) - 1
        return float(betabinom.cdf(most, n, self.rank, beyond))
