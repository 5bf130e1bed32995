"""Columns of a table to a matrix of numbers: categories one-hot, numbers standardised.

Nothing is left out or filled in silently: :attr:`TableEncoder.notes` lists it, and everything else
is an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import one_of
from eqrm.data.tables.frames import column, frame_columns, refuse_absent
from eqrm.data.tables.table import NO_ROWS, Column, as_column, is_numbers, missing_in, number_of
from eqrm.errors import DomainDataError, EqrmWarning
from eqrm.text import counted, did_you_mean, listed

Matrix = NDArray[np.float64]
FORMAT = "eqrm table encoder 1"
LARGEST_MISSING_SHARE = 0.1
MOST_CATEGORIES = 1000
MANY_CATEGORIES = 20
"""Above this many categories, a column whose values rarely repeat is probably an identifier."""
UNSEEN = ("warn", "error")


class UnseenCategoryWarning(EqrmWarning):
    """A category that did not occur in training: all its indicators are 0."""


@dataclass(frozen=True)
class NumberColumn:
    """(value − mean) / scale; missing values become the mean, with an indicator column."""

    name: str
    mean: float
    scale: float
    may_be_missing: bool

    @classmethod
    def fit(cls, name: str, column: Column) -> NumberColumn:
        """Mean and standard deviation of the values that are not missing."""
        _refuse_infinite(name, column)
        present = column[~np.isnan(column)]
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = float(present.mean()), float(present.std())
        if not np.isfinite(scale):
            raise DomainDataError(
                f"Column {name!r} holds numbers too large to standardise. Rescale it."
            )
        # A scale of 0: one value or none at all, and only the indicator tells rows apart.
        return cls(name, mean, scale or 1.0, len(present) < len(column))

    @property
    def features(self) -> list[str]:
        """The names of its columns in the matrix."""
        return [self.name, f"{self.name} is missing"] if self.may_be_missing else [self.name]

    def encode(self, column: Column, matrix: Matrix, unseen: str) -> None:
        """Fill in its columns of the matrix, which is 0."""
        if not is_numbers(column):
            first = next((v for v in column.tolist() if number_of(v) is None), column[0])
            raise DomainDataError(
                f"Column {self.name!r} held numbers in training, but now it holds text such as "
                f"{first!r}. Convert it to numbers; leave missing values empty."
            )
        _refuse_infinite(self.name, column)
        missing = np.isnan(column)
        if missing.any() and not self.may_be_missing:
            raise DomainDataError(
                f"Column {self.name!r} is missing in {missing.sum():,} of {len(column):,} rows "
                f"(first: row {np.flatnonzero(missing)[0] + 1:,}), but was never missing in "
                "training, so the model has no way to handle it. Fill it in."
            )
        matrix[:, 0] = np.where(missing, 0.0, (column - self.mean) / self.scale)
        if self.may_be_missing:
            matrix[:, 1] = missing


@dataclass(frozen=True)
class CategoryColumn:
    """An indicator per category seen in training; "" is the category of missing values, if any."""

    name: str
    categories: tuple[str, ...]

    @classmethod
    def fit(cls, name: str, column: Column) -> CategoryColumn:
        """The categories that occur, sorted."""
        missing = missing_in(column)
        found = np.unique(np.where(missing, "", column)).tolist()
        if len(found) > MOST_CATEGORIES:
            raise DomainDataError(
                f"Column {name!r} has {len(found):,} different values, such as {found[0]!r} and "
                f"{found[1]!r}; at most {MOST_CATEGORIES:,} categories are supported. If it is an "
                "identifier, leave it out."
            )
        return cls(name, tuple(found))

    @property
    def features(self) -> list[str]:
        """The names of its columns in the matrix."""
        return [f"{self.name}={c}" if c else f"{self.name} is missing" for c in self.categories]

    def encode(self, column: Column, matrix: Matrix, unseen: str) -> None:
        """Fill in its columns of the matrix, which is 0."""
        if is_numbers(column):
            raise DomainDataError(
                f"Column {self.name!r} held categories in training, such as "
                f"{self.categories[-1]!r}, but now it holds numbers. Convert it to text."
            )
        known = np.array(self.categories)
        values = np.where(missing_in(column), "", column)
        place = np.minimum(np.searchsorted(known, values), len(known) - 1)
        other = known[place] != values
        if other.any():
            self._tell_unseen(values[other], len(values), unseen)
        matrix[np.arange(len(values)), place] = ~other

    def _tell_unseen(self, values: Column, rows: int, unseen: str) -> None:
        names = np.unique(values).tolist()
        message = (
            f"Column {self.name!r} has categories that did not occur in training: "
            f"{listed([name or '(missing)' for name in names])}, in {len(values):,} of {rows:,} "
            "rows."
        )
        if unseen == "error":
            raise DomainDataError(f"{message} {did_you_mean(names[0], self.categories)}")
        warnings.warn(
            f"{message} Such rows belong to none of the known categories.",
            UnseenCategoryWarning,
            stacklevel=5,
        )


@dataclass(frozen=True)
class TableEncoder:
    """Encodes the columns of a table as a matrix of numbers; can be saved as JSON.

    Categories become one indicator each, numbers are standardised. At most a tenth of a column's
    values may be missing: missing numbers become the mean and an indicator, missing categories a
    category of their own. Columns with a single value are left out. :attr:`notes` lists all of
    this.

    >>> encoder = TableEncoder.fit({"age": [30, 50], "ward": ["A", "B"], "city": ["Oslo"] * 2})
    >>> encoder.features
    ('age', 'ward=A', 'ward=B')
    >>> encoder.transform({"age": [40, 60], "ward": ["B", "A"]})
    array([[0., 0., 1.],
           [2., 1., 0.]])
    >>> encoder.notes
    ("Column 'city' has the same value in every row and is left out.",)
    """

    columns: tuple[NumberColumn | CategoryColumn, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(cls, frame: Any) -> TableEncoder:
        """Learn means, scales and categories from the columns of a frame."""
        parts: list[NumberColumn | CategoryColumn] = []
        notes: list[str] = []
        names = frame_columns(frame)
        for name in names:
            values = as_column(column(frame, name), name)
            if len(values) == 0:
                raise DomainDataError(NO_ROWS)
            notes += _about_missing(name, values)
            if (values == values[0]).all():
                notes.append(f"Column {name!r} has the same value in every row and is left out.")
            else:
                kind = NumberColumn if is_numbers(values) else CategoryColumn
                parts.append(kind.fit(str(name), values))
                notes += _about_identifiers(parts[-1], len(values))
        if not parts:
            raise DomainDataError(
                "No feature is left: every column has the same value in every row."
                if names
                else "The table has no feature columns besides target and domain."
            )
        return cls(tuple(parts), tuple(notes))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return tuple(name for part in self.columns for name in part.features)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the table's columns that are used."""
        return tuple(part.name for part in self.columns)

    def kinds(self) -> dict[str, str]:
        """Whether each column that is used holds a "number" or a "category"."""
        return {
            part.name: "number" if isinstance(part, NumberColumn) else "category"
            for part in self.columns
        }

    def transform(self, frame: Any, unseen: str = "warn") -> Matrix:
        """The matrix (n, features) of a frame with (at least) these columns, found by name.

        A category that did not occur in training has no indicator: all of them are 0, with an
        ``UnseenCategoryWarning``; ``unseen="error"`` raises an error instead.
        """
        one_of(unseen, UNSEEN, "value of unseen")
        refuse_absent(self.names, frame_columns(frame))
        columns = [as_column(column(frame, part.name), part.name) for part in self.columns]
        lengths = {len(values) for values in columns}
        if len(lengths) > 1:
            raise DomainDataError(f"All columns must have the same number of rows, got {lengths}.")
        matrix = np.zeros((lengths.pop(), len(self.features)))
        end = 0
        for part, values in zip(self.columns, columns, strict=True):
            start, end = end, end + len(part.features)
            part.encode(values, matrix[:, start:end], unseen)
        return matrix

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON; :meth:`from_dict` reads it back."""
        return {
            "format": FORMAT,
            "columns": [
                {"kind": "number", **vars(part)}
                if isinstance(part, NumberColumn)
                else {"kind": "category", "name": part.name, "categories": list(part.categories)}
                for part in self.columns
            ],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TableEncoder:
        """The encoder that :meth:`to_dict` described.

        >>> encoder = TableEncoder.fit({"age": [30.5, 50], "ward": ["A", "B"]})
        >>> TableEncoder.from_dict(encoder.to_dict()) == encoder
        True
        """
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise DomainDataError(f"This is not a table encoder: its format should be {FORMAT!r}.")
        try:
            parts = tuple(_read_part(part) for part in content["columns"])
            return cls(parts, tuple(str(note) for note in content["notes"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DomainDataError(f"This table encoder is damaged: {error!r}.") from None


def _read_part(part: Mapping[str, Any]) -> NumberColumn | CategoryColumn:
    if part["kind"] == "number":
        mean, scale = float(part["mean"]), float(part["scale"])
        return NumberColumn(str(part["name"]), mean, scale, bool(part["may_be_missing"]))
    return CategoryColumn(str(part["name"]), tuple(str(c) for c in part["categories"]))


def _about_missing(name: str, column: Column) -> list[str]:
    """A note about how missing values are handled; raises if there are too many."""
    number = int(missing_in(column).sum())
    if number == 0:
        return []
    share = number / len(column)
    if share > LARGEST_MISSING_SHARE:
        raise DomainDataError(
            f"Column {name!r} is missing in {share:.0%} of the rows ({number:,} of "
            f"{len(column):,}); at most {LARGEST_MISSING_SHARE:.0%} are allowed. Fill in the "
            "missing values, or leave the column out."
        )
    what = "the mean, and an indicator" if is_numbers(column) else "a category of their own"
    return [
        f"Column {name!r} is missing in {counted(number, 'row')} ({share:.1%}): "
        f"missing values get {what}."
    ]


def _about_identifiers(part: NumberColumn | CategoryColumn, rows: int) -> list[str]:
    """A note if a text column has a different value in most rows, such as a timestamp."""
    if not isinstance(part, CategoryColumn) or len(part.categories) < MANY_CATEGORIES:
        return []
    if 2 * len(part.categories) <= rows:
        return []
    return [
        f"Column {part.name!r} has {len(part.categories):,} different values in {rows:,} rows, "
        "each a category of its own: if it is an identifier or a time, leave it out."
    ]


def _refuse_infinite(name: str, column: Column) -> None:
    infinite = np.flatnonzero(np.isinf(column))
    if infinite.size:
        raise DomainDataError(
            f"Column {name!r} is infinite in {infinite.size:,} rows (first: row "
            f"{infinite[0] + 1:,}). Fix these values, or leave the column out."
        )
