"""Sizes of the simulations, and what they must show."""

from __future__ import annotations

from dataclasses import dataclass

ALPHA, CONFIDENCE, DELTA = 0.9, 0.95, 0.05
DEPENDENCES = (0, 1, 2, 5)
NEEDED = {0: 29, 1: 71, 2: 106, 5: 211}
"""Domains needed at α = 0.9 and 95%, by k."""
LARGEST = 500
SPELL_DOMAINS = 200
SPELL_COVERAGE = 0.92
LONG_REFUSED, LONG_WRONG, SHORT_GIVEN = 0.95, 0.05, 0.75
"""Shares of worlds: long stays refused, given and wrong there, short ones given a bound."""
NOT_TOLD = "2 regimes, overlapping, stay 5"
"""No test can tell these stays from those of 10 in 200 domains."""
CORRELATIONS = (0.1, 0.2, 0.3, 0.5, 0.7)
DRIFTS = (0.0, 0.0001, 0.0003, 0.001, 0.003, 0.01)
"""Total variation per domain."""
HALF_LIVES = (10.0, 30.0, 100.0, 1000.0)
MISS_RATES = (0.15, 0.2, 0.3, 0.5)
POWER = 0.8


@dataclass(frozen=True)
class TimeSettings:
    """How many worlds, and how many domains the watch sees in each."""

    worlds: int
    spell_worlds: int
    watched: int
    sequences: int
    sequence_domains: int


SIZES = {
    "full": TimeSettings(2000, 2000, 10_000, 200, 2000),
    "quick": TimeSettings(50, 30, 500, 16, 300),
}
