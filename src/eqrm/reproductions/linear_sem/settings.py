"""Sizes, tasks, grids and tolerances of the linear-SEM tasks."""

from __future__ import annotations

from dataclasses import dataclass

from eqrm.level import Level

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
class Task:
    """One of eight: hidden confounders or not, σY changing or not, features rotated or not."""

    hidden: bool
    heteroskedastic: bool
    scrambled: bool

    @property
    def name(self) -> str:
        """F or P (fully, partially observed), O or E (homo-, heteroskedastic), U or S.

        >>> Task(hidden=True, heteroskedastic=False, scrambled=True).name
        'POS'
        """
        return "FP"[self.hidden] + "OE"[self.heteroskedastic] + "US"[self.scrambled]


TASKS = tuple(
    Task(hidden, heteroskedastic, scrambled)
    for hidden in (False, True)
    for heteroskedastic in (False, True)
    for scrambled in (False, True)
)
METHODS = ("ERM", "IRM", "VREx", "EQRM")


@dataclass(frozen=True)
class Settings:
    """The published size: 1000 rows a domain, 10 repetitions.

    ``same`` bounds what a rotation of the features may change, ``near`` the distance of a
    coefficient from its limit, with population moments.
    """

    rows: int = 1000
    repetitions: int = 10
    same: float = 1e-4
    near: float = 0.02


SETTINGS = {"full": Settings(), "quick": Settings(repetitions=2)}
