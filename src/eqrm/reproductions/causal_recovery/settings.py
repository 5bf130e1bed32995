"""The σ's of the domains, the levels and penalties, and the tolerances."""

from __future__ import annotations

from dataclasses import dataclass

from eqrm.level import Level

# Standard deviations in four domains, in general position. The paper names none.
SIGMAS = {
    "X1": (0.5, 1.0, 2.0, 1.5),
    "X2": (1.6, 0.7, 1.1, 2.2),
    "Y": (2.0, 1.1, 0.6, 1.5),
}
# Three domains in which all σ's change and yet some predictor has the same risk in all.
THREE_DOMAINS = {"X1": (1.0, 2.0, 1.0), "X2": (1.0, 1.0, 2.0), "Y": (2.0, 1.0, 1.0)}

LEVELS = (
    Level(0.9),
    Level(0.99),
    *(Level(log_tail=tail) for tail in (-1e2, -1e4, -1e6, -1e8)),
)
PENALTY_WEIGHTS = (1e2, 1e4, 1e6, 1e8, 1e10)


@dataclass(frozen=True)
class Settings:
    """``draws`` random sets of domains per case. ``exact`` bounds the distance of the decided
    predictor from the closed form, ``near`` that of EQRM, VREx and IRM from theirs."""

    draws: int = 100
    exact: float = 1e-8
    near: float = 1e-2


SETTINGS = {"full": Settings(), "quick": Settings(draws=5)}
