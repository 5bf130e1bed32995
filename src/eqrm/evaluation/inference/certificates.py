"""Distribution-free statements about unseen domains.

A certificate is computed on m domains that played no part in training or in choosing the
predictor. Its one assumption: new domains are drawn independently from the same distribution as
these, or, with ``dependence=k``, all of them belong to a stationary sequence in which domains more
than k places apart are independent. It says nothing about domains that differ in kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from eqrm.checks import CONFIDENCE, NON_NEGATIVE_INTEGER, number
from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.inference import binomial_ranks
from eqrm.evaluation.inference.risk_checks import Finding, LevelLike, checked_alpha, checked_risks
from eqrm.evaluation.rounding import as_percent, percent_rounded_down, rounded_up
from eqrm.text import counted

MEASURED, TRUE = "measured", "true"
CROSS_FITTED = "Cross-fitted bound, checked by simulation and not proven"
VACUOUS = "This bound is vacuous: collect more domains, or more examples of each."


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

    def __str__(self) -> str:
        return self.sentence

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
    at most 1 − confidence. It takes more domains (71, 106, 211 for k = 1, 2, 5 where independent
    ones take 29) and holds more often than stated.

    >>> bound = quantile_bound([i / 100 for i in range(1, 101)], alpha=0.9, confidence=0.95)
    >>> bound.bound, bound.rank, round(bound.achieved, 4)
    (0.96, 96, 0.9763)
    >>> quantile_bound([0.2, 0.3, 0.4])
    Traceback (most recent call last):
    ...
    eqrm.errors.TooFewDomainsError: 3 domains are too few to bound the 0.9-quantile of risk ...
    """
    values = checked_risks(risks)
    level, asked = checked_alpha(alpha), CONFIDENCE.check(confidence, "confidence")
    if NON_NEGATIVE_INTEGER.check(dependence, "dependence"):
        rank = binomial_ranks.interleaved_rank(values, level, 1.0 - asked, dependence)
    else:
        rank = binomial_ranks.upper_rank(values.size, level, 1.0 - asked)
    if rank is None:
        raise too_few(values.size, level, asked, dependence=dependence)
    return Certificate(
        bound=float(np.partition(values, rank - 1)[rank - 1]),
        confidence=asked,
        achieved=asked if dependence else 1.0 - binomial_ranks.at_least(rank, values.size, level),
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

    >>> bound = probability_bound([0.1] * 29, threshold=0.5)
    >>> round(bound.bound, 4)
    0.9019
    >>> probability_bound([0.7, 0.8], threshold=0.5).vacuous
    True
    """
    values, asked = checked_risks(risks), CONFIDENCE.check(confidence, "confidence")
    below = int((values <= number().check(threshold, "threshold")).sum())
    return Certificate(
        bound=binomial_ranks.probability_below(below, values.size, 1.0 - asked),
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
    needed = needed or binomial_ranks.domains_needed(alpha, confidence, dependence=dependence)
    if highest is None:
        highest = binomial_ranks.highest_level(domains, confidence, dependence)
    kind = f"{dependence}-dependent domains" if dependence else kind
    most = np.floor(1000 * highest) / 1000
    return TooFewDomainsError(
        f"{domains} {kind} are too few to bound the {alpha:.12g}-quantile of risk with "
        f"{as_percent(confidence)} confidence: at least {needed} are needed. {domains} {kind} "
        f"can bound {f'levels up to {most:.3g}' if most else 'no level'}.",
        domains=domains,
        needed=needed,
    )
