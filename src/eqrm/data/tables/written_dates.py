"""Dates in another form than ISO's: 30.04.2024, 30/04/2024 or 04/30/2024.

With dots the day comes first. With slashes or hyphens it may come first or second, so the column as
a whole must tell: a number above 12 in exactly one of the two places. A model keeps the form that
its training rows had.
"""

from __future__ import annotations

import re
import warnings
from functools import partial

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.columns import MISSING_NUMBERS, Column, dates_in
from eqrm.data.times import moment_of
from eqrm.errors import DomainDataError, EqrmWarning, Setting

FORMS = (
    "day.month.year",
    *("day/month/year", "month/day/year"),
    *("day-month-year", "month-day-year"),
)
SAMPLE = 1000
_WRITTEN = re.compile(
    r"(?P<one>\d{1,2})(?P<separator>[./-])(?P<two>\d{1,2})(?P=separator)(?P<year>\d{4})"
    r"(,?[ T](?P<hour>\d{1,2})(?P<rest>:\d{2}(:\d{2}(\.\d{1,9})?)?))?"
)
_SHORT_YEAR = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2\d{2}(\s.*)?")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_OTHER = re.compile(
    r"(\d{4}([./])\d{1,2}\2\d{1,2}|\d{1,2}([./-]) ?\d{1,2}\3 ?\d{4}"
    rf"|\d{{1,2}}\.?[ -]{_MONTH}\.?[ -]\d{{4}}|{_MONTH}\.? \d{{1,2}},? \d{{4}})(\W.*)?",
    re.IGNORECASE,
)
"""2013/01/31, 31.01.2013 with a time in words, 31 Jan 2013, January 31, 2013."""


def moment_in(text: str, form: str) -> np.datetime64 | None:
    """The moment of a date that is written in this form or in ISO's; None of anything else.

    >>> moment_in("30.04.2024 17:45", "day.month.year"), moment_in("30/04/2024", "month/day/year")
    (np.datetime64('2024-04-30T17:45:00.000000'), None)
    """
    iso = moment_of(text)
    if iso is not None or not form:
        return iso
    found = _WRITTEN.fullmatch(text.strip())
    if found is None or found["separator"] not in form:
        return None
    day, month = found["one"], found["two"]
    if form.startswith("month"):
        day, month = month, day
    time = f"T{found['hour']:0>2}{found['rest']}" if found["hour"] else ""
    try:
        return np.datetime64(f"{found['year']}-{month:0>2}-{day:0>2}{time}", "us")
    except ValueError:
        return None


def is_dated(text: str) -> bool:
    """Whether a text looks like a date with a year of four digits, of whatever form.

    >>> is_dated("2013-01-31"), is_dated("31/01/2013"), is_dated("31/01/13"), is_dated("soon")
    (True, True, False, False)
    """
    return moment_of(text) is not None or _WRITTEN.fullmatch(text.strip()) is not None


def dates_as(text: NDArray[np.str_], form: str) -> Column | None:
    """The dates in a column whose form is known, as :func:`dates_in` gives them."""
    return dates_in(text, partial(moment_in, form=form))


def written_dates(name: str, text: NDArray[np.str_]) -> tuple[Column, str] | None:
    """Dates and their form, with a warning; None if the values are not all such dates.

    Dates of which nobody can tell day and month are an error.

    >>> written_dates("seen", np.array(["03/04/2024"]))
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: Column 'seen' holds dates such as '03/04/2024', in which ...
    """
    if not any(_WRITTEN.fullmatch(value.strip()) for value in _sample(text)):
        return None
    bare = [value.strip() for value in np.unique(text).tolist()]
    present = [value for value in bare if value.lower() not in MISSING_NUMBERS]
    found = [_WRITTEN.fullmatch(value) for value in present]
    matches = [match for match in found if match is not None]
    separators = {match["separator"] for match in matches}
    if len(matches) < len(present) or len(separators) > 1:
        return None
    form = _form_of(name, matches, separators.pop())
    dates = dates_as(text, form)
    if dates is None:
        wrong = next(value for value in present if moment_in(value, form) is None)
        raise _refusal(name, wrong, f"which is no date if {form} is meant, as in other rows")
    warnings.warn(
        f"Column {name!r} holds dates written as {form}, such as {present[0]!r}. They are read as "
        "dates.",
        EqrmWarning,
        stacklevel=2,
    )
    return dates, form


def _form_of(name: str, matches: list[re.Match[str]], separator: str) -> str:
    """Whether the day is first or second."""
    if separator == ".":
        return FORMS[0]
    first = next((m[0] for m in matches if int(m["one"]) > 12), None)
    second = next((m[0] for m in matches if int(m["two"]) > 12), None)
    if first is None and second is None:
        why = "in which day and month cannot be told apart: no row has a number above 12 in them"
        raise _refusal(name, matches[0][0], why)
    if first is not None and second is not None:
        raise _refusal(name, first, f"but also {second!r}: day and month change places")
    parts = ["month", "day"] if first is None else ["day", "month"]
    return separator.join([*parts, "year"])


def refuse_other_dates(name: str, text: NDArray[np.str_]) -> None:
    """Raise if most values are dates in several forms, or in one that is not read.

    >>> refuse_other_dates("seen", np.array(["2013/01/31"]))
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: Column 'seen' holds dates such as '2013/01/31', in a form that ...
    >>> refuse_other_dates("version", np.array(["3.6.27", "2.0.11"]))
    """
    present = [value.strip() for value in _sample(text) if value.strip()]
    short = [each for value in present if (each := _SHORT_YEAR.fullmatch(value)) is not None]
    if not all(map(_may_be_day_and_month, short)):
        return  # versions, and the like
    others = [v for v in present if not is_dated(v) and _OTHER.fullmatch(v) is not None]
    dated = [v for v in present if is_dated(v)]
    if 2 * (len(dated) + len(short) + len(others)) > len(present):
        if short:
            raise _refusal(name, short[0][0], "with a year of two digits")
        if others:
            raise _refusal(name, others[0], "in a form that is not read")
        raise _refusal(name, dated[0], "beside dates in other forms")


def _may_be_day_and_month(found: re.Match[str]) -> bool:
    low, high = sorted((int(found[1]), int(found[3])))
    return 1 <= low <= 12 and high <= 31


def _refusal(name: str, value: str, why: str) -> DomainDataError:
    return DomainDataError(
        f"Column {name!r} holds dates such as {value!r}, {why}. Write all of them as 2013-01-31; "
        f"or read them as categories ({Setting('categories', [name])}), or leave the column out "
        f"({Setting('drop', [name])})."
    )


def _sample(text: NDArray[np.str_]) -> list[str]:
    found: list[str] = text[:: max(1, len(text) // SAMPLE)].tolist()
    return found
