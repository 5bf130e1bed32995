"""Sizes of the simulations, the cases that are tried, and what they must show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from studies.domains_in_time.worlds import risk_laws
from studies.nested_domains.worlds import SIZES, NestedWorld, bad_groups, uniform_law

CONFIDENCE = 0.95
GROUPS = (10, 20, 50, 100, 200)
CORRELATIONS = (0.0, 0.3, 0.9)
NEEDED = {"once": 29, "repeated": 34}
"""Groups needed at α = 0.9 and 95%."""
ONCE, REPEATED, POOLED = "once", "repeated", "pooled"
FEWEST_POOLED = 20
"""Groups that the pooled form needs."""
POOLED_COVERAGE = 0.92
"""What the pooled form, stated at 95%, reaches with at least 20 groups."""
KNOWN_MEMBERS = (29, 50, 200)
COMPARED = 0.9
HARDEST = ("1 to 50", "high risk, small")
"""Sizes that laws other than the uniform are tried with."""


@dataclass(frozen=True)
class NestedSettings:
    """How many worlds of each case, and how many of them compare how tight bounds are."""

    worlds: int
    compared: int


RUNS = {"full": NestedSettings(2000, 100), "quick": NestedSettings(30, 3)}


@dataclass(frozen=True)
class NestedCase:
    """A world, how many groups are seen of it, and the levels that are bounded."""

    world: NestedWorld
    groups: int
    alphas: tuple[float, ...]


def highest(groups: int) -> float:
    """The highest level that both certificates reach, rounded down to a percent.

    >>> [highest(groups) for groups in GROUPS]
    [0.69, 0.83, 0.92, 0.96, 0.98]
    """
    reach: float = ((1.0 - CONFIDENCE) / 2.0) ** (1.0 / groups)
    return math.floor(100.0 * reach) / 100.0


def cases() -> Iterator[NestedCase]:
    """All sizes and correlations at two levels, then other laws."""
    for groups in GROUPS:
        for sizes in SIZES:
            for correlation in CORRELATIONS:
                world = NestedWorld(uniform_law(), correlation, sizes)
                yield NestedCase(world, groups, (0.5, highest(groups)))
    for groups in (20, 100):
        for sizes in SIZES:
            yield NestedCase(bad_groups(sizes), groups, (highest(groups),))
        for law in risk_laws()[1:]:
            for sizes in HARDEST:
                yield NestedCase(NestedWorld(law, 0.3, sizes), groups, (highest(groups),))
