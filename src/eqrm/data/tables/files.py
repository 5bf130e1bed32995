"""CSV and Parquet files as one table in DuckDB: the one reader of table files.

Files go in as parameters, columns as quoted identifiers that were looked up among those there are.
A line with more or fewer fields than the header is an error, and so is a compressed file that does
not match its checksum, which DuckDB does not verify.
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.checks import integer
from eqrm.data.tables.csv_text import (
    LONGEST_LINE,
    header_of,
    separator_of,
    with_even_line_ends,
    wrong_line,
)
from eqrm.domains import NumberAsName
from eqrm.errors import DataFileError, DomainDataError, Setting, SettingError
from eqrm.execution import processors
from eqrm.files.reading import refuse_growth
from eqrm.text import did_you_mean

ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
}
FILENAME = "filename"
"""Means the name of the file, unless a column has this name."""
THREADS = integer(1, 1024)
"""DuckDB starts as many as it is told to, and runs out of memory with very many."""


@dataclass(frozen=True)
class TableFiles:
    """The files of one table, all CSV or all Parquet, and a connection to read them with."""

    connection: Any
    files: tuple[Path, ...]
    kind: str
    separator: str = ","
    progress: bool = False

    @cached_property
    def types(self) -> dict[str, str]:
        """The columns and their types. Every column of a CSV file is text, read unchanged."""
        rows = self.run(f"DESCRIBE SELECT * FROM {self.source}").fetchall()
        return {row[0]: row[1] for row in rows}

    @property
    def source(self) -> str:
        """The table function to select from; its files are the parameter of :meth:`run`."""
        if self.kind == "parquet":
            return "read_parquet($files)"
        return (
            f"read_csv($files, delim = '{self.separator}', quote = '\"', escape = '\"', "
            "comment = '', skip = 0, header = true, all_varchar = true, null_padding = false, "
            f"max_line_size = {LONGEST_LINE}, buffer_size = {2 * LONGEST_LINE})"
        )

    def run(self, sql: str, files: Sequence[Path] | None = None, **parameters: Any) -> Any:
        """Execute a query over the files, or over some of them."""
        with self.errors_as_ours():
            paths = _as_patterns(files or self.files)
            return self.connection.execute(sql, {"files": paths, **parameters})

    def fetched(
        self, sql: str, files: Sequence[Path] | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """The columns that a query over the files, or some of them, results in."""
        if not self.progress:
            with self.errors_as_ours():
                found: dict[str, Any] = self.run(sql, files, **parameters).fetchnumpy()
            return found
        from rich.console import Console
        from rich.progress import Progress

        with (
            ThreadPoolExecutor(1) as worker,
            Progress(console=Console(stderr=True), transient=True) as bar,
        ):
            task = bar.add_task("reading", total=100.0)
            silent = replace(self, progress=False)
            running = worker.submit(silent.fetched, sql, files, **parameters)
            try:
                while not wait([running], timeout=0.1).done:
                    bar.update(task, completed=max(0.0, self.connection.query_progress()))
            except KeyboardInterrupt:
                self.connection.interrupt()
                raise
            return running.result()

    def batches(self, sql: str, rows: int, **parameters: Any) -> Iterator[Any]:
        """The result of a query over all files in Arrow batches of about this many rows."""
        with self.errors_as_ours():
            given = {"files": _as_patterns(self.files), **parameters}
            relation = self.connection.sql(sql, params=given)
            newer = hasattr(relation, "to_arrow_reader")  # DuckDB 1.4 renamed it
            read = relation.to_arrow_reader if newer else relation.fetch_arrow_reader
            yield from read(rows)

    @contextmanager
    def errors_as_ours(self) -> Iterator[None]:
        """Turn DuckDB's error about a file into one line with advice."""
        import duckdb

        try:
            yield
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except RuntimeError as error:
            if "interrupted" in str(error):  # what Ctrl-C becomes inside DuckDB
                raise KeyboardInterrupt from None
            raise
        except duckdb.OutOfMemoryException as error:
            raise DataFileError(
                f"{_first_line(error)}. Allow more memory ({Setting('memory', '2GB')})."
            ) from None
        except (duckdb.ParserException, duckdb.CatalogException):
            raise  # a defect of ours, not of the file
        except (duckdb.Error, UnicodeDecodeError) as error:
            shown = ", ".join(str(path) for path in self.files[:3])
            more = f" and {len(self.files) - 3} more" if len(self.files) > 3 else ""
            wrong = None if self.kind == "parquet" else wrong_line(self.files, self.separator)
            reason = wrong or _first_line(error)
            raise DataFileError(
                f"{shown}{more}: cannot be read as {self.kind.upper()}. {reason}. The file may be "
                "truncated or damaged, have other columns than the first file, or not be UTF-8 "
                "text: write it again."
            ) from None

    @cached_property
    def have_one_schema(self) -> bool:
        """Whether a query over each file alone sees what one over all sees: of Parquet files."""
        if self.kind != "parquet":
            return False
        sql = "SELECT * EXCLUDE (file_name), file_name FROM parquet_schema($files)"
        by_file: dict[str, list[Any]] = {}
        for *column, file in self.run(sql).fetchall():
            by_file.setdefault(file, []).append(column)
        schemas = list(by_file.values())
        return all(schema == schemas[0] for schema in schemas)

    def column(self, name: str) -> str:
        """A column as an identifier in SQL; a name that does not exist is refused."""
        if name not in self.types:
            shown = self.files[0].name + (" …" if len(self.files) > 1 else "")
            raise DomainDataError(
                f"{shown} has no column {name!r}. {did_you_mean(name, list(self.types))}"
            )
        if self._header[name] > 1:
            raise DomainDataError(
                f"{self.files[0].name} has more than one column {name!r}. Give each column a name "
                "of its own where the file is written."
            )
        return quoted(name)

    @cached_property
    def _header(self) -> Counter[str]:
        """The names in the first file itself; DuckDB calls the second of two columns name_1."""
        return Counter(name for _, name in self._names_in(self.files[:1]))

    def _names_in(self, files: Sequence[Path]) -> list[tuple[str, str]]:
        """File and name of every column of these files."""
        if self.kind == "csv":
            return [(str(f), name) for f in files for name in header_of(f, self.separator)]
        sql = "SELECT file_name, name FROM parquet_schema($files) WHERE num_children IS NULL"
        return list(self.run(sql, files).fetchall())

    def refuse_later(self, name: str) -> None:
        """Raise if the first file lacks a column that another one has: it would not be read."""
        if name in self.types or len(self.files) == 1:
            return
        having = [file for file, column in self._names_in(self.files[1:]) if column == name]
        if having:
            raise DomainDataError(
                f"{Path(having[0]).name} has a column {name!r}, and {self.files[0].name} has none. "
                "Give all files the same columns."
            )

    def domain(self, name: str) -> str:
        """The name of each row's domain as SQL, as :mod:`eqrm.domains` would name it."""
        if self.is_filename(name):
            return FILENAME
        identifier, kind = self.column(name), self.types[name]
        if isinstance(name, NumberAsName):
            return f"CAST({identifier} AS VARCHAR)"
        if kind.startswith(("VARCHAR", "FLOAT", "DOUBLE")) or kind.endswith(("INT", "INTEGER")):
            return identifier
        if kind == "BOOLEAN":
            return f"CASE WHEN {identifier} THEN 'True' WHEN NOT {identifier} THEN 'False' END"
        if kind.startswith("DECIMAL"):
            return f"CAST({identifier} AS DOUBLE)"
        if kind == "TIMESTAMP WITH TIME ZONE":
            return f"CAST({identifier} AT TIME ZONE 'UTC' AS VARCHAR) || '+00:00'"
        text = f"CAST({identifier} AS VARCHAR)"
        if kind.startswith("TIMESTAMP"):
            return f"regexp_replace({text}, ' 00:00:00$', '')"
        return text

    def is_filename(self, name: str) -> bool:
        """Whether a domain column means the file's name."""
        return name == FILENAME and FILENAME not in self.types


@contextmanager
def opened(
    data: Any, threads: int | None, memory: str, progress: bool = False
) -> Iterator[TableFiles]:
    """Open files, patterns or folders as one table, within a number of threads and memory."""
    import duckdb

    files = find_files([data] if isinstance(data, (str, Path)) else data)
    kinds = {_kind(path) for path in files}
    if len(kinds) > 1:
        raise DataFileError(
            "The files of one table must be all CSV or all Parquet, got both. Convert one kind, or "
            "evaluate them as two predictors."
        )
    threads = processors() if threads is None else THREADS.check(threads, "threads")
    with tempfile.TemporaryDirectory(prefix="eqrm-") as folder:
        settings: dict[str, Any] = {"temp_directory": folder, "threads": str(threads)}
        if memory:
            settings["memory_limit"] = memory
        try:
            connection = duckdb.connect(":memory:", config=settings)
            # DuckDB would draw a bar of its own on standard output, into the table.
            connection.execute("SET enable_progress_bar_print = false")
            connection.execute(f"SET enable_progress_bar = {'true' if progress else 'false'}")
        except duckdb.Error as error:
            raise SettingError(
                f"memory must be a size such as '2GB' or '500MB', got {memory!r} "
                f"({_first_line(error)})."
            ) from None
        kind, separator = kinds.pop(), ","
        if kind == "csv":
            separator = separator_of(files[0])
            files = [with_even_line_ends(path, separator, Path(folder)) for path in files]
        try:
            table = TableFiles(connection, tuple(files), kind, separator, progress)
            if kind == "parquet":  # files may state far more values than their size holds
                sql = "SELECT sum(num_rows) FROM parquet_file_metadata($files)"
                (rows,) = table.run(sql).fetchone()
                stored = sum(path.stat().st_size for path in files)
                refuse_growth(files[0], int(rows or 0) * len(table.types) * 8, stored)
            yield table
        finally:
            connection.close()


def find_files(patterns: Sequence[str | Path]) -> list[Path]:
    """The files that names, patterns (``*``, ``**``) and folders refer to, sorted, each once."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        text = os.fspath(pattern)
        matches = [text] if os.path.exists(text) else sorted(glob.glob(text, recursive=True))
        if not matches:
            folder = Path(text).parent if Path(text).parent.is_dir() else Path()
            names = sorted(p.name for p in folder.iterdir() if _ending(p) in ENDINGS)
            hint = f" {did_you_mean(Path(text).name, names)}" if names else ""
            raise DataFileError(f"The file {text!r} does not exist.{hint}")
        found |= {path: None for match in matches for path in _files_of(Path(match))}
    return list(found)


def _files_of(path: Path) -> list[Path]:
    """The file, or the tables in a folder (Spark writes folders that are called x.parquet)."""
    if not path.is_dir():
        return [path]
    inside = sorted(p for p in path.rglob("*") if _ending(p) in ENDINGS and p.is_file())
    if not inside:
        raise DataFileError(
            f"The folder {str(path)!r} holds no CSV or Parquet file ({', '.join(ENDINGS)})."
        )
    return inside


def quoted(identifier: str) -> str:
    """An identifier for SQL, whatever it contains."""
    return '"' + identifier.replace('"', '""') + '"'


def fetched_list(values: Any) -> list[Any]:
    """A column that DuckDB fetched as a list, None where it is NULL."""
    mask = np.ma.getmaskarray(values)
    return [None if m else v for v, m in zip(np.ma.getdata(values).tolist(), mask, strict=True)]


def _as_patterns(files: Sequence[Path]) -> list[str]:
    """DuckDB reads file names as patterns: special characters are escaped."""
    return [glob.escape(str(path)) for path in files]


def _kind(path: Path) -> str:
    ending = _ending(path)
    if ending not in ENDINGS:
        raise DataFileError(
            f"{path} does not have the file extension of a CSV or Parquet file. Rename it to end "
            f"in one of {', '.join(ENDINGS)}."
        )
    if path.stat().st_size == 0:
        raise DataFileError(f"{path} is empty. Write it again.")
    return ENDINGS[ending]


def _ending(path: Path) -> str:
    name = path.name.lower()
    return next((e for e in sorted(ENDINGS, key=len, reverse=True) if name.endswith(e)), "")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
