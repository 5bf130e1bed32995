"""How large a compressed file may become, checked before disk or memory is taken."""

from __future__ import annotations

import gzip
import io
import os
import re
import zipfile
import zlib
from pathlib import Path
from typing import IO

from eqrm.errors import DataFileError, SettingError

VARIABLE = "EQRM_UNPACK_LIMIT"
LARGEST_GROWTH = 100
ALWAYS_ALLOWED = 1 << 30
BAD_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError)
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"\s*(\d{1,18})\s*([KMGT]?B)?\s*", re.IGNORECASE)


def unpack_limit(stored: int) -> int:
    """The bytes that a file of this size may unpack to: 100 times as many, and 1 GiB at least.

    The environment variable ``EQRM_UNPACK_LIMIT`` sets another limit, such as ``50GB``.

    >>> unpack_limit(20_000_000)
    2000000000
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return max(LARGEST_GROWTH * stored, ALWAYS_ALLOWED)
    match = _SIZE.fullmatch(text)
    if match is None:
        raise SettingError(f"{VARIABLE} must be a size such as '50GB' or '500MB', got {text!r}.")
    unit = (match[2] or "").upper()
    return int(match[1]) * _UNITS["" if unit == "B" else unit]


def refuse_growth(path: Path, unpacked: int, stored: int | None = None) -> None:
    """Raise if what is in a file (or was read of it so far) is more than its limit."""
    stored = path.stat().st_size if stored is None else stored
    limit = unpack_limit(stored)
    if unpacked > limit:
        raise DataFileError(
            f"{path} has {stored:,} bytes and unpacks to {unpacked:,} or more, beyond the limit "
            f"of {limit:,}. If you trust the file, set the environment variable {VARIABLE} to a "
            "larger size, such as 50GB."
        )


def refuse_zip_growth(path: Path) -> None:
    """Raise if a zip archive states more content than its limit; other files pass."""
    try:
        with zipfile.ZipFile(path) as archive:
            stated = sum(entry.file_size for entry in archive.infolist())
    except (OSError, ValueError, *BAD_ZIP):
        return
    refuse_growth(path, stated)


def opened_gzip(path: Path) -> IO[bytes]:
    """The content of a gzip file, which ends in an error where it goes beyond the limit."""
    return io.BufferedReader(_LimitedGzip(path), 1 << 16)


class _LimitedGzip(io.RawIOBase):
    """Counts what was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = gzip.GzipFile(path)
        self.count = 0
        self.limit = unpack_limit(path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        found = self.file.readinto(buffer)
        self.count += found
        if self.count > self.limit:
            refuse_growth(self.path, self.count)
        return found

    def close(self) -> None:
        self.file.close()
        super().close()
