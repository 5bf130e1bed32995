"""Numbers that a user sets, checked in one place."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from eqrm.errors import SettingError


def check_whole(value: Any, name: str, least: int) -> int:
    """A whole number of at least ``least``, such as a seed or a number of rows.

    >>> check_whole(3, "rows", 1)
    3
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SettingError(f"{name} must be a whole number, but it is {value!r}.")
    if value < least:
        raise SettingError(f"{name} must be at least {least}, but it is {value}.")
    return int(value)


def is_number(value: Any) -> bool:
    """Whether it is a finite real number, of Python or of numpy."""
    if isinstance(value, bool):
        return False
    return isinstance(value, Real) and math.isfinite(float(value))


def check_amount(value: Any, name: str) -> float:
    """A finite number that is not negative.

    >>> check_amount(0.5, "ridge")
    0.5
    """
    if not is_number(value) or value < 0:
        raise SettingError(f"{name} must be finite and not negative, but it is {value!r}.")
    return float(value)
