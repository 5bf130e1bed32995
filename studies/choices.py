"""Settings of a study that users choose (``--set``): a name out of several, or a number."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from eqrm.errors import SettingError


def one_of(value: object, choices: Iterable[str], what: str) -> str:
    """The value, if it is one of the choices; otherwise the nearest of them is suggested.

    >>> one_of("tf23", ["float16", "tf32"], "products")
    Traceback (most recent call last):
    ...
    eqrm.errors.SettingError: Unknown products 'tf23'. Did you mean 'tf32'? Choose from: ...
    """
    known = list(choices)
    if isinstance(value, str) and value in known:
        return value
    near = difflib.get_close_matches(str(value).lower(), known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise SettingError(f"Unknown {what} {value!r}. {hint}Choose from: {', '.join(known)}.")


def whole_number(value: object, name: str, least: int = 1) -> int:
    """The value, if it is an integer of at least so much.

    >>> whole_number(0, "workers")
    Traceback (most recent call last):
    ...
    eqrm.errors.SettingError: workers must be an integer of at least 1, got 0.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise SettingError(f"{name} must be an integer of at least {least}, got {value!r}.")


def number_at_least(value: object, name: str, least: float) -> float:
    """The value, if it is a number of at least so much."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= least:
        return value
    raise SettingError(f"{name} must be a number of at least {least:g}, got {value!r}.")


def true_or_false(value: object, name: str) -> bool:
    """The value, if it is one of both."""
    if isinstance(value, bool):
        return value
    raise SettingError(f"{name} must be true or false, got {value!r}.")
