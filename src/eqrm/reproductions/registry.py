"""Which reproductions exist; each is imported when it is asked for."""

from __future__ import annotations

from eqrm.registry import Registry
from eqrm.reproductions.base import Reproduction

REPRODUCTIONS = Registry[type[Reproduction]](
    "reproduction",
    {
        "linear-regression": "eqrm.reproductions.linear_regression.run:LinearRegression",
        "causal-recovery": "eqrm.reproductions.causal_recovery.run:CausalRecovery",
        "linear-sem": "eqrm.reproductions.linear_sem.run:LinearSEM",
    },
)


def reproduction_names() -> tuple[str, ...]:
    """The names that :func:`reproduction` knows.

    >>> reproduction_names()
    ('linear-regression', 'causal-recovery', 'linear-sem')
    """
    return tuple(REPRODUCTIONS)


def reproduction(name: str) -> Reproduction:
    """The reproduction of that name.

    >>> reproduction("causal-recovery").reproduces
    'Appendix G.1.2: the table and the seven cases of changing σ'
    """
    return REPRODUCTIONS.load(name)()
