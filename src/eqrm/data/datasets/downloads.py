"""Download published datasets: resume interrupted downloads, verify checksums, and unpack.

Archives are not trusted: names that lead out of the folder, links, devices, and content far beyond
the size of the archive are refused, and nothing of such an archive is kept.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from eqrm.data.datasets.registry import Published, Source, published
from eqrm.errors import DataFileError
from eqrm.files.reading import DAMAGES, VARIABLE, refuse_zip_growth, unpack_limit

BLOCK = 1 << 16
Report = Callable[[int, int | None], None]
"""Called after each block with the number of bytes so far and in total."""


def get_dataset(
    name: str, root: Path, begin: Callable[[Source], Report], timeout: float = 30.0
) -> list[Path]:
    """Fetch and unpack what is missing of a dataset; returns the new files and folders.

    ``begin`` is called before each download and returns its progress callback.
    """
    key, entry = published(name)
    if entry.found(root):
        return []
    if not entry.sources:
        raise DataFileError(f"{key} cannot be fetched automatically. {by_hand(entry, root)}")
    new: list[Path] = []
    for source in entry.sources:
        if source.done(root):
            continue
        try:
            file = fetch(source, root, begin(source), timeout)
        except DataFileError as error:
            raise DataFileError(f"{error} {by_hand(entry, root)}") from None
        if source.unpack is None:
            new.append(file)
        else:
            new += unpack(file, root / source.unpack)
            file.unlink()  # what it held is there now, and would only be there twice
    return new


def by_hand(entry: Published, root: Path | None) -> str:
    """What to fetch by hand: addresses, file names, and the folder they belong in."""
    place = "the data root" if root is None else f"the data root {root}"
    addresses = [f"{source.urls[0]} → {source.file}" for source in entry.sources]
    files = f" Files: {'; '.join(addresses)}." if addresses else ""
    return f"By hand, in {place}: {entry.by_hand}{files} Homepage: {entry.homepage}"


def fetch(source: Source, root: Path, report: Report, timeout: float = 30.0) -> Path:
    """Fetch a file to its place under the data root, from the first mirror that gives it.

    Partial downloads are kept in ``NAME.part``; the next call resumes from there if the server
    still has the same file. A file with a wrong checksum is deleted.
    """
    target = root / source.file
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for url in source.urls:
        try:
            part = _download(url, target, report, timeout)
            _check(part, source, target)
        except (OSError, http.client.HTTPException, DataFileError) as error:
            reason = str(getattr(error, "reason", None) or error).rstrip(".")
            if isinstance(error, urllib.error.HTTPError):
                reason = f"answered {error.code} {reason}"
            failures.append(f"{urlsplit(url).netloc}: {reason}")
            continue
        os.replace(part, target)
        _state_file(part).unlink(missing_ok=True)
        return target
    raise DataFileError(f"No mirror provided {source.file} ({'; '.join(failures)}).")


def _download(url: str, target: Path, report: Report, timeout: float) -> Path:
    """Bring the ``.part`` file to its full length."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataFileError(f"{url} is not a web address")
    part = target.with_name(target.name + ".part")
    start, mark = _what_is_there(part, url)
    headers = {"User-Agent": "eqrm", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": mark}
    request = urllib.request.Request(url, headers=headers)
    try:
        opened = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        # There is nothing from here on: all of it has arrived, or the file is another one now.
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return part
        _state_file(part).unlink(missing_ok=True)
        return _download(url, target, report, timeout)
    with opened as answer:
        place = answer.headers.get("Content-Range", "")
        goes_on = answer.status == 206 and place.startswith(f"bytes {start}-")
        there = start if goes_on else 0
        mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        mark = "" if mark.startswith("W/") else mark  # a weak mark says nothing about the bytes
        _state_file(part).write_text(json.dumps({"url": url, "mark": mark}), encoding="utf-8")
        length = answer.headers.get("Content-Length")
        total = there + int(length) if length and length.isdigit() else None
        reason = ""
        with part.open("ab" if goes_on else "wb") as file:
            try:
                while block := answer.read(BLOCK):
                    there += file.write(block)
                    report(there, total)
            except http.client.IncompleteRead as error:
                there += file.write(error.partial)
            except (TimeoutError, ConnectionError) as error:
                reason = f" ({error})"
    if reason or (total is not None and there != total):
        of = "" if total is None else f" of {total:,}"
        raise DataFileError(
            f"the connection broke after {there:,}{of} bytes{reason}; run the command again to "
            "resume"
        )
    return part


def _state_file(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _what_is_there(part: Path, url: str) -> tuple[int, str]:
    """How much of this very file has arrived, and the server's mark for it; 0 if none."""
    try:
        state = json.loads(_state_file(part).read_text(encoding="utf-8"))
        if state["url"] == url and state["mark"]:
            return part.stat().st_size, str(state["mark"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0, ""


def _check(part: Path, source: Source, target: Path) -> None:
    """Delete a file that is not the one that was published."""
    problem = None
    size = part.stat().st_size
    if source.size is not None and size != source.size:
        problem = f"it has {size:,} bytes instead of {source.size:,}"
    elif source.md5 is not None and (found := _md5(part, target.suffix == ".gz")) != source.md5:
        problem = f"its checksum is {found} instead of {source.md5}"
    if problem is not None:
        part.unlink()
        _state_file(part).unlink(missing_ok=True)
        raise DataFileError(f"sent another file ({problem}), which was deleted")


def _md5(path: Path, compressed: bool) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with gzip.open(path, "rb") if compressed else path.open("rb") as file:
            for block in iter(lambda: file.read(BLOCK), b""):
                digest.update(block)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return "that of a damaged file"
    return digest.hexdigest()


def unpack(archive: Path, folder: Path) -> list[Path]:
    """Unpack a zip or tar archive; what lies at its top goes into ``folder``.

    Everything is unpacked beside the folder first, and then moved into it.
    """
    left = unpack_limit(archive.stat().st_size)
    refuse_zip_growth(archive)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as draft:
        with _sound(archive):
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
def _sound(archive: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGES as bad:
        if isinstance(bad, DataFileError) or getattr(bad, "errno", None):
            raise  # of the disk, not of the archive
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
            while tape.fileobj is not None and tape.fileobj.read(BLOCK):
                pass  # the checksum of a compressed stream is in its last bytes


def _refusal(archive: Path, name: str, why: str) -> DataFileError:
    return DataFileError(f"{archive} is not unpacked: {name!r} in it {why}.")


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
                    why = "makes it far larger than expected. If you trust it, set "
                    why += f"{VARIABLE} to a larger size, such as 50GB"
                    raise _refusal(archive, path.name, why)
                file.write(block)
    except (FileExistsError, NotADirectoryError):
        raise _refusal(archive, path.name, "occurs twice") from None
    os.utime(path)
    return written
