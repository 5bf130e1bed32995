"""Bring a published dataset under the data root, or say exactly how to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eqrm.data.datasets.catalogue import Published, Source, published
from eqrm.data.fetching.downloads import Report, fetch
from eqrm.data.fetching.unpacking import unpack
from eqrm.errors import DataFileError


def get_dataset(
    name: str, root: Path, begin: Callable[[Source], Report], timeout: float = 30.0
) -> list[Path]:
    """Fetch and unpack what is missing of a dataset; the files and folders that came.

    ``begin`` is called before each download, and gives what is told of its progress. Where no
    mirror answers, or there is none, the error says what to fetch by hand and where to put it.
    """
    key, entry = published(name)
    if entry.found(root):
        return []
    if not entry.sources:
        raise DataFileError(f"{key} has no mirror that can be fetched from. {by_hand(entry, root)}")
    came: list[Path] = []
    for source in entry.sources:
        if source.done(root):
            continue
        try:
            file = fetch(source, root, begin(source), timeout)
        except DataFileError as error:
            raise DataFileError(f"{error} {by_hand(entry, root)}") from None
        if source.unpack is None:
            came.append(file)
        else:
            came += unpack(file, root / source.unpack)
            file.unlink()  # what it held is there now, and would only be there twice
    return came


def by_hand(entry: Published, root: Path | None) -> str:
    """What to fetch by hand: addresses, file names, and the folder to put them in."""
    place = "the data root" if root is None else f"the data root {root}"
    addresses = [f"{source.urls[0]} → {source.file}" for source in entry.sources]
    files = f" Files: {'; '.join(addresses)}." if addresses else ""
    return f"By hand, in {place}: {entry.by_hand}{files} Homepage: {entry.homepage}"
