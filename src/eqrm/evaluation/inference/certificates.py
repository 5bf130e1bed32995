"""Distribution-free statements about unseen domains (docs/certificates.md).

A certificate is computed on m domains that played no part in training or in choosing the
model. Its one assumption: new domains are drawn independently from the same distribution as
these, or, with ``dependence=k``, all of them belong to a stationary sequence in which domains more
than k places apart are independent. It says nothing about domains that differ in kind.

Statements come first, then how many domains they take, then the binomials that both rest on: of m
independent domains, the number with a risk below the α-quantile q = F⁻¹(α) is
Binomial(m, P(R < q)), with P(R < q) ≤ α ≤ P(R ≤ q), and equality for laws without jumps.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import betainc, betaincinv

from eqrm.checks import CONFIDENCE, NON_NEGATIVE_INTEGER, OPEN_FRACTION, number
from eqrm.errors import SettingError, TooFewDomainsError
from eqrm.evaluation.inference.risk_checks import (
    Finding,
    LevelLike,
    Vector,
    checked_alpha,
    checked_risks,
)
from eqrm.evaluation.rounding import as_percent, percent_rounded_down, rounded_up
from eqrm.text import counted

MEASURED, TRUE = "measured", "true"
CROSS_FITTED = "Cross-fitted bound, checked by simulation and not proven"
VACUOUS = "This bound is vacuous: collect more domains, or more examples of each."
ROUNDING = 1e-12
"""Relative slack on 1 − confidence: 0.9 and 0.1 are not binary fractions."""


@dataclass(frozen=True, kw_only=True)
class Certificate(Finding):
    """A statement about unseen domains that holds with a stated confidence.

    ``bound`` is the number stated: of ``kind`` "quantile" a risk that a share ``alpha`` of new
    domains does not exceed, of ``kind`` "probability" the share of new domains whose risk is
    at most ``threshold``. ``confidence`` was asked for, ``achieved`` is the probability
    computed: exact for laws without jumps, a lower bound for others. ``risk_kind`` says which
    risk is meant: "measured" on as many examples as here, or "true".
    ``rank`` counts the measured risks that the bound rests on: it is the rank-th smallest of
    them, or that many lie at or below the threshold. ``vacuous`` is True where the bound says
    nothing (a probability of at least 0, a risk of at most the largest loss). ``dependence`` is k
    for k-dependent domains, 0 for independent ones. ``doubt`` says what speaks against the
    assumption and which bound applies instead, where a test rejects it. ``proven`` is False where
    the risks were cross-fitted: each domain was judged by another model, of the other domains.
    """

    derived: ClassVar[tuple[str, ...]] = ("kind", "assumption", "sentence")

    bound: float
    confidence: float
    achieved: float
    domains: int
    method: str
    rank: int
    risk_kind: str = MEASURED
    vacuous: bool = False
    alpha: float | None = None
    threshold: float | None = None
    dependence: int = 0
    doubt: str = ""
    proven: bool = True

    @property
    def kind(self) -> str:
        """ "quantile" or "probability": what is bounded."""
        return "quantile" if self.threshold is None else "probability"

    @property
    def about(self) -> str:
        """The new domains that the statement is about."""
        return new_domains(self.risk_kind)

    @property
    def assumption(self) -> str:
        """What must be true of new domains, as a clause."""
        return assumption_about(self.domains, self.dependence)

    @property
    def estimated(self) -> str:
        """Why the confidence is approximate, as a clause; nothing where it is not."""
        return ""

    @property
    def approximate(self) -> bool:
        """Whether the confidence is approximate."""
        return bool(self.estimated)

    @property
    def statement(self) -> str:
        """What is stated, without the assumption."""
        if self.threshold is None:
            risk, share = rounded_up(self.bound), as_percent(self.alpha or 0.0)
        else:
            risk, share = f"{self.threshold:.10g}", percent_rounded_down(self.bound)
        opening = "With" if self.proven else f"{CROSS_FITTED}: with"
        if self.approximate:
            opening = f"Approximate, because {self.estimated}: {opening}"
        return (
            f"{opening} {as_percent(self.confidence)} confidence, at least {share} of {self.about} "
            f"have a {self.risk_kind} risk of at most {risk}"
        )

    @property
    def assumed(self) -> str:
        """The assumption, that the bound is vacuous, and what speaks against it."""
        ending = (VACUOUS if self.vacuous else "", self.doubt)
        return " ".join([f"{self.assumption}.", *filter(None, ending)])

    @property
    def sentence(self) -> str:
        """The statement for a reader who knows no statistics."""
        return f"{self.statement}, provided that {self.assumed}"


def new_domains(risk_kind: str) -> str:
    """The new domains that a statement about measured or true risks is about."""
    return "new domains of similar size" if risk_kind == MEASURED else "new domains"


def assumption_about(domains: int, dependence: int = 0) -> str:
    """The one assumption of certificates and bands, about m measured domains."""
    if dependence == 0:
        return f"new domains are drawn independently from the same distribution as these {domains}"
    return (
        f"new domains and these {domains} belong to a stationary sequence in which domains more "
        f"than {counted(dependence, 'place')} apart are independent"
    )


def quantile_bound(
    risks: Any, alpha: LevelLike = 0.9, confidence: float = 0.95, dependence: int = 0
) -> Certificate:
    """An upper confidence bound on the α-quantile of risk, by an order statistic.

    The bound is the k-th smallest of the m risks, with the smallest k for which
    P(Binomial(m, α) ≥ k) ≤ 1 − confidence. It lies below q = F⁻¹(α) only if k or more risks
    do, each with probability P(R < q) ≤ α. So it holds with probability
    P(Binomial(m, α) < k), exactly where F has no jump at q, and more often otherwise.

    ``risks`` (m,) are the measured risks of held-out domains. With ``dependence`` k above 0 they
    are in the order of time, and domains up to k places apart may depend on each other: the bound
    is the smallest risk at which twice the mean p-value of the k+1 interleaved subsequences is
    at most 1 − confidence.

    >>> bound = quantile_bound([i / 100 for i in range(1, 101)], alpha=0.9, confidence=0.95)
    >>> bound.bound, bound.rank, round(bound.achieved, 4)
    (0.96, 96, 0.9763)
    """
    values = checked_risks(risks)
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    if NON_NEGATIVE_INTEGER.check(dependence, "dependence"):
        rank = interleaved_rank(values, level, 1.0 - asked, dependence)
    else:
        rank = upper_rank(values.size, level, 1.0 - asked)
    if rank is None:
        raise too_few(values.size, level, asked, dependence=dependence)
    return Certificate(
        bound=float(np.partition(values, rank - 1)[rank - 1]),
        confidence=asked,
        achieved=asked if dependence else 1.0 - at_least(rank, values.size, level),
        domains=values.size,
        method="interleaved order statistics" if dependence else "order statistic",
        rank=rank,
        alpha=level,
        dependence=int(dependence),
    )


def probability_bound(risks: Any, threshold: float, confidence: float = 0.95) -> Certificate:
    """A lower confidence bound on P(a new domain's risk ≤ threshold), by Clopper and Pearson.

    With j of m risks at most ``threshold``, the bound is the p at which seeing j or more has
    probability 1 − confidence. The threshold must be chosen before looking at these risks.

    >>> round(probability_bound([0.1] * 29, threshold=0.5).bound, 4)
    0.9019
    """
    values, asked = checked_risks(risks), CONFIDENCE.check(confidence, "confidence")
    below = int((values <= number().check(threshold, "threshold")).sum())
    return Certificate(
        bound=probability_below(below, values.size, 1.0 - asked),
        confidence=asked,
        achieved=asked,
        domains=values.size,
        method="Clopper-Pearson",
        rank=below,
        threshold=float(threshold),
        vacuous=below == 0,
    )


def too_few(
    domains: int,
    alpha: float,
    confidence: float,
    needed: int | None = None,
    dependence: int = 0,
    kind: str = "domains",
    highest: float | None = None,
) -> TooFewDomainsError:
    """The error of a quantile bound, with the number of domains (or ``kind``) required."""
    needed = needed or domains_needed(alpha, confidence, dependence=dependence)
    if highest is None:
        highest = highest_level(domains, confidence, dependence)
    kind = f"{dependence}-dependent domains" if dependence else kind
    most = np.floor(1000 * highest) / 1000
    return TooFewDomainsError(
        f"{domains} {kind} are too few to bound the {alpha:.12g}-quantile of risk with "
        f"{as_percent(confidence)} confidence: at least {needed} are needed. {domains} {kind} "
        f"can bound {f'levels up to {most:.3g}' if most else 'no level'}.",
        domains=domains,
        needed=needed,
    )


def domains_needed(alpha: float, confidence: float, beyond: int = 0, dependence: int = 0) -> int:
    """The fewest domains that bound the α-quantile of risk by an order statistic.

    ``beyond`` is the number of measured risks that may lie above the bound: with 0 the bound
    is the largest risk, and m = ⌈log(1−confidence)/log α⌉; with more of them the bound is
    tighter and takes more domains. ``dependence`` is k for k-dependent domains, for which the
    bound is the largest risk.

    >>> domains_needed(0.9, 0.95), domains_needed(0.9, 0.95, beyond=1)
    (29, 46)
    >>> [domains_needed(0.9, 0.95, dependence=k) for k in (1, 2, 5)]
    [71, 106, 211]
    """
    level, miss = checked_alpha(alpha), 1.0 - OPEN_FRACTION.check(confidence, "confidence")
    above = NON_NEGATIVE_INTEGER.check(beyond, "beyond") + 1
    parts = NON_NEGATIVE_INTEGER.check(dependence, "dependence") + 1
    if parts == 1:
        return _trials_needed(level, miss, above)
    if beyond:
        raise SettingError(
            f"beyond must be 0 for dependent domains, got beyond={beyond}, dependence={dependence}."
        )

    def is_enough(domains: int) -> bool:
        # Some subsequences are longer than others by one; all risks lie at or below the largest.
        size, longer = divmod(domains, parts)
        mean = level**size * (longer * level + parts - longer) / parts
        return 2.0 * mean <= miss * (1.0 + ROUNDING)

    most = parts * math.ceil(math.log(miss / 2.0) / math.log(level) + 1.0)
    return bisect_left(range(most), True, lo=1, key=is_enough)


@lru_cache(maxsize=1024)
def _trials_needed(alpha: float, miss: float, above: int) -> int:
    """The fewest trials of which ``above`` or more exceed the quantile, but with ``miss``."""
    allowed = miss * (1.0 + ROUNDING)

    def is_enough(trials: int) -> bool:
        return bool(betainc(trials - above + 1.0, float(above), alpha) <= allowed)

    most = above
    while not is_enough(most):
        most *= 2
    return bisect_left(range(most), True, lo=above, key=is_enough)


def highest_level(domains: float, confidence: float, dependence: int = 0) -> float:
    """The highest level that m domains can bound: (1−confidence)^(1/m).

    For k-dependent domains a level that they can bound: with half of 1−confidence and the
    length of the shortest of the k+1 subsequences.
    """
    if dependence == 0:
        return float((1.0 - confidence) ** (1.0 / domains))
    shortest = int(domains) // (dependence + 1)
    return float(((1.0 - confidence) / 2.0) ** (1.0 / shortest)) if shortest else 0.0


@lru_cache(maxsize=1024)  # the same for every model of an evaluation
def upper_rank(domains: int, alpha: float, miss: float) -> int | None:
    """The smallest k with P(R_(k) < q) ≤ miss, counting from 1; None if even k = m is too low.

    R_(k) < q means that k or more risks lie below q: P ≤ P(Binomial(m, α) ≥ k).
    """

    def is_enough(rank: int) -> bool:
        return bool(betainc(rank, domains - rank + 1, alpha) <= miss * (1.0 + ROUNDING))

    rank = bisect_left(range(domains + 1), True, lo=1, key=is_enough)
    return rank if rank <= domains else None


def interleaved_rank(risks: Vector, alpha: float, miss: float, dependence: int) -> int | None:
    """How many risks lie at or below the bound on the α-quantile of k-dependent domains.

    Every (k+1)-th of k-dependent domains are independent: each subsequence has a binomial p-value
    of "the α-quantile is higher", and twice the mean of p-values is a p-value however they depend
    on each other (Rüschendorf 1982; Vovk & Wang 2020). The bound is the smallest risk at which that
    is at most ``miss``, found by bisection; None if that of the largest risk is higher.
    """
    if dependence >= 2 * risks.size:
        return None  # more than half of the subsequences are empty: twice the mean p-value is 1
    parts = [np.sort(risks[first :: dependence + 1]) for first in range(dependence + 1)]
    sizes, ordered = [part.size for part in parts], np.sort(risks)

    def is_enough(risk: float) -> bool:
        below = (int(part.searchsorted(risk, side="right")) for part in parts)
        found = sum(at_least(*each, alpha) for each in zip(below, sizes, strict=True)) / len(parts)
        return min(1.0, 2.0 * found) <= miss * (1.0 + ROUNDING)

    first = bisect_left(ordered, True, key=is_enough)
    if first == ordered.size:
        return None
    return int(np.searchsorted(ordered, ordered[first], side="right"))


@lru_cache(maxsize=4096)
def at_least(successes: int, trials: int, probability: float) -> float:
    """P(Binomial(trials, probability) ≥ successes)."""
    if not 0 < successes <= trials:
        return float(successes <= 0)
    return float(betainc(successes, trials - successes + 1, probability))


@lru_cache(maxsize=1024)
def probability_below(below: int, domains: int, miss: float) -> float:
    """Clopper and Pearson's lower bound on a probability that ``below`` of m domains support.

    The p with P(Binomial(m, p) ≥ below) = miss.
    """
    return float(betaincinv(below, domains - below + 1, miss)) if below else 0.0
