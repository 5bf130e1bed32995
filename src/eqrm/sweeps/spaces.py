"""Where hyperparameters come from: spaces and grids of a plan, spaces that objectives declare.

A draw depends on the plan's seed, dataset, objective, draw number and the field that is drawn,
and on nothing else: another field, objective or trial in the plan leaves it as it is.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqrm.checks import FLAG, is_number, refuse_unknown
from eqrm.errors import SettingError
from eqrm.objectives.hyperparameters import (
    ChoiceSpace,
    LogUniformSpace,
    SearchSpace,
    UniformSpace,
)

Space = SearchSpace[Any]
HYPERPARAMETERS = "objective.hyperparameters"
MOST_TRIES = 10_000


def seed_of(*parts: object) -> int:
    """A seed that follows from all of the parts, and differs where any of them does."""
    digest = hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def space_of(given: Any, path: str) -> Space:
    """The space that a plan describes (docs/sweeps.md); ``path`` names it in errors."""
    if isinstance(given, list) and given:
        return ChoiceSpace(tuple(given))
    if not isinstance(given, Mapping) or not given:
        raise SettingError(
            f"{path} must be a list of values, {{uniform: [low, high]}} or "
            f"{{log-uniform: [low, high]}}, got {given!r}."
        )
    refuse_unknown(map(str, given), ("uniform", "log-uniform", "integer"), path, "kind of range")
    logarithmic = "log-uniform" in given
    if logarithmic == ("uniform" in given):
        raise SettingError(f"{path} needs one of uniform and log-uniform.")
    if not logarithmic and "integer" in given:
        raise SettingError(f"{path}: integer belongs to log-uniform. List the integers instead.")
    limits = given["log-uniform" if logarithmic else "uniform"]
    if not isinstance(limits, list) or len(limits) != 2 or not all(map(is_number, limits)):
        raise SettingError(f"{path} needs two numbers, [low, high], got {limits!r}.")
    low, high = limits
    if low >= high or (logarithmic and low <= 0):
        above = " above 0" if logarithmic else ""
        raise SettingError(f"{path} needs numbers{above} with low < high, got {limits!r}.")
    if not logarithmic:
        return UniformSpace(low, high)
    whole = bool(FLAG.check(given.get("integer", False), f"{path}.integer"))
    return LogUniformSpace(10, math.log10(low), math.log10(high), whole)


def grid_values(given: Any, path: str) -> list[Any]:
    """The values of one field of a grid."""
    if not isinstance(given, list) or not given:
        raise SettingError(f"{path} must be a list of values, got {given!r}.")
    for number, value in enumerate(given):
        if value in given[:number]:
            raise SettingError(f"{path} lists {value!r} twice. List it once.")
    return given


def drawn(spaces: Mapping[str, Space], key: Sequence[object]) -> dict[str, Any]:
    """A value from each space, which follows from the key and the name of the field."""
    return {
        path: space.sample(np.random.default_rng(seed_of(*key, path)))
        for path, space in spaces.items()
    }


def drawn_phases(
    spaces: Mapping[str, Space], key: Sequence[object], fixed: int, steps: int
) -> dict[str, Any]:
    """A draw for phases that leaves at least a step for the last one.

    ``fixed`` are the steps of the phases that are not drawn, ``steps`` those of the run. A draw
    that is too long is drawn again: the law is that of draws that fit.
    """
    for attempt in range(MOST_TRIES):
        found = drawn(spaces, (*key, attempt))
        taken = fixed + sum(value for path, value in found.items() if path.endswith(".steps"))
        if taken < steps:
            return found
    raise SettingError(
        f"The recommended phases do not fit into {steps} steps. Train longer, or use phases: "
        "single."
    )
