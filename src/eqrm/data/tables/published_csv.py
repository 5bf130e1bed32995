"""Comma-separated files as they were published, plain or compressed, read into lists."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from eqrm.errors import DataFileError, near_names


@contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into an error that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataFileError(f"There is no file {path}.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataFileError(
            f"{path} is damaged or was cut off: it cannot be uncompressed. Fetch it again."
        ) from None
    except UnicodeDecodeError:
        raise DataFileError(f"{path} is no text. Is it the right file?") from None
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror or error}.") from None


def opened(path: Path) -> IO[str]:
    """The text of a file, uncompressed on the way if its name ends in ``.gz``."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open("r", encoding="utf-8", newline="")


def read_columns(path: Path, wanted: Sequence[str]) -> dict[str, list[str]]:
    """Columns of a file whose first line names them; empty lines do not count.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "m.csv"
    >>> _ = file.write_text("smiles,active\\n\\nCCO,1\\n")
    >>> read_columns(file, ["active", "smiles"])
    {'active': ['1'], 'smiles': ['CCO']}
    """
    with refusing_damage(path), opened(path) as file:
        try:
            rows = csv.reader(file)
            header = next(rows, [])
            for name in wanted:
                if name not in header:
                    raise DataFileError(
                        f"{path} has no column {name!r}. {near_names(name, header)}"
                    )
            table = [row for row in rows if row]
        except csv.Error as error:
            raise DataFileError(f"{path} is no comma-separated table: {error}.") from None
    short = next((n for n, row in enumerate(table) if len(row) != len(header)), None)
    if short is not None:
        raise DataFileError(
            f"{path}: row {short + 1} has {len(table[short])} fields, and the header has "
            f"{len(header)}. The file is damaged or was cut off."
        )
    return {name: [row[header.index(name)] for row in table] for name in wanted}


def column_names(path: Path) -> list[str]:
    """The names in the first line of a file."""
    with refusing_damage(path), opened(path) as file:
        try:
            return next(csv.reader(file), [])
        except csv.Error as error:
            raise DataFileError(f"{path} is no comma-separated table: {error}.") from None


def numbers(values: Sequence[str], path: Path, column: str) -> list[float]:
    """Text as numbers; nothing, and ``nan``, stand for what is missing.

    >>> numbers(["1", "", "0.5"], Path("m.csv"), "active")
    [1.0, nan, 0.5]
    """
    found = []
    for row, value in enumerate(values):
        try:
            found.append(float(value) if value.strip() else float("nan"))
        except ValueError:
            raise DataFileError(
                f"{path}: {column} of row {row + 1} is {value!r}, which is no number."
            ) from None
    return found
