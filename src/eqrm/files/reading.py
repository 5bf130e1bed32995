"""What is checked before a file that somebody else made is read: its kind, its size, damage."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from eqrm.errors import DataFileError, SettingError

VARIABLE = "EQRM_UNPACK_LIMIT"
LARGEST_GROWTH = 100
ALWAYS_ALLOWED = 1 << 30
DAMAGES = (
    *(ArithmeticError, EOFError, LookupError, MemoryError, NotImplementedError, OSError),
    *(SyntaxError, TypeError, ValueError, tokenize.TokenError),
    *(lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error),
)
"""What parsers of other packages raise for a file that is damaged or foreign."""
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"\s*(\d{1,18})\s*([KMGT]?B)?\s*", re.IGNORECASE)


def regular_file(path: Path) -> Path:
    """The path itself; refused where it leads to a pipe, a device or a socket without end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return path
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return path
    kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
    raise DataFileError(
        f"{path} is not a regular file but a {kind}. Save its content to a file, and give that."
    )


@contextmanager
def refusing_damage(path: Path) -> Iterator[None]:
    """Turn errors while reading a file into errors that name the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataFileError(f"The file {path} does not exist.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataFileError(
            f"{path} is truncated or damaged: it cannot be decompressed. Fetch it again."
        ) from None
    except UnicodeDecodeError:
        raise DataFileError(f"{path} is not UTF-8 text. Is it the right file?") from None
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror or error}.") from None


def unpack_limit(stored: int) -> int:
    """The bytes that a file of this size may unpack to: 100 times as many, and 1 GiB at least.

    The environment variable ``EQRM_UNPACK_LIMIT`` sets another limit, such as ``50GB``.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return max(LARGEST_GROWTH * stored, ALWAYS_ALLOWED)
    match = _SIZE.fullmatch(text)
    if match is None:
        raise SettingError(f"{VARIABLE} must be a size such as '50GB' or '500MB', got {text!r}.")
    return int(match[1]) * _UNITS[(match[2] or "").upper()]


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
    except DAMAGES:
        return
    refuse_growth(path, stated)


def opened_bytes(path: Path) -> IO[bytes]:
    """The content of a file, decompressed on the way if its name ends in ``.gz``."""
    return opened_gzip(path) if path.suffix == ".gz" else path.open("rb")


def opened_text(path: Path, newline: str | None = "") -> IO[str]:
    """The text of a file without a byte order mark, decompressed if its name ends in ``.gz``."""
    return io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig", newline=newline)


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
