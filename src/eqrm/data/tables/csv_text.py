"""CSV files before DuckDB reads them: separator, line endings, and what is wrong with a line.

DuckDB reads a file with one kind of line ending, and its errors do not always name the line.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from eqrm.errors import DataFileError
from eqrm.files.reading import opened_bytes, opened_text, refusing_damage
from eqrm.text import counted

SEPARATORS = (",", ";", "\t", "|")
SAMPLE = 20
"""Lines from which the separator is guessed."""
LONGEST_LINE = 1 << 24
"""In bytes: DuckDB's default would refuse ten thousand columns of long numbers."""
BLOCK = 1 << 20


class LineError(DataFileError):
    """A line of a CSV file cannot be read."""


def records(path: Path, separator: str, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The line at which each record begins, and its fields; empty lines are skipped.

    ``strict`` refuses quotes that are not closed, or that end before the field does.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # is only ever raised
    with refusing_damage(path), opened_text(path) as file:
        reader = csv.reader(file, delimiter=separator, strict=strict)
        first = 1
        try:
            for fields in reader:
                if fields:
                    yield first, fields
                first = reader.line_num + 1
        except csv.Error as error:
            reason = "a quote is opened and not closed" if "end of data" in str(error) else error
            raise LineError(f"Line {first:,} of {path.name}: {reason}") from None


def separator_of(path: Path) -> str:
    """The separator that splits the first lines into the same, largest number of fields."""

    def evenness(separator: str) -> tuple[bool, int]:
        try:
            counts = [len(fields) for _, fields in islice(records(path, separator), SAMPLE)]
        except LineError:
            return False, 0
        return len(set(counts)) == 1, counts[0] if counts else 0

    found = {separator: evenness(separator) for separator in SEPARATORS}
    several = {separator: score for separator, score in found.items() if score[1] > 1}
    return max(several, key=several.__getitem__, default=",")


def header_of(path: Path, separator: str) -> list[str]:
    """The names of the columns."""
    return [field.strip() for _, fields in islice(records(path, separator), 1) for field in fields]


def even_records(path: Path, separator: str) -> Iterator[list[str]]:
    """The fields of each record; ``LineError`` for one that does not fit the header."""
    width = 0
    for line, fields in records(path, separator, strict=True):
        width = width or len(fields)
        if len(fields) != width:
            raise LineError(
                f"Line {line:,} of {path.name} has {counted(len(fields), 'field')}, and the "
                f"header has {width:,}"
            )
        if sum(map(len, fields)) > LONGEST_LINE:
            raise LineError(f"Line {line:,} of {path.name} has more than {LONGEST_LINE:,} bytes")
        yield fields


def wrong_line(files: Sequence[Path], separator: str) -> str | None:
    """What is wrong with the first line that cannot be read; None where another reason is."""
    for path in files:
        try:
            deque(even_records(path, separator), maxlen=0)
        except LineError as error:
            return str(error)
        except DataFileError:
            return None
    return None


def with_even_line_ends(path: Path, separator: str, folder: Path) -> Path:
    """The file, or a copy in ``folder`` with uniform line endings if they are mixed.

    A compressed file is read to its end, where the checksum of all before is.
    """
    if not _has_mixed_ends(path):
        return path
    copy = folder / path.name.removesuffix(".gz")
    with copy.open("w", encoding="utf-8", newline="") as plain:
        writer = csv.writer(plain, delimiter=separator, lineterminator="\n")
        try:
            writer.writerows(even_records(path, separator))
        except LineError as error:
            raise DataFileError(f"{path} cannot be read as CSV. {error}.") from None
    return copy


def _has_mixed_ends(path: Path) -> bool:
    """Whether a file has more than one of CR, LF and both."""
    both = returns = feeds = 0
    with refusing_damage(path), opened_bytes(path) as file:
        last = b""
        while block := file.read(BLOCK):
            block, last = last + block, b"\r" if block.endswith(b"\r") else b""
            block = block[: len(block) - len(last)]  # a CR may be half of a line ending
            returns += block.count(b"\r")
            feeds += block.count(b"\n")
            both += block.count(b"\r\n")
        returns += len(last)
    return sum(count > 0 for count in (both, returns - both, feeds - both)) > 1
