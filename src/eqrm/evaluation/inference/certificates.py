"""Distribution-free statements about domains that nobody has seen.

A certificate is computed on m domains that played no part in training or in choosing the
predictor. Its one assumption: new domains are drawn like these, independently. It says nothing
about domains that differ in kind.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.inference import binomial_ranks
from eqrm.evaluation.inference.risk_checks import (
    LevelLike,
    checked_alpha,
    checked_confidence,
    checked_risks,
    checked_threshold,
)

MEASURED = "the measured risk of a new domain of like size"
TRUE = "the true risk of a new domain"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A statement about unseen domains that holds with a stated confidence.

    ``bound`` is the number stated: of ``kind`` "quantile" a risk that a share ``alpha`` of new
    domains does not exceed, of ``kind`` "probability" the share of new domains whose risk is
    at most ``threshold``. ``confidence`` was asked for, ``achieved`` is the probability
    computed: exact for laws without jumps, a lower bound for others. ``speaks_of`` says which
    risk is meant: the one measured on as many examples as here, or the true one.
    ``rank`` counts the measured risks that the bound rests on: it is the rank-th smallest of
    them, or that many lie at or below the threshold. ``vacuous`` is True where the bound says
    nothing (a probability of at least 0, a risk of at most the largest loss).
    """

    kind: str
    bound: float
    confidence: float
    achieved: float
    domains: int
    method: str
    speaks_of: str
    alpha: float | None
    threshold: float | None
    rank: int
    vacuous: bool

    def __str__(self) -> str:
        return self.sentence

    @property
    def assumption(self) -> str:
        """What must be true of new domains, in words."""
        return f"new domains are drawn like these {self.domains}, independently of each other"

    @property
    def sentence(self) -> str:
        """The statement for a reader who knows no statistics."""
        opening = f"With {as_percent(self.confidence)} confidence, {self.speaks_of} is at most "
        if self.kind == "quantile":
            risk, share = rounded_up(self.bound), as_percent(self.alpha or 0.0)
        else:
            risk, share = f"{self.threshold:.10g}", percent_rounded_down(self.bound)
        statement = f"{opening}{risk} in at least {share} of new domains"
        empty = " This says nothing: collect more domains or examples." if self.vacuous else ""
        return f"{statement}, provided that {self.assumption}.{empty}"

    def as_dict(self) -> dict[str, Any]:
        """Every field, the assumption and the sentence, ready for JSON."""
        return {**asdict(self), "assumption": self.assumption, "sentence": self.sentence}


def quantile_bound(risks: Any, alpha: LevelLike = 0.9, confidence: float = 0.95) -> Certificate:
    """An upper confidence bound on the α-quantile of risk, by an order statistic.

    The bound is the k-th smallest of the m risks, with the smallest k for which
    P(Binomial(m, α) ≥ k) ≤ 1 − confidence. It lies below q = F⁻¹(α) only if k or more risks
    do, each with probability P(R < q) ≤ α. So it holds with probability
    P(Binomial(m, α) < k), exactly where F has no jump at q, and more often otherwise.

    ``risks`` (m,) are the measured risks of held-out domains.

    >>> bound = quantile_bound([i / 100 for i in range(1, 101)], alpha=0.9, confidence=0.95)
    >>> bound.bound, bound.rank, round(bound.achieved, 4)
    (0.96, 96, 0.9763)
    >>> quantile_bound([0.2, 0.3, 0.4])
    Traceback (most recent call last):
    ...
    eqrm.errors.TooFewDomainsError: 3 domains are too few to bound the 0.9-quantile of risk ...
    """
    values = checked_risks(risks)
    level, asked = checked_alpha(alpha), checked_confidence(confidence)
    rank = binomial_ranks.upper_rank(values.size, level, 1.0 - asked)
    if rank is None:
        raise too_few(values.size, level, asked)
    return Certificate(
        kind="quantile",
        bound=float(np.partition(values, rank - 1)[rank - 1]),
        confidence=asked,
        achieved=1.0 - binomial_ranks.at_least(rank, values.size, level),
        domains=values.size,
        method="order statistic",
        speaks_of=MEASURED,
        alpha=level,
        threshold=None,
        rank=rank,
        vacuous=False,
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
    values, asked = checked_risks(risks), checked_confidence(confidence)
    limit = checked_threshold(threshold)
    below = int((values <= limit).sum())
    bound = binomial_ranks.probability_below(below, values.size, 1.0 - asked)
    return Certificate(
        kind="probability",
        bound=bound,
        confidence=asked,
        achieved=asked,
        domains=values.size,
        method="Clopper-Pearson",
        speaks_of=MEASURED,
        alpha=None,
        threshold=limit,
        rank=below,
        vacuous=below == 0,
    )


def too_few(
    domains: int, alpha: float, confidence: float, needed: int | None = None
) -> TooFewDomainsError:
    """The refusal of a quantile bound, with the number of domains that it takes."""
    needed = needed or binomial_ranks.domains_needed(alpha, confidence)
    within_reach = binomial_ranks.highest_level(domains, confidence)
    return TooFewDomainsError(
        f"{domains} domains are too few to bound the {alpha:.12g}-quantile of risk with "
        f"{as_percent(confidence)} confidence: at least {needed} are needed. With {domains}, "
        f"levels up to {np.floor(1000 * within_reach) / 1000:.3g} are within reach.",
        domains=domains,
        needed=needed,
    )


def as_percent(share: float) -> str:
    """A share in percent.

    >>> as_percent(0.95), as_percent(0.99999)
    ('95%', '99.999%')
    >>> as_percent(1 - 1e-13)
    '99.99999999999%'
    """
    text = f"{100.0 * share:.10g}"
    return f"{100.0 * share:.16g}%" if text == "100" and share < 1.0 else f"{text}%"


def percent_rounded_down(share: float) -> str:
    """A share in percent with two decimals, never more than the share itself.

    >>> percent_rounded_down(0.901855), percent_rounded_down(0.9)
    ('90.18%', '90%')
    """
    return f"{math.floor(1e4 * share + 1e-9) / 100.0:.10g}%"


def rounded_up(risk: float, digits: int = 4) -> str:
    """A risk with four significant digits, never less than the risk itself.

    >>> rounded_up(0.71231), rounded_up(-0.71239), rounded_up(0.0), rounded_up(0.5)
    ('0.7124', '-0.7123', '0', '0.5')
    """
    if abs(risk) < 1e-300 or not math.isfinite(risk):
        return f"{risk:.17g}"
    unit = 10.0 ** (math.floor(math.log10(abs(risk))) + 1 - digits)
    return f"{math.ceil(risk / unit - 1e-9) * unit:.{digits}g}"
