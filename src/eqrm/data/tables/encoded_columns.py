"""What a column becomes in a matrix: standardised numbers, indicators of categories, dates."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import one_of
from eqrm.data.tables.columns import (
    Column,
    is_dates,
    is_numbers,
    missing_in,
)
from eqrm.data.tables.kinds import CATEGORY, DATE, FORMS, NUMBER, is_dated
from eqrm.errors import DomainDataError, EqrmWarning, Setting, SettingError
from eqrm.text import did_you_mean, listed

Matrix = NDArray[np.float64]
MOST_CATEGORIES = 1000
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NO_DATES: Column = np.zeros(0, dtype="datetime64[us]")
_A_DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")


class UnseenCategoryWarning(EqrmWarning):
    """A category that did not occur in training: all its indicators are 0.

    Also a missing value where none was missing in training: it becomes the mean.
    """


@dataclass(frozen=True)
class NumberColumn:
    """(value − mean) / scale; missing ones become the mean and an indicator, unless ``native``."""

    name: str
    mean: float
    scale: float
    may_be_missing: bool
    native: bool = False

    @classmethod
    def fit(cls, name: str, column: Column, native: bool = False) -> NumberColumn:
        """Mean and standard deviation of the values that are not missing."""
        _refuse_infinite(name, column)
        present = column[~np.isnan(column)]
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = float(present.mean()), float(present.std())
        if not np.isfinite(scale):
            raise DomainDataError(
                f"Column {name!r} holds numbers too large to standardise. Rescale it, or leave it "
                f"out ({Setting('drop', [name])})."
            )
        # A scale of 0: one value or none at all, and only the indicator tells rows apart.
        return cls(name, mean, scale or 1.0, len(present) < len(column), native)

    @property
    def features(self) -> list[str]:
        """The names of its columns in the matrix."""
        indicated = self.may_be_missing and not self.native
        return [self.name, f"{self.name} is missing"] if indicated else [self.name]

    def encode(self, column: Column, matrix: Matrix, unseen: str) -> None:
        """Fill in its columns of the matrix, which is 0."""
        _refuse_infinite(self.name, column)
        _fill(self, [(column - self.mean) / self.scale], np.isnan(column), matrix, unseen)


@dataclass(frozen=True)
class CategoryColumn:
    """An indicator per category seen in training; "" is the category of missing values, if any."""

    name: str
    categories: tuple[str, ...]

    @classmethod
    def fit(cls, name: str, column: Column, native: bool = False) -> CategoryColumn:
        """The categories that occur, sorted."""
        missing = missing_in(column)
        found = np.unique(np.where(missing, "", column)).tolist()
        if len(found) > MOST_CATEGORIES:
            dated = "; write dates as 2013-01-31" if any(map(is_dated, found)) else ""
            raise DomainDataError(
                f"Column {name!r} has {len(found):,} different values, such as {found[0]!r} and "
                f"{found[1]!r}; at most {MOST_CATEGORIES:,} categories are supported. If it is an "
                f"identifier or free text, leave it out ({Setting('drop', [name])}){dated}."
            )
        return cls(name, tuple(found))

    @property
    def features(self) -> list[str]:
        """The names of its columns in the matrix."""
        return [f"{self.name}={c}" if c else f"{self.name} is missing" for c in self.categories]

    def encode(self, column: Column, matrix: Matrix, unseen: str) -> None:
        """Fill in its columns of the matrix, which is 0."""
        known = np.array(self.categories)
        values = np.where(missing_in(column), "", column)
        place = np.minimum(np.searchsorted(known, values), len(known) - 1)
        other = known[place] != values
        if other.any():
            names = np.unique(values[other]).tolist()
            message = (
                f"Column {self.name!r} has categories that did not occur in training: "
                f"{listed([name or '(missing)' for name in names])}, in {other.sum():,} of "
                f"{len(values):,} rows."
            )
            if unseen == "error":
                raise DomainDataError(f"{message} {did_you_mean(names[0], self.categories)}")
            _warn(f"{message} Such rows belong to none of the known categories.")
        matrix[np.arange(len(values)), place] = ~other


@dataclass(frozen=True)
class DateColumn:
    """A date as year, month, weekday and days since the first date of training.

    ``year`` and ``days`` are mean and standard deviation in training; ``months`` and ``weekdays``
    are those that occur there, with an indicator each. What is the same in every row is left out.
    Missing dates become the mean, with an indicator column; with ``native`` they stay missing.
    ``form`` is how text writes the dates, "" in ISO's form.
    """

    name: str
    first: str
    year: tuple[float, float]
    days: tuple[float, float]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    may_be_missing: bool
    native: bool = False
    form: str = ""

    def __post_init__(self) -> None:
        one_of(self.form, ("", *FORMS), "form of dates")
        np.datetime64(self.first, "D")
        if not {*self.weekdays} <= {*range(7)}:
            raise SettingError(f"weekdays must be from 0 to 6, got {self.weekdays}.")

    @classmethod
    def fit(cls, name: str, column: Column, native: bool = False) -> DateColumn:
        """The first date, and what occurs."""
        present = column[~np.isnat(column)]
        first = str(present.min().astype("datetime64[D]"))
        year, month, weekday, days = _parts_of(present, first)

        def varying(values: NDArray[Any]) -> tuple[int, ...]:
            found = np.unique(values).tolist()
            return tuple(int(each) for each in found) if len(found) > 1 else ()

        def moments(values: NDArray[np.float64]) -> tuple[float, float]:
            return float(values.mean()), float(values.std())

        return cls(
            name,
            first,
            moments(year),
            moments(days),
            varying(month),
            varying(weekday),
            len(present) < len(column),
            native,
        )

    @property
    def features(self) -> list[str]:
        """The names of its columns in the matrix."""
        indicated = self.may_be_missing and not self.native
        return [*self._made_of(_NO_DATES), *([f"{self.name} is missing"] if indicated else [])]

    def encode(self, column: Column, matrix: Matrix, unseen: str) -> None:
        """Fill in its columns of the matrix, which is 0."""
        _fill(self, self._made_of(column).values(), np.isnat(column), matrix, unseen)

    def _made_of(self, dates: Column) -> dict[str, NDArray[Any]]:
        """What dates become, by feature."""
        year, month, weekday, days = _parts_of(dates, self.first)
        found: dict[str, NDArray[Any]] = {}
        if self.year[1]:
            found[f"{self.name} year"] = (year - self.year[0]) / self.year[1]
        found |= {f"{self.name} month={each}": month == each for each in self.months}
        found |= {f"{self.name} weekday={WEEKDAYS[d]}": weekday == d for d in self.weekdays}
        if self.days[1]:
            found[f"{self.name} days since {self.first}"] = (days - self.days[0]) / self.days[1]
        return found


def _fill(
    part: NumberColumn | DateColumn,
    filled: Iterable[NDArray[Any]],
    missing: NDArray[np.bool_],
    matrix: Matrix,
    unseen: str,
) -> None:
    """Fill in columns, and what stands for missing values: NaN, or 0 and an indicator."""
    for place, values in enumerate(filled):
        gone = np.nan if part.native and values.dtype.kind == "f" else 0.0
        matrix[:, place] = np.where(missing, gone, values)
    if part.may_be_missing and not part.native:
        matrix[:, -1] = missing
    elif missing.any() and not part.native:
        message = (
            f"Column {part.name!r} is missing in {missing.sum():,} of {len(missing):,} rows "
            f"(first: row {np.flatnonzero(missing)[0] + 1:,}), but was never missing in training."
        )
        if unseen == "error":
            raise DomainDataError(f"{message} Fill it in.")
        _warn(f"{message} Missing values get the mean of training.")


def _warn(message: str) -> None:
    warnings.warn(message, UnseenCategoryWarning, stacklevel=6)


def _parts_of(dates: Column, first: str) -> tuple[NDArray[Any], ...]:
    """Year, month (1 to 12), weekday (Monday is 0) and days since the first date."""
    months = dates.astype("datetime64[M]").astype(np.int64)
    weekday = (dates.astype("datetime64[D]").astype(np.int64) + 3) % 7  # 1970-01-01: a Thursday
    since = (dates - np.datetime64(first, "us")).astype(np.int64) / _A_DAY
    return (1970 + months // 12).astype(np.float64), months % 12 + 1, weekday, since


Encoded = NumberColumn | CategoryColumn | DateColumn
KINDS: dict[str, type[Encoded]] = {
    NUMBER: NumberColumn,
    CATEGORY: CategoryColumn,
    DATE: DateColumn,
}


def kind_of(part: Encoded) -> str:
    """ "number", "category" or "date"."""
    return next(name for name, kind in KINDS.items() if isinstance(part, kind))


def kind_held(column: Column) -> str:
    """The same of what a column holds."""
    return NUMBER if is_numbers(column) else DATE if is_dates(column) else CATEGORY


def _refuse_infinite(name: str, column: Column) -> None:
    infinite = np.flatnonzero(np.isinf(column))
    if infinite.size:
        raise DomainDataError(
            f"Column {name!r} is infinite in {infinite.size:,} rows (first: row "
            f"{infinite[0] + 1:,}). Fix these values, read them as missing "
            f"({Setting('missing_values', ['inf'])}), or leave the column out "
            f"({Setting('drop', [name])})."
        )
