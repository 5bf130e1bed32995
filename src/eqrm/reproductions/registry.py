"""Which reproductions there are; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from eqrm.errors import SettingError, did_you_mean
from eqrm.reproductions.base import Reproduction

REPRODUCTIONS = {
    "linear-regression": ("eqrm.reproductions.linear_regression.run", "LinearRegression"),
    "causal-recovery": ("eqrm.reproductions.causal_recovery.run", "CausalRecovery"),
    "linear-sem": ("eqrm.reproductions.linear_sem.run", "LinearSEM"),
}


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
    if name not in REPRODUCTIONS:
        hint = did_you_mean(name, REPRODUCTIONS)
        raise SettingError(f"There is no reproduction {name!r}. {hint}")
    module, class_name = REPRODUCTIONS[name]
    found = getattr(import_module(module), class_name)()
    if not isinstance(found, Reproduction):
        raise TypeError(f"{class_name} is not a Reproduction")
    return found
