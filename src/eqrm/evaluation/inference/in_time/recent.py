"""Bounds that give recent domains more weight, for risks that drift. They are not certificates.

Conformal prediction beyond exchangeability (Barber, Candès, Ramdas & Tibshirani 2023, Theorem 2):
with fixed weights w_i and w̃_i = w_i/(Σw + 1), the next risk is at most the α-quantile of
Σ w̃_i·δ(R_i) + δ(∞)/(Σw + 1) with probability at least α − Σ w̃_i·d_i, where d_i is the distance in
total variation between the sequence and the sequence with domain i and the next one exchanged.
How far the law has drifted is not known, so the probability is tabulated for assumed drifts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.checks import FRACTION, POSITIVE
from eqrm.errors import TooFewDomainsError
from eqrm.evaluation.inference.finding import Finding
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector, checked_alpha, checked_risks
from eqrm.evaluation.rounding import as_percent, percent_rounded_down, rounded_up

DRIFTS = (0.0, 0.0001, 0.0003, 0.001, 0.003, 0.01)
"""Total variation per domain for which probabilities are tabulated."""
_SLACK = 1e-12


@dataclass(frozen=True, kw_only=True)
class RecentBound(Finding):
    """A bound on the risk of the next domain, which weighs domain i by 2^(−age/half_life).

    It has no confidence level: ``probability(drift)`` is that of the next risk staying within it,
    over the measured risks and the next one together, if the law of the risk changes by at most
    ``drift`` in total variation from each domain to the next and domains are independent.
    """

    derived = ("sentence", "table")

    bound: float
    alpha: float
    half_life: float
    domains: int

    def probability(self, drift: float) -> float:
        """At least this often the next domain's risk is within the bound; 0 says nothing."""
        FRACTION.check(drift, "drift")
        ages = np.arange(self.domains, 0, -1)
        weights = recent_weights(self.domains, self.half_life)
        # Of independent domains, exchanging two moves the law by at most twice their distance.
        distances = np.minimum(1.0, 2.0 * drift * ages)
        lost = float((weights * distances).sum() / (weights.sum() + 1.0))
        return max(0.0, self.alpha - lost)

    @property
    def table(self) -> list[dict[str, float]]:
        """Rows of an assumed drift per domain and the probability that follows from it."""
        return [{"drift": d, "probability": self.probability(d)} for d in DRIFTS]

    def __str__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """The statement, with the probability for one assumed drift beside that for none."""
        drift = DRIFTS[3]
        return (
            f"The next domain has a risk of at most {rounded_up(self.bound)} with a probability of "
            f"at least {as_percent(self.alpha)} if nothing changes, and of at least "
            f"{percent_rounded_down(self.probability(drift))} if the distribution of the risk "
            f"changes by at most {drift} (total variation) per domain; for independent domains, "
            f"the weight of each halving every {self.half_life:g} domains. This is not a "
            "certificate: it is about the next domain only, and holds on average over these "
            f"{self.domains}."
        )


def recent_bound(risks: Any, alpha: LevelLike = 0.9, half_life: float = 30.0) -> RecentBound:
    """A weighted bound on the risk of the next domain; ``risks`` (m,) are in the order of time.

    ``half_life`` is after how many domains a weight has halved, fixed before looking at the risks.
    A short one follows drift and leaves fewer domains to rest on: weights must add up to at least
    α/(1−α), or the bound would be infinite, which is refused.

    >>> bound = recent_bound(np.arange(100) / 100, half_life=20)
    >>> bound.bound, round(bound.probability(0.0), 3), round(bound.probability(0.001), 3)
    (0.98, 0.9, 0.85)
    """
    values, level = checked_risks(risks), checked_alpha(alpha)
    weights = recent_weights(values.size, POSITIVE.check(half_life, "half_life"))
    total = float(weights.sum())
    if total / (total + 1.0) < level * (1.0 - _SLACK):
        raise _too_little_weight(values.size, level, half_life, total)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / (total + 1.0) >= level * (1.0 - _SLACK)
    return RecentBound(
        bound=float(values[order][int(reached.argmax())]),
        alpha=level,
        half_life=float(half_life),
        domains=values.size,
    )


def recent_weights(domains: int, half_life: float) -> Vector:
    """2^(−age/half_life), the most recent domain having the age 1.

    >>> recent_weights(3, 1.0)
    array([0.125, 0.25 , 0.5  ])
    """
    return np.asarray(0.5 ** (np.arange(domains, 0, -1) / half_life))


def _too_little_weight(
    domains: int, alpha: float, half_life: float, total: float
) -> TooFewDomainsError:
    needed = alpha / (1.0 - alpha)
    decay = 0.5 ** (1.0 / half_life)
    share = 1.0 - needed * (1.0 - decay) / decay
    enough = math.ceil(math.log(share) / math.log(decay)) if share > 0.0 else math.inf
    advice = (
        f"at least {enough} domains are needed"
        if share > 0.0
        else "no number of domains is enough: choose a longer half_life"
    )
    return TooFewDomainsError(
        f"The weights of {domains} domains with half_life={half_life:g} add up to {total:.3g}, "
        f"where a bound at the level {alpha:.12g} needs {needed:.3g}; {advice}.",
        domains=domains,
        needed=enough,
    )
