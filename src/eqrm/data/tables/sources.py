"""Where the columns of a table are read from: files, or a frame in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from eqrm.checks import Problems
from eqrm.data.tables.columns import Column, as_column
from eqrm.data.tables.files import TableFiles, fetched_list, opened, quoted
from eqrm.data.tables.frames import column, frame_columns, is_frame, refuse_absent
from eqrm.data.tables.kinds import CATEGORY, DOMAIN, column_of
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


class FileSource:
    """Columns of CSV or Parquet files by name."""

    def __init__(self, files: TableFiles) -> None:
        self.files = files
        self.label = files.files[0].name + (" …" if len(files.files) > 1 else "")
        self.names = list(files.types)

    def check(self, name: str) -> None:
        """Raise if a column does not exist, or more than once."""
        self.files.column(name)

    def has_domain(self, name: str) -> bool:
        """Whether a column can name domains; ``filename`` is the name of the file."""
        return name in self.names or self.files.is_filename(name)

    def read(
        self,
        kinds: Mapping[str, str],
        problems: Problems,
        missing: Collection[str] = (),
        forms: MutableMapping[str, str] | None = None,
    ) -> dict[str, Column]:
        """The columns of these kinds; those that cannot be read are noted, and left out."""
        wanted: dict[str, str] = {}
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
                values = _plain(name, found[name], kinds[name])
                if kinds[name] != DOMAIN:
                    values = column_of(name, values, kinds[name], missing, forms)
                columns[name] = values
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
    """Columns of a frame in memory by name: pandas, polars, Arrow, or a mapping."""

    label = "The table"

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.names = frame_columns(frame)

    def check(self, name: str) -> None:
        """Raise if a column does not exist, or more than once."""
        refuse_absent([name], self.names)

    def has_domain(self, name: str) -> bool:
        """Whether a column can name domains."""
        return name in self.names

    def read(
        self,
        kinds: Mapping[str, str],
        problems: Problems,
        missing: Collection[str] = (),
        forms: MutableMapping[str, str] | None = None,
    ) -> dict[str, Column]:
        """The columns of these kinds, as :meth:`FileSource.read` gives them."""
        columns: dict[str, Column] = {}
        for name, kind in kinds.items():
            with problems.noted():
                values = column(self.frame, name)
                if kind != DOMAIN:
                    # A categorical says itself that it holds categories.
                    own = CATEGORY if hasattr(getattr(values, "cat", values), "codes") else kind
                    held = as_column(values, name)
                    values = column_of(name, held, own, missing, forms, typed_text=True)
                columns[name] = values
        return columns


@contextmanager
def source_of(data: Data) -> Iterator[FileSource | FrameSource]:
    """Files, patterns and folders, opened, or a frame."""
    if is_frame(data):
        yield FrameSource(data)
        return
    with opened(data, None, MEMORY) as files:
        yield FileSource(files)


def _plain(name: str, values: Any, kind: str) -> Column:
    """What DuckDB fetched, as numbers, text or dates; domains as objects, None where missing."""
    if kind == DOMAIN:
        return np.array(fetched_list(values), dtype=object)
    if values.dtype.kind == "M":
        return np.asarray(np.ma.filled(values, np.datetime64("NaT")), dtype="datetime64[us]")
    if values.dtype.kind != "O":
        return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
    texts = ["" if value is None else value for value in fetched_list(values)]
    # In an array every entry takes the space of the longest.
    longest = max(map(len, texts), default=0)
    if longest > LONG_TEXT and 4 * len(texts) * longest > MOST_TEXT:
        row = next(place for place, text in enumerate(texts) if len(text) == longest)
        raise DomainDataError(
            f"Column {name!r} has {longest:,} characters in row {row + 1:,}, too many for a "
            f"column of {len(texts):,} rows. Shorten them, or leave the column out ("
            f"{Setting('drop', [name])})."
        )
    return np.array(texts, dtype=str)
