"""Download published datasets: resume interrupted downloads, verify checksums, and unpack."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eqrm.data.datasets.catalogue import Published, Source, published
from eqrm.data.fetching.unpacking import unpack
from eqrm.errors import DataFileError

BLOCK = 1 << 16
Report = Callable[[int, int | None], None]
"""Called after each block with the number of bytes so far and in total."""


def get_dataset(
    name: str, root: Path, begin: Callable[[Source], Report], timeout: float = 30.0
) -> list[Path]:
    """Fetch and unpack what is missing of a dataset; returns the new files and folders.

    ``begin`` is called before each download and returns its progress callback. Where no
    mirror answers, or there is none, the error says what to fetch by hand and where to put it.
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
            failures.append(f"{urlsplit(url).netloc}: {_reason(error)}")
            continue
        os.replace(part, target)
        _state_file(part).unlink(missing_ok=True)
        return target
    raise DataFileError(f"No mirror provided {source.file} ({'; '.join(failures)}).")


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"answered {error.code} {error.reason}"
    return str(getattr(error, "reason", None) or error).rstrip(".")


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
        goes_on = answer.status == 206 and _starts_at(answer, start)
        if not goes_on:
            start = 0
        _remember(part, url, answer)
        length = answer.headers.get("Content-Length")
        total = start + int(length) if length and length.isdigit() else None
        with part.open("ab" if goes_on else "wb") as file:
            _copy(answer, file, start, total, report)
    return part


def _copy(answer: Any, file: Any, there: int, total: int | None, report: Report) -> None:
    try:
        while block := answer.read(BLOCK):
            file.write(block)
            there += len(block)
            report(there, total)
    except http.client.IncompleteRead as error:
        file.write(error.partial)
        there += len(error.partial)
    except (TimeoutError, ConnectionError) as error:
        raise DataFileError(
            f"the connection broke after {there:,} bytes ({error}); run the command again to resume"
        ) from None
    if total is not None and there != total:
        raise DataFileError(
            f"the connection broke after {there:,} of {total:,} bytes; run the command again to "
            "resume"
        )


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


def _remember(part: Path, url: str, answer: Any) -> None:
    mark = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
    if mark.startswith("W/"):
        mark = ""  # a weak mark says nothing about the bytes
    _state_file(part).write_text(json.dumps({"url": url, "mark": mark}), encoding="utf-8")


def _starts_at(answer: Any, start: int) -> bool:
    return str(answer.headers.get("Content-Range", "")).startswith(f"bytes {start}-")


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
