"""The columns of a table: numbers, categories or dates, from arrays and from text."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.data.times import MOMENT, moment_of
from eqrm.errors import DomainDataError, Setting

Column = NDArray[Any]
"""float64 for numbers (NaN where missing), text for categories ("" where missing), datetime64[us]
for dates (NaT where missing)."""
MISSING_NUMBERS = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Missing numbers and dates in a CSV file, in lower case."""


def is_numbers(column: Column) -> bool:
    """Whether a column of a :class:`Table` holds numbers; otherwise it holds text or dates."""
    return column.dtype.kind == "f"


def is_dates(column: Column) -> bool:
    """Whether a column of a :class:`Table` holds dates."""
    return column.dtype.kind == "M"


def as_column(values: Any, name: object) -> Column:
    """Numbers as float64, dates as moments, text and pandas' categories as text."""
    categorical = getattr(values, "cat", values)
    if hasattr(categorical, "codes") and hasattr(categorical, "categories"):
        # Categories stay categories, also where their names are numbers; code -1 is a missing one.
        names = np.array([*(str(each) for each in categorical.categories), ""])
        return np.asarray(names[np.asarray(categorical.codes)])
    if getattr(getattr(values, "dtype", None), "tz", None) is not None:  # of pandas
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    array = np.asarray(values)
    if array.ndim != 1:
        raise DomainDataError(
            f"Column {name!r} must hold one value per row, got the shape {array.shape}."
        )
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind == "M":
        return array.astype(MOMENT)
    if array.dtype.kind == "O":
        return _of_objects(array, name)
    raise DomainDataError(
        f"Column {name!r} holds neither numbers, text nor dates ({array.dtype}). Convert it, or "
        f"leave it out ({Setting('drop', [name])})."
    )


def _of_objects(array: Column, name: object) -> Column:
    """Python objects: all numbers, all text or all dates; None and NaN where missing."""
    missing = np.array([is_missing(value) for value in array], dtype=bool)
    present = array[~missing]
    if all(isinstance(value, str) for value in present):
        return np.where(missing, "", array).astype(str)
    if all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in present):
        return np.where(missing, np.nan, array).astype(np.float64)
    if all(isinstance(value, (date, np.datetime64)) for value in present):
        moments = [moment_of(None if gone else v) for v, gone in zip(array, missing, strict=True)]
        return np.array(moments, dtype=MOMENT)
    kinds = sorted({type(value).__name__ for value in present})
    raise DomainDataError(
        f"Column {name!r} holds {' and '.join(kinds)}, but a column must be all numbers, all text "
        f"or all dates. Convert it, or leave it out ({Setting('drop', [name])})."
    )


def missing_in(part: Any) -> NDArray[np.bool_]:
    """Where a column of any kind has no value: NaN, NaT, None, and blanks among text."""
    array = np.asarray(part)
    if array.dtype.kind != "O":
        blank = np.char.strip(array) == "" if array.dtype.kind == "U" else array != array
        return np.asarray(blank)
    values = array.tolist()
    if not any(map(is_missing, set(values))):  # which are few
        return np.zeros(len(values), dtype=bool)
    return np.fromiter(map(is_missing, values), dtype=bool, count=len(values))


def number_of(text: str) -> float | None:
    """The number in a string, NaN if it is missing, None if it is not a number (007 is none)."""
    bare = text.strip()
    if bare.lower() in MISSING_NUMBERS:
        return float("nan")
    if is_padded(bare) or "_" in bare:
        return None
    try:
        return float(bare)
    except ValueError:
        return None


def is_padded(text: str) -> bool:
    """Whether a number has leading zeros, as in 007."""
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()


def refuse_missing(what: str, part: Any) -> None:
    """Raise if rows have no target, domain, order or weight; rows are counted from 1."""
    rows = np.flatnonzero(missing_in(part))
    if rows.size:
        raise DomainDataError(
            f"{what} missing in {rows.size:,} of {len(part):,} rows (first: row {rows[0] + 1:,}). "
            f"Fill in the values, or leave these rows out ({Setting('skip_incomplete', True)})."
        )
