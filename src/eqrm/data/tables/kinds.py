"""The kind of a column: numbers, dates or categories.

Every column of a CSV file arrives as text. It holds numbers if all its values are numbers, and
dates if all are dates; if most are, the others are reported as an error; otherwise it holds
categories. Dates are written in ISO's form, or as 30.04.2024, 30/04/2024 or 04/30/2024: with dots
the day comes first, and otherwise the column as a whole must tell. A model keeps the form that its
training rows had.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, MutableMapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.columns import (
    MISSING_NUMBERS,
    Column,
    is_dates,
    is_numbers,
    is_padded,
    number_of,
)
from eqrm.data.times import MOMENT, moment_of
from eqrm.errors import DomainDataError, EqrmWarning, Setting
from eqrm.text import listed

TRUTH = {"true": 1.0, "false": 0.0}
"""Booleans, in lower case. Read as numbers, as in Parquet files."""
NUMBER, CATEGORY, DATE, TARGET, DOMAIN = "number", "category", "date", "target", "domain"
FORMS = ("day.month.year", "day/month/year", "month/day/year", "day-month-year", "month-day-year")
SAMPLE = 1000
_WITH_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_WRITTEN = re.compile(
    r"(?P<one>\d{1,2})(?P<separator>[./-])(?P<two>\d{1,2})(?P=separator)(?P<year>\d{4})"
    r"(,?[ T](?P<hour>\d{1,2})(?P<rest>:\d{2}(:\d{2}(\.\d{1,9})?)?))?"
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_UNREAD = re.compile(
    r"(\d{4}([./])\d{1,2}\2\d{1,2}|\d{1,2}([./-]) ?\d{1,2}\3 ?\d{4}"
    rf"|\d{{1,2}}\.?[ -]{_MONTH}\.?[ -]\d{{4}}|{_MONTH}\.? \d{{1,2}},? \d{{4}})(\W.*)?",
    re.IGNORECASE,
)
"""2013/01/31, 31.01.2013 with a time in words, 31 Jan 2013, January 31, 2013."""


def column_of(
    name: str,
    column: Column,
    kind: str = "",
    missing: Collection[str] = (),
    forms: MutableMapping[str, str] | None = None,
    *,
    typed_text: bool = False,
) -> Column:
    """A column as its kind says ("": as its values say).

    ``missing`` are values that mean a missing one. ``forms`` holds the forms of dates that are not
    ISO's by column, and takes those that are found. In a frame text is text (``typed_text``): it
    holds numbers only if the kind says so.
    """
    if is_numbers(column):
        column = _without_codes(column, missing)
        return _as_text(column) if kind == CATEGORY else column
    if is_dates(column):
        return column
    text = _without(column, missing)
    if kind == CATEGORY or (typed_text and kind == TARGET):
        return text
    if kind != DATE and (kind or not typed_text):
        numbers = _numbers(name, text, kind)
        if numbers is not None:
            return _without_codes(numbers, missing)
    if kind in ("", DATE):
        dates = _dates(name, text, kind, {} if forms is None else forms)
        if dates is not None:
            return dates
    return text


def _numbers(name: str, text: NDArray[np.str_], kind: str) -> Column | None:
    """The numbers in a column of text, None if it holds none; raises if it should, or mostly."""
    distinct, place = np.unique(text, return_inverse=True)
    values = distinct.tolist()
    parsed = [number_of(value) for value in values]
    if kind != TARGET and (truth := _truth(values)) is not None:
        parsed = truth
    elif None in parsed:
        parsed = with_decimal_commas(name, values) or parsed
    if None not in parsed:
        return np.array(parsed, dtype=np.float64)[place]
    wrong = np.array([number is None for number in parsed])
    # An identifier such as 007 is not a number: as one, it would be the same as 7.
    padded = any(map(is_padded, distinct[wrong].tolist()))
    numbers = np.isfinite(np.array(parsed, dtype=np.float64))[place].sum()
    if kind == NUMBER or (numbers > wrong[place].sum() and not padded):
        raise _others(name, NUMBER, f"{NUMBER}s" if kind == NUMBER else "", distinct, wrong, place)
    return None


def _dates(
    name: str, text: NDArray[np.str_], kind: str, forms: MutableMapping[str, str]
) -> Column | None:
    """The dates in a column of text, None if it holds none; raises if it should, or mostly."""
    form = forms.get(name, "")
    dates = dates_in(text, form)
    if dates is not None:
        return dates
    if not kind and (found := written_dates(name, text)) is not None:
        dates, forms[name] = found
        return dates
    distinct, place = np.unique(text, return_inverse=True)
    bare = [value.strip() for value in distinct.tolist()]
    given = np.array([value.lower() not in MISSING_NUMBERS for value in bare])
    if kind and not given.any():
        return np.full(len(text), "NaT", dtype=MOMENT)
    dated = np.array([moment_in(v, form) is not None if kind else is_dated(v) for v in bare])
    wrong = given & ~dated
    if kind or (wrong.any() and dated[place].sum() > wrong[place].sum()):
        trained = f"{DATE}s, written as {form or 'year-month-day'}" if kind else ""
        raise _others(name, DATE, trained, distinct, wrong, place)
    present = [value.strip() for value in _sample(text) if value.strip()]
    shown = [v for v in present if moment_of(v) is None and (is_dated(v) or _UNREAD.fullmatch(v))]
    if shown and 2 * sum(is_dated(v) or bool(_UNREAD.fullmatch(v)) for v in present) > len(present):
        raise _unclear(name, shown[0], "in several forms, or in one that is not read")
    return None


def _others(
    name: str, what: str, trained: str, distinct: Column, wrong: Column, place: Column
) -> DomainDataError:
    """What to do about values of another kind than most, or than those of training."""
    values, in_rows = distinct[wrong].tolist(), wrong[place]
    where = (
        f"{listed(values, 3)}, in {in_rows.sum():,} of {len(in_rows):,} rows (first: row "
        f"{np.flatnonzero(in_rows)[0] + 1:,})"
    )
    if trained:
        return DomainDataError(
            f"Column {name!r} must hold {what}s, but holds {where}. Convert them to {trained}; "
            "leave missing values empty."
        )
    return DomainDataError(
        f"Column {name!r} holds {what}s, but also {where}. If that means missing, set "
        f"{Setting('missing_values', [values[0]])}; or read the column as categories ("
        f"{Setting('categories', [name])})."
    )


def with_decimal_commas(name: str, distinct: list[str]) -> list[float | None] | None:
    """Numbers written as 8,4, with a warning; None if the values are not such numbers.

    Where every comma may as well separate thousands, as in 1,234, nobody can tell: an error.
    """
    bare = [value.strip() for value in distinct]
    present = [value for value in bare if value.lower() not in MISSING_NUMBERS]
    commas = [value for value in present if "," in value]
    if not commas or not all(_WITH_COMMA.fullmatch(value) for value in present):
        return None
    told = next((value for value in commas if not _THOUSANDS.fullmatch(value)), None)
    if told is None:
        raise DomainDataError(
            f"Column {name!r} holds numbers such as {commas[0]!r}, in which the comma may separate "
            "thousands or decimals. Write them with a decimal point and no separators; or read the "
            f"column as categories ({Setting('categories', [name])}), or leave it out ("
            f"{Setting('drop', [name])})."
        )
    _tell(f"Column {name!r} holds numbers with decimal commas, such as {told!r}", "numbers")
    return [number_of(value.replace(",", ".")) for value in bare]


def written_dates(name: str, text: NDArray[np.str_]) -> tuple[Column, str] | None:
    """Dates of another form than ISO's and this form, with a warning; None if there are others."""
    shown = next((value for value in _sample(text) if _WRITTEN.fullmatch(value.strip())), None)
    if shown is None:
        return None
    found = {form: dates for form in FORMS if (dates := dates_in(text, form)) is not None}
    if not found:
        return None
    if len(found) > 1:
        why = "in which day and month cannot be told apart: no row has a number above 12 in them"
        raise _unclear(name, shown, why)
    ((form, dates),) = found.items()
    _tell(f"Column {name!r} holds dates written as {form}, such as {shown!r}", "dates")
    return dates, form


def dates_in(text: NDArray[np.str_], form: str = "") -> Column | None:
    """The dates in a column of text, NaT where missing; None if some of it is anything else."""
    distinct, place = np.unique(text, return_inverse=True)
    moments, dated = [], False
    for value in distinct.tolist():
        missing = value.strip().lower() in MISSING_NUMBERS
        moment = moment_of(None) if missing else moment_in(value, form)
        if moment is None:
            return None
        dated = dated or not missing
        moments.append(moment)
    return np.array(moments, dtype=MOMENT)[place] if dated else None


def moment_in(text: str, form: str) -> np.datetime64 | None:
    """The moment of a date that is written in this form or in ISO's; None of anything else."""
    iso = moment_of(text)
    found = _WRITTEN.fullmatch(text.strip())
    if iso is not None or found is None or found["separator"] not in form:
        return iso
    day, month = found["one"], found["two"]
    if form.startswith("month"):
        day, month = month, day
    time = f"T{found['hour']:0>2}{found['rest']}" if found["hour"] else ""
    try:
        return np.datetime64(f"{found['year']}-{month:0>2}-{day:0>2}{time}", "us")
    except ValueError:
        return None


def is_dated(text: str) -> bool:
    """Whether a text looks like a date of a form that is read."""
    return moment_of(text) is not None or _WRITTEN.fullmatch(text.strip()) is not None


def _unclear(name: str, value: str, why: str) -> DomainDataError:
    return DomainDataError(
        f"Column {name!r} holds dates such as {value!r}, {why}. Write all of them as 2013-01-31; "
        f"or read them as categories ({Setting('categories', [name])}), or leave the column out ("
        f"{Setting('drop', [name])})."
    )


def _tell(found: str, read_as: str) -> None:
    warnings.warn(f"{found}. They are read as {read_as}.", EqrmWarning, stacklevel=2)


def _sample(text: NDArray[np.str_]) -> list[str]:
    return list(text[:: max(1, len(text) // SAMPLE)].tolist())


def _as_text(numbers: Column) -> NDArray[np.str_]:
    """Numbers as a CSV file has them."""
    texts = [
        "" if np.isnan(each) else str(int(each)) if each.is_integer() else repr(each)
        for each in numbers.tolist()
    ]
    return np.array(texts, dtype=str)


def _without_codes(numbers: Column, missing: Collection[str]) -> Column:
    """The numbers without those that mean a missing one, however these are written."""
    codes = [number for each in missing if (number := number_of(each)) is not None]
    return np.where(np.isin(numbers, codes), np.nan, numbers) if codes else numbers


def _without(text: NDArray[Any], missing: Collection[str]) -> NDArray[np.str_]:
    """The text without values that mean a missing one."""
    if not missing:
        return text
    means = np.isin(np.char.lower(np.char.strip(text)), [each.strip().lower() for each in missing])
    return np.where(means, "", text)


def _truth(distinct: list[str]) -> list[float | None] | None:
    """1 and 0 if all values are booleans or missing, otherwise None."""
    bare = [value.strip().lower() for value in distinct]
    present = {*bare} - MISSING_NUMBERS
    if not present or not present <= TRUTH.keys():
        return None
    return [TRUTH.get(value, float("nan")) for value in bare]
