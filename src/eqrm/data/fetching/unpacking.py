"""Unpack untrusted archives safely.

Names that lead out of the folder, links, devices, and content far beyond the size of the archive
are refused, and nothing of such an archive is kept.
"""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from eqrm.errors import DataFileError
from eqrm.files.limits import VARIABLE, refuse_zip_growth, unpack_limit

BLOCK = 1 << 20
DAMAGES = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    NotImplementedError,
    UnicodeDecodeError,
)


def unpack(archive: Path, folder: Path, limit: int | None = None) -> list[Path]:
    """Unpack a zip or tar archive; what lies at its top goes into ``folder``.

    Everything is unpacked beside the folder first, and then moved into it. ``limit`` is how
    many bytes may come out, by default that of :func:`eqrm.files.limits.unpack_limit`.
    """
    if limit is None:
        limit = unpack_limit(archive.stat().st_size)
        refuse_zip_growth(archive)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as draft:
        left = limit
        with _refusing_damage(archive):
            for name, content in _files(archive):
                with content:
                    left -= _write(content, _inside(Path(draft), name, archive), left, archive)
        tops = sorted(Path(draft).iterdir())
        taken = [top.name for top in tops if (folder / top.name).exists()]
        if taken:
            raise DataFileError(
                f"{folder / taken[0]} already exists, and {archive.name} contains one too. "
                "Move it away first."
            )
        for top in tops:
            shutil.move(top, folder / top.name)
    return [folder / top.name for top in tops]


@contextmanager
def _refusing_damage(archive: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGES as bad:
        reason = str(bad).splitlines()[0].rstrip(":") if str(bad) else type(bad).__name__
        raise DataFileError(
            f"{archive} is truncated, damaged or not an archive ({reason}). Fetch it again."
        ) from None
    except RuntimeError:  # zipfile's error for an encrypted member
        raise DataFileError(f"{archive} is encrypted and cannot be unpacked.") from None


def _files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The plain files of an archive; anything but files and folders is refused."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for entry in opened.infolist():
                kind = (entry.external_attr >> 16) & 0o170000
                if kind not in (0, 0o100000, 0o040000):
                    raise _refusal(archive, entry.filename, "is a link or a device")
                if not entry.is_dir():
                    yield entry.filename, opened.open(entry)
    else:
        with tarfile.open(archive, "r:*") as tape:
            for member in tape:
                if not member.isfile() and not member.isdir():
                    raise _refusal(archive, member.name, "is a link or a device")
                content = tape.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content
            _read_to_the_end(tape)


def _read_to_the_end(tape: tarfile.TarFile) -> None:
    """Read to the end of a compressed stream: its checksum is in the last bytes."""
    try:
        while tape.fileobj is not None and tape.fileobj.read(BLOCK):
            pass
    except OSError as error:  # what gzip and bz2 raise for a wrong checksum
        raise tarfile.ReadError(str(error)) from None


def _refusal(
    archive: Path, name: str, why: str, advice: str = "Do not trust this archive."
) -> DataFileError:
    return DataFileError(f"{archive} is not unpacked: {name!r} in it {why}. {advice}")


def _inside(folder: Path, name: str, archive: Path) -> Path:
    parts = PurePosixPath(name).parts
    odd = "\\" in name or "\0" in name or (parts and ":" in parts[0])
    if odd or not parts or PurePosixPath(name).is_absolute() or ".." in parts:
        raise _refusal(archive, name, "is outside of the folder")
    return folder.joinpath(*parts)


def _write(content: IO[bytes], path: Path, left: int, archive: Path) -> int:
    """Write one file, and count the actual bytes: the size that an archive states may be false."""
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            while block := content.read(BLOCK):
                written += len(block)
                if written > left:
                    raise _refusal(
                        archive,
                        path.name,
                        "makes it far larger than expected",
                        f"If you trust it, set {VARIABLE} to a larger size, such as 50GB.",
                    )
                file.write(block)
    except (FileExistsError, NotADirectoryError):
        raise _refusal(archive, path.name, "occurs twice") from None
    os.utime(path)
    return written
