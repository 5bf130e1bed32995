"""Where the columns of a table are read from: files, or a frame in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import Problems
from eqrm.data.tables.columns import Column, as_column
from eqrm.data.tables.files import TableFiles, fetched_list, opened, quoted
from eqrm.data.tables.frames import column, frame_columns, is_frame, refuse_absent
from eqrm.data.tables.kinds import CATEGORY, DOMAIN, column_of_text, column_of_values
from eqrm.errors import DomainDataError, Setting

MEMORY = "2GB"
COLUMNS_AT_ONCE = 2000
"""DuckDB takes 32 KB and more for each column of a query."""
LONG_TEXT, MOST_TEXT = 1000, 1 << 28
"""Characters of one entry, and bytes of a column of text, beyond which it is not read."""
_TEXT = ("VARCHAR", "ENUM", "UUID")
_MOMENTS = ("DATE", "TIMESTAMP")
_NOT_FEATURES = ("TIME", "INTERVAL", "STRUCT", "MAP", "LIST", "UNION", "BLOB", "BIT")
Data = Any
"""A path, a pattern, a list of them, or a frame."""


class ColumnSource(Protocol):
    """Columns by name, each read as its kind says."""

    @property
    def label(self) -> str:
        """What errors call the table."""

    @property
    def names(self) -> Sequence[str]:
        """The columns that there are."""

    @property
    def date_forms(self) -> Mapping[str, str]:
        """The form of dates by column, where columns that were read do not have ISO's."""

    def check(self, name: str) -> object:
        """Raise if a column does not exist, or more than once."""

    def has_domain(self, name: str) -> bool:
        """Whether a column can name domains."""

    def read(
        self, kinds: Mapping[str, str], problems: Problems, missing: Collection[str] = ()
    ) -> dict[str, Column]:
        """The columns of these kinds; those that cannot be read are noted, and left out."""


@contextmanager
def source_of(data: Data) -> Iterator[ColumnSource]:
    """Files, patterns and folders, opened, or a frame."""
    if is_frame(data):
        yield FrameSource(data)
        return
    paths = [data] if isinstance(data, (str, Path)) else list(data)
    with opened(paths, None, MEMORY) as files:
        yield FileSource(files)


class FileSource:
    """Columns of CSV or Parquet files."""

    def __init__(self, files: TableFiles) -> None:
        self.files = files
        self.date_forms: dict[str, str] = {}

    @property
    def label(self) -> str:
        """What errors call the table."""
        return self.files.files[0].name + (" …" if len(self.files.files) > 1 else "")

    @property
    def names(self) -> Sequence[str]:
        """The columns that there are."""
        return list(self.files.types)

    def check(self, name: str) -> object:
        """Raise if a column does not exist, or more than once."""
        return self.files.column(name)

    def has_domain(self, name: str) -> bool:
        """Whether a column can name domains; ``filename`` is the name of the file."""
        return name in self.files.types or self.files.is_filename(name)

    def read(
        self, kinds: Mapping[str, str], problems: Problems, missing: Collection[str] = ()
    ) -> dict[str, Column]:
        """The columns of these kinds; those that cannot be read are noted, and left out."""
        wanted = {}
        for name, kind in kinds.items():
            with problems.noted():
                wanted[name] = self._expression(name, kind)
        found: dict[str, Any] = {}
        expressions = list(wanted.values())
        for start in range(0, len(expressions), COLUMNS_AT_ONCE):
            part = ", ".join(expressions[start : start + COLUMNS_AT_ONCE])
            found |= self.files.fetched(f"SELECT {part} FROM {self.files.source}")
        columns: dict[str, Column] = {}
        for name in wanted:
            with problems.noted():
                columns[name] = _decided(name, found[name], kinds[name], missing, self.date_forms)
        return columns

    def _expression(self, name: str, kind: str) -> str:
        """A column as text if it is or should be text, as a double if it holds numbers."""
        if kind == DOMAIN:
            return f"{self.files.domain(name)} AS {quoted(name)}"
        identifier, type_name = self.files.column(name), self.files.types[name]
        if kind == CATEGORY or type_name.startswith(_TEXT):
            return f"CAST({identifier} AS VARCHAR) AS {quoted(name)}"
        if type_name.startswith(_MOMENTS) and not type_name.endswith("]"):
            moment = f"{identifier} AT TIME ZONE 'UTC'" if "ZONE" in type_name else identifier
            return f"CAST({moment} AS TIMESTAMP) AS {quoted(name)}"
        if type_name.startswith(_NOT_FEATURES) or type_name.endswith("]"):
            raise DomainDataError(
                f"Column {name!r} has the type {type_name}, neither numbers, text nor dates. Leave "
                f"it out ({Setting('drop', [name])}), or convert it."
            )
        return f"CAST({identifier} AS DOUBLE) AS {quoted(name)}"


class FrameSource:
    """Columns of a frame in memory: pandas, polars, Arrow, or a mapping."""

    label = "The table"

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.date_forms: dict[str, str] = {}

    @property
    def names(self) -> Sequence[str]:
        """The columns that there are."""
        return frame_columns(self.frame)

    def check(self, name: str) -> object:
        """Raise if a column does not exist, or more than once."""
        refuse_absent([name], list(self.names))
        return name

    def has_domain(self, name: str) -> bool:
        """Whether a column can name domains."""
        return name in self.names

    def read(
        self, kinds: Mapping[str, str], problems: Problems, missing: Collection[str] = ()
    ) -> dict[str, Column]:
        """The columns of these kinds; those that cannot be read are noted, and left out."""
        columns: dict[str, Column] = {}
        for name, kind in kinds.items():
            with problems.noted():
                values = column(self.frame, name)
                if kind != DOMAIN:
                    stored = as_column(values, name)
                    # A categorical says itself that it holds categories.
                    own = CATEGORY if hasattr(getattr(values, "cat", values), "codes") else kind
                    values = column_of_values(name, stored, own, missing, self.date_forms)
                columns[name] = values
        return columns


def _decided(
    name: str, values: Any, kind: str, missing: Collection[str], forms: MutableMapping[str, str]
) -> Column:
    """A column that was fetched, of its kind."""
    if kind == DOMAIN:  # named, and refused where missing, by the table
        return np.array(fetched_list(values), dtype=object)
    if values.dtype.kind == "O":
        return column_of_text(name, _as_text(values, name), kind, missing, forms)
    if values.dtype.kind == "M":
        return np.asarray(np.ma.filled(values, np.datetime64("NaT")), dtype="datetime64[us]")
    numbers = np.ma.filled(values.astype(np.float64), np.nan)
    return column_of_values(name, numbers, kind, missing)


def _as_text(values: Any, name: str) -> NDArray[np.str_]:
    """Text in an array, where every entry takes the space of the longest."""
    filled = np.ma.filled(values, "") if isinstance(values, np.ma.MaskedArray) else values
    texts = ["" if value is None else value for value in filled.tolist()]
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    row = int(sizes.argmax()) if len(texts) else 0
    if len(texts) and sizes[row] > LONG_TEXT and 4 * len(texts) * int(sizes[row]) > MOST_TEXT:
        raise DomainDataError(
            f"Column {name!r} has {sizes[row]:,} characters in row {row + 1:,}, too many for a "
            f"column of {len(texts):,} rows. Shorten them, or leave the column out "
            f"({Setting('drop', [name])})."
        )
    return np.array(texts, dtype=str)
