"""Domains in the order of time, and bounds that weigh recent ones more, which are no certificates.

Conformal prediction beyond exchangeability (Barber, Candès, Ramdas & Tibshirani 2023, Theorem 2):
with fixed weights w_i and w̃_i = w_i/(Σw + 1), the next risk is at most the α-quantile of
Σ w̃_i·δ(R_i) + δ(∞)/(Σw + 1) with probability at least α − Σ w̃_i·d_i, where d_i is the distance in
total variation between the sequence and the sequence with domain i and the next one exchanged.
How far the law has drifted is not known, so the probability is tabulated for assumed drifts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import FLAG, FRACTION, NON_NEGATIVE_INTEGER, POSITIVE, optional
from eqrm.data.times import Times, as_times, shown_time
from eqrm.domains import Name, named_domains
from eqrm.errors import DomainDataError, Setting, SettingError, TooFewDomainsError
from eqrm.evaluation.inference.certificates import Certificate, quantile_bound
from eqrm.evaluation.inference.in_time.spells import spell_bound
from eqrm.evaluation.inference.risk_checks import (
    Finding,
    LevelLike,
    Refused,
    Vector,
    checked_alpha,
    checked_risks,
    or_refused,
)
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
    """2^(−age/half_life), the most recent domain having the age 1."""
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


TimeBound = Certificate | RecentBound | Refused
"""A bound, or why there is none."""
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([ T].*)?$")


@dataclass(frozen=True, eq=False)
class DomainOrder:
    """When each of m domains began: ``times`` (m,), from the column ``name`` or their names."""

    times: Times
    name: str = "domains"

    @classmethod
    def of_names(cls, names: Sequence[Name]) -> DomainOrder | None:
        """The order of domains that are dates (2024-05-31, 2024-05); None where they are not."""
        if not all(isinstance(name, str) and _DATE.match(name) for name in names):
            return None
        try:
            return cls(as_times(list(names), "The domains"))
        except DomainDataError:
            return None

    def only(self, kept: NDArray[np.int64]) -> DomainOrder:
        """The order of the domains at some places."""
        return DomainOrder(self.times[kept], self.name)

    def arranged(self, risks: Vector, names: Sequence[Name]) -> Vector:
        """Risks (m,) of domains one after the other; two that begin together are refused."""
        order = np.argsort(self.times, kind="stable")
        same = np.flatnonzero(self.times[order][1:] == self.times[order][:-1])
        if same.size:
            sharing = np.union1d(same, same + 1).size
            pair = [names[int(order[same[0] + step])] for step in (0, 1)]
            raise DomainDataError(
                "Bounds for domains in time need domains that begin one after the other, but "
                f"{sharing:,} of {len(order):,} share their time with another: "
                f"{named_domains(pair)} both begin at {shown_time(self.times[order[same[0]]])}. "
                f"Order them by a column with finer times ({Setting('order', 'COLUMN')}), or make "
                "one domain of those that belong together."
            )
        return risks[order]

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON; :meth:`from_dict` reads them."""
        dates = self.times.dtype.kind == "M"
        times = [shown_time(time) for time in self.times] if dates else self.times.tolist()
        return {"column": self.name, "times": times}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> DomainOrder:
        """The reverse of :meth:`to_dict`."""
        return cls(as_times(content["times"], "The times of the domains"), str(content["column"]))


@dataclass(frozen=True)
class TimeBounds:
    """Which bounds for domains in time are asked for; none of them by default.

    ``dependence`` is k for domains that are independent more than k places apart, ``spells`` asks
    for the approximate bound for domains in spells, ``recent`` is the half-life of the weights of a
    bound for the next domain.
    """

    dependence: int | None = None
    spells: bool = False
    recent: float | None = None

    def __post_init__(self) -> None:
        optional(NON_NEGATIVE_INTEGER).check(self.dependence, "dependence")
        FLAG.check(self.spells, "spells")
        optional(POSITIVE).check(self.recent, "recent")

    @property
    def asked(self) -> list[str]:
        """The names of those that are asked for."""
        values = vars(self).items()
        return [name for name, value in values if value is not None and value is not False]

    def arranged(self, risks: Vector, names: Sequence[Name], order: DomainOrder | None) -> Vector:
        """Risks in the order of time; raises where there is none, or nothing is asked for."""
        if not self.asked:
            raise SettingError("Ask for dependence=, spells=True or recent=.")
        if order is None:
            raise SettingError(
                f"{', '.join(str(Setting(name)) for name in self.asked)}: these bounds need "
                "domains in the order of time, and the domains are not dates. Name the column with "
                f"the time of each row ({Setting('order', 'COLUMN')})."
            )
        return order.arranged(risks, names)

    def of(self, risks: Vector, alpha: LevelLike, confidence: float) -> dict[str, TimeBound]:
        """The bounds by name; ``risks`` (m,) are in the order of time."""
        ways: dict[str, Any] = {
            "dependence": lambda: quantile_bound(risks, alpha, confidence, self.dependence or 0),
            "spells": lambda: spell_bound(risks, alpha, confidence),
            "recent": lambda: recent_bound(risks, alpha, self.recent or 1.0),
        }
        return {name: or_refused(ways[name]) for name in self.asked}
