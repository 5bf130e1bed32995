"""Worlds of groups and members with a known law of the risk of a new member of a new group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.domains_in_time.worlds import Generator, Law, Vector, risk_laws

LARGEST = 50
BAD_SHARE, BAD_GROUPS = 0.1, "a tenth of the groups is bad"


def equal_chances(generator: Generator, effects: Vector) -> NDArray[np.int64]:
    """1 to 50 members, each number as likely as the others."""
    return generator.integers(1, LARGEST + 1, effects.size)


def mostly_one(generator: Generator, effects: Vector) -> NDArray[np.int64]:
    """One member in most groups, 50 in a fifth of them."""
    return np.where(generator.random(effects.size) < 0.2, LARGEST, 1)


def high_risk_large(generator: Generator, effects: Vector) -> NDArray[np.int64]:
    """The higher the risk of a group, the more members it has."""
    from scipy.special import ndtr

    return np.asarray(1 + np.floor(ndtr(effects) * (LARGEST - 1e-9)), dtype=np.int64)


def high_risk_small(generator: Generator, effects: Vector) -> NDArray[np.int64]:
    """The higher the risk of a group, the fewer members it has."""
    return high_risk_large(generator, -effects)


SIZES: dict[str, Callable[[Generator, Vector], NDArray[np.int64]]] = {
    "1 to 50": equal_chances,
    "mostly 1, some 50": mostly_one,
    "high risk, large": high_risk_large,
    "high risk, small": high_risk_small,
}


@dataclass(frozen=True)
class NestedWorld:
    """Groups with normal effects, whose share of the variance is the intraclass correlation.

    The law turns the sum of the effects of group and member into a risk. A group's size may depend
    on its effect; the law of a new member of a new group does not depend on sizes, because every
    group counts the same.
    """

    law: Law
    correlation: float
    sizes: str = "1 to 50"

    def draw(self, generator: Generator, groups: int) -> tuple[Vector, NDArray[np.int64], Vector]:
        """The risks of all members, the group of each, and the effects of the groups."""
        effects = self.group_effects(generator, groups)
        sizes = SIZES[self.sizes](generator, effects)
        ids = np.repeat(np.arange(groups), sizes)
        return self.risks(effects[ids], generator.normal(size=ids.size)), ids, effects

    def group_effects(self, generator: Generator, groups: int) -> Vector:
        """Standard normal."""
        return generator.normal(size=groups)

    def risks(self, effects: Any, own: Any) -> Vector:
        """From the effects of groups and of members."""
        from scipy.special import ndtr

        shared, rest = self.correlation**0.5, (1.0 - self.correlation) ** 0.5
        return np.asarray(self.law.quantile(ndtr(shared * effects + rest * own)))

    def quantile(self, alpha: float) -> float:
        """The α-quantile of the risk of a new member of a new group."""
        return float(self.law.quantile(alpha))

    def quantile_within(self, effect: float, alpha: float) -> float:
        """The α-quantile of the risk of a new member of a group with this effect."""
        from scipy.special import ndtri

        return float(self.risks(effect, ndtri(alpha)))


@dataclass(frozen=True)
class BadGroups(NestedWorld):
    """A tenth of the groups is bad: all of its members have a much higher risk."""

    def group_effects(self, generator: Generator, groups: int) -> Vector:
        """5 with probability 0.1, otherwise 0."""
        return np.where(generator.random(groups) < BAD_SHARE, 5.0, 0.0)

    def risks(self, effects: Any, own: Any) -> Vector:
        """Their sum."""
        return np.asarray(effects + own)

    def quantile(self, alpha: float) -> float:
        """Where the mixture of two normal laws reaches α."""
        from scipy.optimize import brentq
        from scipy.special import ndtr

        def beyond(risk: float) -> float:
            both = (1.0 - BAD_SHARE) * ndtr(risk) + BAD_SHARE * ndtr(risk - 5.0)
            return float(both - alpha)

        return float(brentq(beyond, -10.0, 20.0, xtol=1e-12))


def bad_groups(sizes: str) -> BadGroups:
    """The world with groups of these sizes."""
    return BadGroups(Law(BAD_GROUPS, lambda share: share), 1.0, sizes)


def uniform_law() -> Law:
    """Uniform risks: the level that a bound reaches is the bound itself."""
    return risk_laws()[0]
