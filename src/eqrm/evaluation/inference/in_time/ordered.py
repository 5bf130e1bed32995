"""Domains in the order of time, and the bounds on their risks that need it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import FLAG, NON_NEGATIVE_INTEGER, POSITIVE, optional
from eqrm.data.times import Times, as_times, shown_time
from eqrm.domains import Name, named_domains
from eqrm.errors import DomainDataError, Setting, SettingError, TooFewDomainsError
from eqrm.evaluation.inference.certificates import Certificate, quantile_bound
from eqrm.evaluation.inference.in_time.recent import RecentBound, recent_bound
from eqrm.evaluation.inference.in_time.spells import spell_bound
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector

TimeBound = Certificate | RecentBound | str
"""A bound, or the sentence that says why there is none."""
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2})?([ T].*)?$")


@dataclass(frozen=True, eq=False)
class DomainOrder:
    """When each of m domains began: ``times`` (m,), from the column ``name`` or their names.

    >>> order = DomainOrder.of_names(["2013-02", "2013-01", "2013-03"])
    >>> order.arranged(np.array([0.2, 0.1, 0.3]), ["2013-02", "2013-01", "2013-03"])
    array([0.1, 0.2, 0.3])
    >>> DomainOrder.of_names(["Oslo", "Rome"]) is None
    True
    """

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

    >>> found = TimeBounds(dependence=1, recent=30).of(np.arange(100) / 100, 0.9, 0.95)
    >>> list(found), found["dependence"].bound, found["recent"].bound
    (['dependence', 'recent'], 0.98, 0.96)
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
        found: dict[str, TimeBound] = {}
        for name in self.asked:
            try:
                found[name] = ways[name]()
            except TooFewDomainsError as refusal:
                found[name] = str(refusal)
        return found
