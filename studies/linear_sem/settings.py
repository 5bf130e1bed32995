"""The linear-SEM tasks: sizes, tasks, grids and tolerances, and what must come out.

Fully observed tasks are solved by hand. All coefficients of X are a, all of Z are b, and with
s = a + b the risk at scale e is five times

    homoskedastic:    2e²(s − 1)² + (b − 1)² + b²e²
    heteroskedastic:  2e²(s − 1)² + (b − 1)²e² + b².

Invariant risk over e needs the factor of e² to vanish: (a, b) = (1, 0), the causal predictor, in
the first and (0, 1), the anti-causal one, in the second. Least squares has s = 1 and
b = 1/(1 + mean e²) or mean e²/(1 + mean e²). IRM's condition E[f(f − Y)] = 0 at every e has the
causal predictor as its solution of least risk in both.

For partially observed tasks there is no closed form; the claims are those of appendix G.1.2,
which refers to the experiments of the papers on IRM and VREx and prints no number itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqrm import Level

# The IRM paper, §5.1, and its published code: the scale of the noise in each domain.
SCALES = (0.2, 2.0, 5.0)
FEATURES = 10

# reg in {1e-1 … 1e-5} of that code, as weights (1 − reg)/reg; its reg = 0 has no finite weight.
IRM_WEIGHTS = (9.0, 99.0, 999.0, 9999.0, 99999.0)
# Ours: the paper on VREx and this paper name no grid for these tasks.
VREX_WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e4)
EQRM_LEVELS = (
    Level(0.75),
    Level(0.9),
    Level(0.99),
    Level(0.9999),
    *(Level(log_tail=tail) for tail in (-100.0, -1e3, -1e4)),
)
# How far the limits are followed, from population moments.
LIMIT_WEIGHTS = (1.0, 1e2, 1e4, 1e6, 1e8)
LIMIT_LEVELS = (Level(0.9), *(Level(log_tail=tail) for tail in (-1e2, -1e4, -1e6)))


@dataclass(frozen=True)
class SemTask:
    """One of eight: hidden confounders or not, σY changing or not, features rotated or not."""

    hidden: bool
    heteroskedastic: bool
    scrambled: bool

    @property
    def name(self) -> str:
        """F or P (fully, partially observed), O or E (homo-, heteroskedastic), U or S."""
        return "FP"[self.hidden] + "OE"[self.heteroskedastic] + "US"[self.scrambled]


TASKS = tuple(
    SemTask(hidden, heteroskedastic, scrambled)
    for hidden in (False, True)
    for heteroskedastic in (False, True)
    for scrambled in (False, True)
)
METHODS = ("ERM", "IRM", "VREx", "EQRM")


@dataclass(frozen=True)
class SemSettings:
    """The published size: 1000 rows a domain, 10 repetitions.

    ``same`` bounds what a rotation of the features may change, ``near`` the distance of a
    coefficient from its limit, with population moments.
    """

    rows: int = 1000
    repetitions: int = 10
    same: float = 1e-4
    near: float = 0.02


SIZES = {"full": SemSettings(), "quick": SemSettings(repetitions=2)}

CLOSED_FORM = "closed form in `settings.py`"
APPENDIX = "appendix G.1.2: invariant risks need homoskedasticity, invariant functions do not"
ROTATION = "the risks of a predictor do not depend on the axes its features are written in"


def expected_limit(method: str, heteroskedastic: bool) -> tuple[float, float]:
    """(a, b) of a method with population moments, for a fully observed task."""
    if method == "ERM":
        size = sum(scale**2 for scale in SCALES) / len(SCALES)
        effect = size / (1 + size) if heteroskedastic else 1 / (1 + size)
        return 1 - effect, effect
    if heteroskedastic and method in ("VREx", "EQRM"):
        return 0.0, 1.0
    return 1.0, 0.0
