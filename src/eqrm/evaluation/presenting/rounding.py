"""Numbers with as many digits as their uncertainty leaves."""

from __future__ import annotations

import math

PLAIN_DIGITS = 3
MOST_DECIMALS = 12


def decimals(value: float, error: float | None) -> int:
    """How many decimals a number deserves, given its standard error.

    The rule of the Particle Data Group: of the error's first three digits, 100 to 354 keep two
    digits, 355 to 949 keep one, and from 950 on the error counts as 1000. Without an error,
    three digits of the number itself.

    >>> decimals(0.8273, 0.0119), decimals(0.827, 0.0367), decimals(827.3, 94.0)
    (3, 2, -1)
    >>> decimals(0.00012345, None)
    6
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
    """A number with so many decimals; with a negative number of them, whole tens, hundreds, ….

    >>> rounded(0.8273, 3), rounded(827.3, -1), rounded(-0.0001, 2)
    ('0.827', '830', '0.00')
    """
    if not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1e15 or (value != 0.0 and places > MOST_DECIMALS - 1):
        return f"{value:.3g}"
    text = f"{round(value, places):.{max(places, 0)}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value)))
