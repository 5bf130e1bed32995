"""Columns of a table to a matrix of numbers: categories one-hot, numbers standardised, dates."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import FRACTION, Problems, one_of
from eqrm.data.tables.columns import Column, as_column, is_dates, is_numbers, missing_in
from eqrm.data.tables.encoded_columns import (
    KINDS,
    CategoryColumn,
    DateColumn,
    Encoded,
    Matrix,
    kind_held,
    kind_of,
)
from eqrm.data.tables.frames import column, frame_columns, refuse_absent
from eqrm.data.tables.identifiers import identifier_note
from eqrm.data.tables.table import NO_ROWS
from eqrm.errors import DomainDataError, Setting
from eqrm.files.plain import plain_values, read_as

FORMAT = "eqrm table encoder 3"
LARGEST_MISSING_SHARE = 0.1
MANY_CATEGORIES = 20
"""Above this many categories, a column whose values rarely repeat is probably an identifier."""
SLOW_CATEGORIES = 100
"""Above this many categories, their indicators take most of the time of training."""
UNSEEN = ("warn", "error")


@dataclass(frozen=True)
class TableEncoder:
    """Encodes the columns of a table as a matrix of numbers; can be saved as JSON.

    Categories become one indicator each, numbers are standardised, dates become year, month,
    weekday and days since the first one. At most a share of ``max_missing`` of a column's numbers
    or dates may be missing: they become the mean and an indicator, or stay missing for models that
    take them so (``native``). Empty text is a category of its own. Columns with a single value are
    left out, and so are identifiers. :attr:`notes` lists all of this.
    """

    columns: tuple[Encoded, ...]
    notes: tuple[str, ...] = ()
    missing_values: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        frame: Any,
        *,
        max_missing: float = LARGEST_MISSING_SHARE,
        native: bool = False,
        domains: NDArray[np.int64] | None = None,
        asked: Collection[str] = (),
        missing_values: Collection[str] = (),
        date_forms: Mapping[str, str] | None = None,
        rows: str = "rows",
    ) -> TableEncoder:
        """Learn means, scales, categories and first dates from the columns of a frame.

        With ``domains``, the number of each row's domain, identifiers are left out, but for columns
        that were ``asked`` for. ``date_forms`` are the forms of dates that were not ISO's, ``rows``
        what messages call the rows.
        """
        parts: list[Encoded] = []
        notes: list[str] = []
        names, problems = frame_columns(frame), Problems()
        limit = 1.0 if native else FRACTION.check(max_missing, "max_missing")
        for name in names:
            with problems.noted():
                values = as_column(column(frame, name), name)
                if len(values) == 0:
                    raise DomainDataError(NO_ROWS)
                empty = missing_in(values[:1]).all() and missing_in(values).all()
                if empty or (values == values[0]).all():
                    notes.append(
                        f"Column {name!r} has the same value in every row and is left out."
                    )
                    continue
                if domains is not None and name not in asked:
                    about = identifier_note(str(name), values, domains)
                    if about is not None:
                        notes.append(about)
                        continue
                told = _about_missing(name, values, limit, native, rows)
                part = KINDS[kind_held(values)].fit(str(name), values, native)
                if isinstance(part, DateColumn):
                    part = replace(part, form=(date_forms or {}).get(part.name, ""))
                parts.append(part)
                notes += [*told, *_about(parts[-1], len(values), rows)]
        problems.refuse("The table", alone=True)
        if not parts:
            raise DomainDataError(
                "No feature is left: every column has the same value in every row, or is an "
                "identifier."
                if names
                else "The table has no feature columns besides target and domain."
            )
        return cls(tuple(parts), tuple(notes), tuple(sorted(missing_values)))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return tuple(name for part in self.columns for name in part.features)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the table's columns that are used."""
        return tuple(part.name for part in self.columns)

    def kinds(self) -> dict[str, str]:
        """Whether each column that is used holds a "number", a "category" or a "date"."""
        return {part.name: kind_of(part) for part in self.columns}

    def forms(self) -> dict[str, str]:
        """The form of each column of dates ("": ISO's)."""
        return {part.name: part.form for part in self.columns if isinstance(part, DateColumn)}

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
        matrix, problems = np.zeros((lengths.pop(), len(self.features))), Problems()
        end = 0
        for part, values in zip(self.columns, columns, strict=True):
            start, end = end, end + len(part.features)
            with problems.noted():
                if kind_held(values) != kind_of(part):
                    raise DomainDataError(
                        f"The kind of column {part.name!r} was {kind_of(part)!r} in training, and "
                        f"is {kind_held(values)!r} here. Convert it."
                    )
                part.encode(values, matrix[:, start:end], unseen)
        problems.refuse("The table", alone=True)
        return matrix

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON; :meth:`from_dict` reads it back."""
        return {"format": FORMAT, **plain_values(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TableEncoder:
        """The encoder that :meth:`to_dict` described."""
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise DomainDataError(f"This is not a table encoder: its format should be {FORMAT!r}.")
        fields = {name: value for name, value in content.items() if name != "format"}
        return read_as(cls, fields, "encoder")


def _about_missing(name: str, column: Column, limit: float, native: bool, rows: str) -> list[str]:
    """A note about how missing values are handled; raises if there are too many."""
    number = int(missing_in(column).sum())
    if number == 0:
        return []
    share = number / len(column)
    text = not is_numbers(column) and not is_dates(column)
    if share > limit and not text:
        shown = f"{share:.0%}" if share >= limit + 0.01 else f"{share:.1%}"
        allowed = math.ceil(share * 20) / 20  # a part of the rows may have some more
        raise DomainDataError(
            f"Column {name!r} is missing in {shown} of the {rows} ({number:,} of "
            f"{len(column):,}); at most {limit:.0%} are allowed. Allow more "
            f"({Setting('max_missing', allowed)}: missing values get the mean, and an indicator), "
            f"use a model that takes them as they are ({Setting('model', 'xgboost')} or "
            f"{Setting('model', 'lightgbm')}), or leave the column out ({Setting('drop', [name])})."
        )
    what = "are a category of their own" if text else "get the mean, and an indicator"
    if native and not text:
        what = "are left to the trees, which learn where they go"
    return [
        f"Column {name!r} is missing in {number:,} of the {len(column):,} {rows} ({share:.1%}): "
        f"missing values {what}."
    ]


def _about(part: Encoded, number: int, rows: str) -> list[str]:
    """A note on what a date becomes, or on a text of many different values."""
    if isinstance(part, DateColumn):
        return [
            f"Column {part.name!r} holds dates: the features are year, month, weekday and days "
            f"since {part.first}."
        ]
    if not isinstance(part, CategoryColumn) or len(part.categories) < MANY_CATEGORIES:
        return []
    rare = 2 * len(part.categories) > number
    if not rare and len(part.categories) <= SLOW_CATEGORIES:
        return []
    about = (
        "if it is an identifier or a time, leave it out"
        if rare
        else f"each is estimated from about {number / len(part.categories):.0f} rows, and training "
        "takes much longer. Join rare values, or leave the column out"
    )
    return [
        f"Column {part.name!r} has {len(part.categories):,} different values in {number:,} {rows}, "
        f"each a category of its own: {about} ({Setting('drop', [part.name])})."
    ]
