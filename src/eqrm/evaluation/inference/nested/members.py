"""Risks of the members of groups: shares of each group below a risk, one member of each group."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from eqrm.domains import number_domains
from eqrm.errors import DomainDataError, Setting
from eqrm.evaluation.inference.in_time.spells import exceedance_correlation
from eqrm.evaluation.inference.risk_checks import Vector, checked_risks, midranks
from eqrm.text import did_you_mean


@dataclass(frozen=True, eq=False)
class NestedRisks:
    """The risks of m domains, the group of each, and the members of each of the groups."""

    risks: Vector
    ids: NDArray[np.int64]
    names: tuple[str, ...]
    sizes: NDArray[np.int64]
    _ordered: Vector
    _ordered_ids: NDArray[np.int64]

    @classmethod
    def of(cls, risks: Any, groups: Any) -> NestedRisks:
        """From one risk and one group per domain; two groups at least."""
        values = checked_risks(risks)
        numbered = number_domains(groups, values.size, "groups")
        if len(numbered.names) < 2:
            raise DomainDataError(
                "All domains are in one group. Nested domains need at least two groups, and dozens "
                "for a statement about new groups. For new members of one group, take its members "
                f"for the domains ({Setting('domains')} with their column)."
            )
        names, order = tuple(map(str, numbered.names)), np.argsort(values)
        sizes = np.bincount(numbered.ids)
        return cls(values, numbered.ids, names, sizes, values[order], numbered.ids[order])

    def __len__(self) -> int:
        return len(self.names)

    def shares_up_to(self, risk: float) -> Vector:
        """The share of each group's members whose risk is at most ``risk`` (groups,)."""
        below = int(self._ordered.searchsorted(risk, side="right"))
        return np.bincount(self._ordered_ids[:below], minlength=len(self)) / self.sizes

    def drawn_members(self, seed: int = 0) -> NDArray[np.int64]:
        """The index of one member of each group, drawn at random (groups,)."""
        drawn = np.random.default_rng(seed).random(len(self))
        first = np.cumsum(self.sizes) - self.sizes
        return np.asarray(self._by_group[first + (drawn * self.sizes).astype(np.int64)])

    @cached_property
    def _by_group(self) -> NDArray[np.int64]:
        """The members of the first group, then those of the second, …"""
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def likeness(self) -> float:
        """The correlation of the normal scores of two members of a group, at least 0 (ANOVA)."""
        sizes, total = self.sizes, self.risks.size
        if total == len(self):
            return 0.0
        ids, scores = self._ordered_ids, ndtri((midranks(self._ordered) - 0.5) / total)
        means = np.bincount(ids, scores) / sizes
        inside = float(((scores - means[ids]) ** 2).sum()) / (total - len(self))
        between = float((sizes * (means - scores.mean()) ** 2).sum()) / (len(self) - 1)
        typical = (total - float((sizes**2).sum()) / total) / (len(self) - 1)
        spread = max(0.0, (between - inside) / typical)
        return spread / (spread + inside) if spread + inside > 0.0 else 0.0

    def first_risk(self, is_enough: Callable[[Vector], bool]) -> tuple[float, int]:
        """The smallest risk up to which the shares of the groups are enough, as all members are.

        And how many risks are not above it.
        """

        def are_enough(risk: float) -> bool:
            return is_enough(self.shares_up_to(risk))

        ordered = self._ordered
        first = ordered[bisect_left(ordered, True, hi=ordered.size - 1, key=are_enough)]
        return float(first), int(np.searchsorted(ordered, first, side="right"))

    def of_group(self, name: str) -> Vector:
        """The risks of the members of a group."""
        if name not in self.names:
            raise DomainDataError(f"Unknown group {name!r}. {did_you_mean(name, self.names)}")
        return np.asarray(self.risks[self.ids == self.names.index(name)])


def effective_number(nested: NestedRisks, alpha: float, miss: float = 0.05) -> float:
    """How many independent domains the members count as, where every group counts the same.

    The mean over groups of the share below the α-quantile has the variance v/g with g groups, and
    that of n independent domains α(1−α)/n. v is the larger of two estimates: the variance of the
    groups' shares, and the variance that the correlation of normal scores within groups implies,
    with groups as small as those that matter above the quantile.
    As in survey statistics (Korn & Graubard 1998), n is lowered because v rests on few groups.
    """
    number, binomial = len(nested), alpha * (1.0 - alpha)
    quantile, _ = nested.first_risk(lambda shares: bool(shares.mean() >= alpha))
    shares = nested.shares_up_to(quantile)
    own = float((1.0 / nested.sizes).mean())
    # A member of a group of n counts 1/n. Where some of those above the quantile are in small
    # groups, few of them decide, and the sum of what they count is skewed: the mean of 1/n over
    # the members above the quantile, weighted by its square, is larger.
    above = (1.0 - shares) / nested.sizes
    if above.any():
        own = max(own, float((above / nested.sizes).sum() / above.sum()))
    correlation = float(exceedance_correlation(np.array([nested.likeness]), alpha)[0])
    implied = binomial * (correlation + (1.0 - correlation) * own)
    variance = max(float(shares.var(ddof=1)), implied)
    few = float((ndtri(1.0 - miss) / stdtrit(number - 1, 1.0 - miss)) ** 2)
    return min(max(number * binomial / variance * few, number), number / own)
