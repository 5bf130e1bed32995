"""What was decided for a level, as data and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from eqrm.evaluation.inference.sureness import Sureness
from eqrm.evaluation.rounding import as_percent, rounded_up
from eqrm.level import MEASURES, Level
from eqrm.markup import lines_in_html


@dataclass(frozen=True)
class Decision:
    """What to use for a level, instead of what, and how sure that is.

    Attributes:
        alpha: the level.
        chosen, plain: the model to use and the reference, plain training of the best family.
        sureness, probability: "clear", "likely" or "a toss-up", that the chosen one has a lower
            quantile, and how probable that is; None where there was nothing to decide.
        quantile, plain_quantile: the α-quantile of risk over new domains of both, the first one
            corrected for the choice having been made on the same domains.
        change, low, high: of the quantile, from the reference on, as a share, with its interval.
        price: the change of the mean risk, as a share.
        rival: where plain training is chosen, the best of the others, and how it compares.
        domains: on how many domains all this rests.
        asked: another measure or a requirement that was asked for, so that nothing was decided by
            the quantile; else empty.
        domain: the column that names the domains.
    """

    alpha: Level
    chosen: str
    plain: str
    sureness: Sureness | None
    probability: float | None
    quantile: float
    plain_quantile: float
    change: float
    low: float
    high: float
    price: float
    mean: float
    plain_mean: float
    domains: int
    confidence: float
    rival: str | None = None
    asked: str = ""
    domain: str = "domain"

    @property
    def is_plain(self) -> bool:
        """Whether plain training is what to use."""
        return self.chosen == self.plain

    @property
    def sentence(self) -> str:
        """What to use, as every place says it."""
        return f"Use: {self.chosen}{self._how}"

    @property
    def _how(self) -> str:
        if self.asked:
            best = f"best where '{self.asked}' is required"
            return f"  ({'as asked for' if self.asked in MEASURES else best})"
        if self.is_plain or self.probability is None:
            return "" if self.rival is None else "  (nothing else is likely better)"
        likely = f"{self.probability:.0%}" if self.probability < 0.995 else "over 99%"
        if self.sureness == Sureness.TOSS_UP:
            return f"  (a toss-up with {self.plain}: better with a probability of {likely})"
        surely = "clearly" if self.sureness == Sureness.CLEAR else "likely"
        return f"  ({surely} better than {self.plain}: {likely})"

    @property
    def evidence(self) -> str:
        """What it gains and costs, in one line."""
        one, several = plural(self.domain)
        digits = ".0%" if abs(self.change) >= 0.02 else ".1%"
        change, low, high = (f"{each:+{digits}}" for each in (self.change, self.low, self.high))
        interval = f"{change}, {as_percent(self.confidence)} interval {low} to {high}"
        price = f"{abs(self.price):.0%} {'more' if self.price >= 0.0 else 'less'}"
        price = f"{price} risk on the average {one}"
        if abs(self.price) < 0.005:
            price = f"the same risk on the average {one}"
        own = f"{share_of(self.alpha)} new {several} below an estimated {as_risk(self.quantile)}"
        if self.alpha == Level(1.0):
            own = f"the worst of {self.domains:,} {several} at {as_risk(self.quantile)}"
        if not self.is_plain:
            return f"{own} instead of {as_risk(self.plain_quantile)} ({interval}), at {price}"
        if self.rival is None:
            return own
        return (
            f"{own}; {self.rival} is lower with a probability of {self.probability:.0%} "
            f"({interval}), at {price}"
        )

    def __str__(self) -> str:
        return f"{self.sentence}\n     {self.evidence}"

    def _repr_html_(self) -> str:
        """The decision, for a notebook."""
        return lines_in_html(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; :meth:`from_dict` reads it."""
        sureness = self.sureness and self.sureness.value
        return {**asdict(self), "alpha": str(self.alpha), "sureness": sureness}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Decision:
        """The reverse of :meth:`to_dict`."""
        known = {each.name: content[each.name] for each in fields(cls)}
        known["alpha"] = Level.parse(known["alpha"])
        known["sureness"] = known["sureness"] and Sureness(known["sureness"])
        return cls(**known)


def plural(name: str) -> tuple[str, str]:
    """What one domain and several are called: by the column, where that is an English word.

    >>> plural("hospital"), plural("city"), plural("site_id"), plural("Store")
    (('hospital', 'hospitals'), ('city', 'cities'), ('domain', 'domains'), ('store', 'stores'))
    """
    word = name.lower()
    if not (word.isascii() and word.isalpha() and 2 < len(word) < 20):
        return "domain", "domains"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word, f"{word}es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word, f"{word[:-1]}ies"
    return word, f"{word}s"


def share_of(level: Level) -> str:
    """How many domains a quantile is about, before the word for them.

    >>> [share_of(Level(alpha)) for alpha in (0.5, 0.9, 0.97)]
    ['half of', '9 in 10', '97% of']
    """
    share = level.share_in_words
    return share if " in " in share else f"{share} of"


def as_risk(value: float, up: bool = False) -> str:
    """A risk in three digits, or three decimals; a bound is rounded ``up``.

    >>> as_risk(0.64449), as_risk(0.64441, up=True), as_risk(1234.56), as_risk(0.00012)
    ('0.644', '0.645', '1,230', '0.00012')
    """
    if 1000.0 <= abs(value) < 1e9:
        return f"{float(rounded_up(float(value), 3) if up else f'{value:.3g}'):,.0f}"
    if not 0.01 <= abs(value) < 10.0:
        return rounded_up(float(value), 3) if up else f"{value:.3g}"
    return f"{math.ceil(1000.0 * value - 1e-9) / 1000.0 if up else value:.3f}"
