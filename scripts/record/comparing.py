"""Compare a recorded text with the same text made anew.

Everything must be equal, with one exception. A number with a decimal point or an exponent that is
written with at least 6 significant digits, here or there, may differ by a relative 4e-6 or an
absolute 1e-7: another processor or another version of BLAS adds up in another order, and networks
are trained on what comes out. Numbers for people have fewer digits and are compared digit by digit,
unless both are below 1e-12 and not 0: such numbers are rounding errors themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

RELATIVE = 4e-6
ABSOLUTE = 1e-7
ROUNDING = 1e-12
MANY_DIGITS = 6
SHOWN = 120
"""Characters of a long line that are shown."""
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Difference:
    """One line that is not the same; ``None`` where there is no such line."""

    name: str
    line: int
    expected: str | None
    got: str | None

    def __str__(self) -> str:
        expected, got = self.expected, self.got
        if expected is not None and got is not None and max(len(expected), len(got)) > SHOWN:
            pairs = enumerate(zip(expected, got, strict=False))
            same = next((place for place, (old, new) in pairs if old != new), 0)
            expected, got = _shortened(expected, same), _shortened(got, same)
        place = f"{self.name}, line {self.line}"
        return f"{place}\n  expected: {_told(expected)}\n  got:      {_told(got)}"


def _told(line: str | None) -> str:
    return "no such line" if line is None else line[: 2 * SHOWN]


def _shortened(line: str, same: int) -> str:
    """The part of a long line around the place where it begins to differ."""
    start = max(0, same - SHOWN // 2)
    end = start + SHOWN
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")


def is_long(number: str) -> bool:
    """Whether a number has a decimal point or an exponent, and many digits.

    >>> is_long("0.123456"), is_long("0.12345"), is_long("1234567"), is_long("1.23456e-9")
    (True, False, False, True)
    """
    mantissa = re.split("[eE]", number)[0]
    if mantissa == number and "." not in number:
        return False
    return len(re.sub(r"[-+.]", "", mantissa).lstrip("0")) >= MANY_DIGITS


def same_number(expected: str, got: str) -> bool:
    """Whether two numbers are equal: digit by digit, or nearly where one is long."""
    if expected == got:
        return True
    old, new = float(expected), float(got)
    if not (is_long(expected) or is_long(got)):
        return 0.0 < abs(old) < ROUNDING and 0.0 < abs(new) < ROUNDING
    return math.isclose(old, new, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def same_line(expected: str, got: str) -> bool:
    """Whether two lines have the same words and, as above, the same numbers."""
    if expected == got:
        return True
    if NUMBER.split(expected) != NUMBER.split(got):
        return False
    pairs = zip(NUMBER.findall(expected), NUMBER.findall(got), strict=True)
    return all(same_number(*pair) for pair in pairs)


def _key(line: str) -> str:
    """The line without the digits that may differ, by which lines are aligned."""
    return NUMBER.sub(lambda found: "#" if is_long(found[0]) else found[0], line)


def differences(name: str, expected: str, got: str) -> Iterator[Difference]:
    """Every line that differs, by its number in the record."""
    before, after = expected.split("\n"), got.split("\n")
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    keys = [_key(line) for line in old], [_key(line) for line in new]
    for _, start, end, new_start, new_end in SequenceMatcher(None, *keys, False).get_opcodes():
        for offset in range(max(end - start, new_end - new_start)):
            was = old[start + offset] if start + offset < end else None
            now = new[new_start + offset] if new_start + offset < new_end else None
            if was is None or now is None or not same_line(was, now):
                yield Difference(name, first + min(start + offset, end) + 1, was, now)


def _alike(before: list[str], after: list[str]) -> int:
    """How many lines are the same, from the first on."""
    pairs = enumerate(zip(before, after, strict=False))
    return next(
        (place for place, pair in pairs if not same_line(*pair)), min(len(before), len(after))
    )
