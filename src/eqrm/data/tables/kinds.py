"""The kind of a column of text: numbers, dates or categories.

Every column of a CSV file arrives as text. It holds numbers if all its values are numbers, and
dates if all are dates; if most are, the others are reported as an error; otherwise it holds
categories.
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
from eqrm.data.tables.written_dates import (
    dates_as,
    is_dated,
    moment_in,
    refuse_other_dates,
    written_dates,
)
from eqrm.errors import DomainDataError, EqrmWarning, Setting

TRUTH = {"true": 1.0, "false": 0.0}
"""Booleans, in lower case. Read as numbers, as in Parquet files."""
NUMBER, CATEGORY, DATE, TARGET, DOMAIN = "number", "category", "date", "target", "domain"
SHOWN = 3
_WITH_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


def date_kind(form: str = "") -> str:
    """The kind of a column of dates that are written in a form ("": ISO's)."""
    return f"{DATE} {form}".strip()


def column_of_text(
    name: str,
    text: NDArray[np.str_],
    kind: str = "",
    missing: Collection[str] = (),
    forms: MutableMapping[str, str] | None = None,
) -> Column:
    """Numbers, dates or categories, as the kind says ("": as the values say).

    ``missing`` are values that mean a missing one. ``forms`` takes the form in which dates are
    written, where that is not ISO's.

    >>> column_of_text("age", np.array(["31", "?", "NA"]), missing=["?"])
    array([31., nan, nan])
    >>> column_of_text("age", np.array(["31", "-999.0"]), missing=["-999"])
    array([31., nan])
    >>> column_of_text("seen", np.array(["2013-01-31", ""]))
    array(['2013-01-31T00:00:00.000000', 'NaT'], dtype='datetime64[us]')
    """
    text = _without(text, missing)
    if kind == CATEGORY:
        return text
    if not kind.startswith(DATE):
        distinct, place = np.unique(text, return_inverse=True)
        parsed = [number_of(value) for value in distinct.tolist()]
        if kind != TARGET and (truth := _truth(distinct.tolist())) is not None:
            parsed = truth
        wrong = np.array([number is None for number in parsed])
        if wrong.any() and (numbers := with_decimal_commas(name, distinct.tolist())) is not None:
            parsed, wrong = numbers, np.zeros(len(distinct), bool)
        if not wrong.any():
            found: Column = np.array(parsed, dtype=np.float64)[place]
            return _without_codes(found, missing)
        # An identifier such as 007 is not a number: as one, it would be the same as 7.
        odd = [value for value in distinct[wrong].tolist() if not is_padded(value)]
        in_rows, present = wrong[place], np.char.strip(text) != ""
        numbers = np.isfinite(np.array([np.nan if n is None else n for n in parsed]))[place]
        mostly = (present & numbers).sum() > in_rows.sum() and len(odd) == wrong.sum()
        if kind == NUMBER or mostly:
            shown = odd or distinct[wrong].tolist()
            raise DomainDataError(_among(name, NUMBER, kind, shown, in_rows))
    if kind == "" or kind.startswith(DATE):
        dates = _dates_of(name, text, kind, forms)
        if dates is not None:
            return dates
        if kind and all(each.strip().lower() in MISSING_NUMBERS for each in np.unique(text)):
            return np.full(len(text), "NaT", dtype="datetime64[us]")
        _refuse_among_dates(name, text, kind)
        refuse_other_dates(name, text)
    return text


def _dates_of(
    name: str, text: NDArray[np.str_], kind: str, forms: MutableMapping[str, str] | None
) -> Column | None:
    """The dates in a column of text: in ISO's form, in that of the kind, or as the values say."""
    dates = dates_as(text, kind.removeprefix(DATE).strip())
    if dates is not None or kind:
        return dates
    found = written_dates(name, text)
    if found is None:
        return None
    if forms is not None:
        forms[name] = found[1]
    return found[0]


def with_decimal_commas(name: str, distinct: list[str]) -> list[float | None] | None:
    """Numbers written as 8,4, with a warning; None if the values are not such numbers.

    Where every comma may as well separate thousands, as in 1,234, nobody can tell: an error.

    >>> with_decimal_commas("height", ["1,234", "2"])
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: Column 'height' holds numbers such as '1,234', ...
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
            f"column as categories ({Setting('categories', [name])}), or leave it out "
            f"({Setting('drop', [name])})."
        )
    warnings.warn(
        f"Column {name!r} holds numbers with decimal commas, such as {told!r}. They are read as "
        "numbers.",
        EqrmWarning,
        stacklevel=2,
    )
    return [number_of(value.replace(",", ".")) for value in bare]


def _among(name: str, what: str, kind: str, values: list[str], in_rows: NDArray[np.bool_]) -> str:
    """What to do about values of another kind than most."""
    shown = ", ".join(map(repr, values[:SHOWN]))
    where = (
        f"{shown}, in {in_rows.sum():,} of {len(in_rows):,} rows (first: row "
        f"{np.flatnonzero(in_rows)[0] + 1:,})"
    )
    if kind:
        form = kind.removeprefix(DATE).strip() or "year-month-day" if what == DATE else ""
        written = f", written as {form}" if form else ""
        return (
            f"Column {name!r} held {what}s in training, but here it holds {where}. Convert them "
            f"to {what}s{written}; leave missing values empty."
        )
    return (
        f"Column {name!r} holds {what}s, but also {where}. If that means missing, set "
        f"{Setting('missing_values', [str(values[0])])}; or read the column as categories "
        f"({Setting('categories', [name])})."
    )


def _refuse_among_dates(name: str, text: NDArray[np.str_], kind: str) -> None:
    """Raise if a column must hold dates and does not, or if most of its values are dates."""
    distinct, place = np.unique(text, return_inverse=True)
    bare, form = [value.strip() for value in distinct.tolist()], kind.removeprefix(DATE).strip()
    dated = np.array([moment_in(v, form) is not None if kind else is_dated(v) for v in bare])
    wrong = np.array([v.lower() not in MISSING_NUMBERS for v in bare]) & ~dated
    if kind or (wrong.any() and dated[place].sum() > wrong[place].sum()):
        values = distinct[wrong].tolist() or [""]
        raise DomainDataError(_among(name, DATE, kind, values, wrong[place] | ~dated[place]))


def column_of_values(
    name: str,
    column: Column,
    kind: str,
    missing: Collection[str],
    forms: MutableMapping[str, str] | None = None,
) -> Column:
    """A column of a table in memory, as the kind says: text may hold dates, never numbers.

    ``forms`` as for :func:`column_of_text`.

    >>> column_of_values("ward", np.array([1.0, 2.5]), "category", [])
    array(['1', '2.5'], dtype='<U3')
    >>> column_of_values("age", np.array([31.0, -999.0]), "", ["-999"])
    array([31., nan])
    """
    if is_numbers(column):
        column = _without_codes(column, missing)
        return _as_text(column) if kind == CATEGORY else column
    if is_dates(column) or kind in (CATEGORY, TARGET):
        return column if is_dates(column) else _without(column, missing)
    text = _without(column, missing)
    if kind:
        return column_of_text(name, text, kind)
    dates = _dates_of(name, text, kind, forms)
    if dates is None:
        refuse_other_dates(name, text)
    return text if dates is None else dates


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
    found: NDArray[np.str_] = np.where(means, "", text)
    return found


def _truth(distinct: list[str]) -> list[float | None] | None:
    """1 and 0 if all values are booleans or missing, otherwise None.

    >>> _truth(["False", "TRUE"]), _truth(["no", "true"])
    ([0.0, 1.0], None)
    """
    bare = [value.strip().lower() for value in distinct]
    if not any(value in TRUTH for value in bare):
        return None
    if not all(value in TRUTH or value in MISSING_NUMBERS for value in bare):
        return None
    return [TRUTH.get(value, float("nan")) for value in bare]
