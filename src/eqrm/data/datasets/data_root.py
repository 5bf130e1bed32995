"""The data root, which datasets are read from, and what is kept of slow reading.

Cached files are archives of tensors (:mod:`eqrm.files.archive`), so reading one cannot run code,
and one that is damaged is made again.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from eqrm.errors import DataFileError, EqrmError, EqrmWarning, Setting, SettingError

if TYPE_CHECKING:
    from eqrm.files.archive import Archive

FORMAT = "eqrm cache 1"
T = TypeVar("T")


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that datasets are read from: ``root``, or the environment's ``EQRM_DATA``."""
    named = os.fspath(root) if root is not None else os.environ.get("EQRM_DATA", "")
    if not named:
        raise SettingError(
            "Datasets are read from a data root. Set the environment variable EQRM_DATA to a "
            f"folder, or pass one ({Setting('root')})."
        )
    path = Path(named).expanduser()
    if not path.is_dir():
        raise DataFileError(f"The data root {path} is not a folder. Create it, or choose another.")
    return path


def own_file(root: str | os.PathLike[str] | None, file: str) -> Path:
    """A file, pattern or folder of the user's: in the working directory, or in the data root."""
    if not isinstance(file, (str, os.PathLike)) or not str(file).strip():
        raise SettingError(
            "file must be the name of a file, pattern or folder, such as 'rows.csv' ('.' is the "
            f"working directory), got {file!r}."
        )
    places = {f"the working directory {Path.cwd()}": Path(file).expanduser()}
    if root is not None or os.environ.get("EQRM_DATA"):
        places[f"the data root {data_root(root)}"] = data_root(root) / file
    for place in places.values():
        if place.exists() or glob.glob(str(place), recursive=True):
            return place
    hint = "" if len(places) > 1 else f" (no data root is set: use EQRM_DATA or {Setting('root')})"
    raise DataFileError(f"The file {file} is not in {' or in '.join(places)}{hint}.")


def data_file(root: str | os.PathLike[str] | None, *places: str) -> Path:
    """The first of these files or folders that exists, in the data root or by absolute path."""
    if len(places) == 1 and Path(places[0]).expanduser().is_absolute():
        path = Path(places[0]).expanduser()
        if not path.exists():
            raise DataFileError(f"The file {path} does not exist.")
        return path
    folder = data_root(root)
    for place in places:
        if (folder / place).exists():
            return folder / place
    raise DataFileError(
        f"{' or '.join(places)} is not in the data root {folder}. 'eqrm data list' shows what is; "
        "'eqrm data get NAME' fetches a dataset."
    )


def file_key(path: Path, *parts: str) -> str:
    """A key that changes when the content of a file or any of the parts does."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    digest.update(json.dumps(parts).encode())
    return digest.hexdigest()[:32]


def cached(name: str, key: str, make: Callable[[], Archive]) -> Archive:
    """The result of ``make()``, kept in the cache folder (``EQRM_CACHE``) where possible."""
    from eqrm.files.archive import read_archive, write_archive

    user = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(os.environ.get("EQRM_CACHE") or f"{user}/eqrm").expanduser()
    path = folder / f"{name}-{key}.safetensors"
    if path.is_file():
        try:
            return read_archive(path, FORMAT, "a cached dataset", tensors=True)
        except DataFileError:
            warnings.warn(
                f"{path} is damaged or from another version. It is rebuilt.",
                EqrmWarning,
                stacklevel=3,
            )
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_archive(path, FORMAT, made.content, made.tensors)
    except (OSError, EqrmError):
        pass
    return made


def progress(items: Sequence[T], words: str) -> Iterable[T]:
    """Iterate over the items with a progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, words, console=Console(stderr=True), transient=True)
