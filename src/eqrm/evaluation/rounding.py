"""Numbers as people read them: digits that their uncertainty supports, percent, safe rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

PLAIN_DIGITS = 3
MOST_DECIMALS = 12
EQUAL = 1e-12
"""Risks that differ by less, relatively, count as equal."""


def decimals(value: float, error: float | None) -> int:
    """How many decimals a number deserves, given its standard error.

    The rule of the Particle Data Group: of the error's first three digits, 100 to 354 keep two
    digits, 355 to 949 keep one, and from 950 on the error counts as 1000. Without an error,
    three digits of the number itself.
    """
    if error is None or not math.isfinite(error) or error <= 0.0:
        if value == 0.0 or not math.isfinite(value):
            return PLAIN_DIGITS
        return min(PLAIN_DIGITS - 1 - _exponent(value), MOST_DECIMALS)
    exponent = _exponent(error)
    if exponent < -MOST_DECIMALS:
        return MOST_DECIMALS
    leading = round(error / 10.0**exponent * 100.0)
    digits = 2 if leading <= 354 else 1
    if leading >= 950:
        exponent, digits = exponent + 1, 2
    return min(digits - 1 - exponent, MOST_DECIMALS)


def rounded(value: float, places: int) -> str:
    """A number with this many decimals; negative ones round to tens, hundreds, …."""
    if not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1e15 or (value != 0.0 and places > MOST_DECIMALS - 1):
        return f"{value:.3g}"
    text = f"{round(value, places):.{max(places, 0)}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def rounded_by_error(error: float | None, value: float, *others: float) -> list[str]:
    """A value, and numbers that belong to it, all with the decimals that its error supports."""
    places = decimals(value, error)
    return [rounded(number, places) for number in (value, *others)]


def rounded_up(risk: float, digits: int = 4) -> str:
    """A risk with four significant digits, never less than the risk itself.

    >>> rounded_up(0.71231), rounded_up(-0.71239), rounded_up(0.0), rounded_up(0.5)
    ('0.7124', '-0.7123', '0', '0.5')
    """
    if abs(risk) < 1e-300 or not math.isfinite(risk):
        return f"{risk:.17g}"
    unit = 10.0 ** (_exponent(risk) + 1 - digits)
    return f"{math.ceil(risk / unit - 1e-9) * unit:.{digits}g}"


def as_percent(share: float) -> str:
    """A share in percent.

    >>> as_percent(0.95), as_percent(0.99999)
    ('95%', '99.999%')
    >>> as_percent(1 - 1e-13)
    '99.99999999999%'
    """
    text = f"{100.0 * share:.10g}"
    return f"{100.0 * share:.16g}%" if text == "100" and share < 1.0 else f"{text}%"


def as_needed(domains: float) -> str:
    """How many domains are needed; there may be more of them than a float can hold."""
    return f"{domains:.6g}" if domains < math.inf else "more than 1e300"


def percent_rounded_down(share: float) -> str:
    """A share in percent with two decimals, never more than the share itself.

    >>> percent_rounded_down(0.901855), percent_rounded_down(0.9)
    ('90.18%', '90%')
    """
    return f"{math.floor(1e4 * share + 1e-9) / 100.0:.10g}%"


def significant(numbers: Any, digits: int = 5) -> Any:
    """Numbers cut to a few significant digits, to keep a file small: a float, or a list."""
    values = np.asarray(numbers, dtype=np.float64).tolist()
    if isinstance(values, float):
        return float(f"{values:.{digits}g}")
    return [float(f"{value:.{digits}g}") for value in values]


def digits_of_spread(risks: Any, digits: int = 5) -> int:
    """Significant digits that tell risks apart: ``digits`` of their spread, not of their size.

    >>> digits_of_spread([0.1, 0.4]), digits_of_spread([1000.001, 1000.009])
    (5, 10)
    """
    if are_equal(risks):
        return digits
    spread, largest = float(np.ptp(risks)), float(np.abs(risks).max())
    return min(17, digits + max(0, math.floor(math.log10(largest / spread))))


def are_equal(risks: Any) -> bool:
    """Whether risks are the same up to the rounding of their sums."""
    return float(np.ptp(risks)) <= EQUAL * float(np.abs(risks).max())


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value)))
