"""Causal recovery: what is set, what appendix G.1.2 says of each case, and what is true.

The risk in a domain is (β1 + β2 − 1)²σ1² + (β2 − 1)²σY² + β2²σ2² (the appendix's last display).

Only σ1 changes: invariance needs β1 + β2 = 1, and what is left, (β2 − 1)²σY² + β2²σ2², is a
parabola in β2 with its only minimum at σY²/(σY² + σ2²). The appendix names the causal predictor,
the anti-causal one, or a continuum, by which σ is larger: none is the minimum.

All σ's change: invariance over m domains is m − 1 homogeneous equations for the three weights
((β1 + β2 − 1)², (β2 − 1)², β2²). Any weights ≥ 0, not all 0, belong to some β up to scale, so
three domains can have a solution; four in general position have none, as the appendix says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqrm import Level

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
class RecoverySettings:
    """Sizes and tolerances.

    ``draws`` random sets of domains per case. ``exact`` bounds the distance of the decided
    predictor from the closed form, ``near`` that of EQRM, VREx and IRM from theirs.
    """

    draws: int = 100
    exact: float = 1e-8
    near: float = 1e-2


SIZES = {"full": RecoverySettings(), "quick": RecoverySettings(draws=5)}

Pair = tuple[float, float]
CAUSAL: Pair = (1.0, 0.0)
ANTI_CAUSAL: Pair = (0.0, 1.0)

APPENDIX = "appendix G.1.2, mathematical analysis"
DERIVED = "derived in `settings.py` from the appendix's own risk"
TABLE = "appendix G.1.2, the table"


@dataclass(frozen=True)
class Case:
    """Which σ's change, what the others are, and what the paper says.

    ``paper`` is its predictor, None where it says there is none; ``paper_status`` is "unique",
    "continuum" or "none".
    """

    name: str
    changing: tuple[str, ...]
    paper_status: str
    paper: Pair | None
    sigma_y: float = 2.0**0.5
    sigma2: float = 1.0

    def variances(self, sigmas: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
        """σ1², σY² and σ2² of each domain (m, 3), from the σ's of those that change."""
        domains = len(next(iter(sigmas.values())))
        fixed = {"X1": 1.0, "Y": self.sigma_y, "X2": self.sigma2}
        columns = [sigmas.get(name, [sigma] * domains) for name, sigma in fixed.items()]
        return np.square(np.array(columns, dtype=np.float64).T)

    @property
    def truth(self) -> Pair | None:
        """The minimal invariant-risk predictor, None where there is none."""
        if "X2" in self.changing and "Y" in self.changing:
            return None
        if "X2" in self.changing:
            return CAUSAL
        if "Y" in self.changing:
            return ANTI_CAUSAL
        return least_squares(self.sigma_y, self.sigma2)

    @property
    def paper_is_right(self) -> bool:
        """Whether the paper's claim is the truth: in all but the first."""
        return self.changing != ("X1",)


def least_squares(sigma_y: float, sigma2: float) -> Pair:
    """(1 − β2, β2) with β2 = σY²/(σY² + σ2²)."""
    second = sigma_y**2 / (sigma_y**2 + sigma2**2)
    return 1 - second, second


CASES: Sequence[Case] = (
    Case("σ1 (σY < σ2)", ("X1",), "unique", CAUSAL, sigma_y=1.0, sigma2=2.0**0.5),
    Case("σ1 (σY > σ2)", ("X1",), "unique", ANTI_CAUSAL),
    Case("σ1 (σY = σ2)", ("X1",), "continuum", (0.5, 0.5), sigma_y=1.0),
    Case("σ2", ("X2",), "unique", CAUSAL),
    Case("σ1 and σ2", ("X1", "X2"), "unique", CAUSAL),
    Case("σY", ("Y",), "unique", ANTI_CAUSAL),
    Case("σ1 and σY", ("X1", "Y"), "unique", ANTI_CAUSAL),
    Case("σ2 and σY", ("X2", "Y"), "none", None),
    Case("σ1, σ2 and σY", ("X1", "X2", "Y"), "none", None),
)


@dataclass(frozen=True)
class TableRow:
    """A row of the paper's table: ticks as printed.

    ``recovers`` are ours: whether the limit of each method is the causal predictor in these
    domains. For IRM it follows from E[f(f − Y)] = s(s − 1)σ1² + β2(β2 − 1)σY² + β2²σ2² = 0 with
    s = β1 + β2: where σ2 or σY changes, only the causal and the zero predictor are invariant
    (σ2 = 1 is too large for another one); where σ1 changes, least squares is.
    """

    case: str
    homoskedastic: bool
    invariant_risk: bool
    invariant_function: bool
    paper_recovers: tuple[bool, bool, bool]
    recovers: tuple[bool, bool, bool]


METHODS = ("IRM", "VREx", "EQRM")
ROWS = (
    TableRow("σ1 (σY > σ2)", True, True, True, (True, True, True), (False, False, False)),
    TableRow("σ2", True, True, True, (True, True, True), (True, True, True)),
    TableRow("σY", False, False, True, (True, False, False), (True, False, False)),
)
