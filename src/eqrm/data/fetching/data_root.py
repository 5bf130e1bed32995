"""The data root, which datasets are read from, and files in it that may be damaged."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from eqrm.errors import DataFileError, SettingError
from eqrm.files.limits import opened_gzip


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that datasets are read from: ``root``, or the environment's ``EQRM_DATA``.

    >>> data_root("/")
    PosixPath('/')
    """
    named = os.fspath(root) if root is not None else os.environ.get("EQRM_DATA", "")
    if not named:
        raise SettingError(
            "Datasets are read from a data root. Set the environment variable EQRM_DATA to a "
            "folder, or pass one (root=, --data-root)."
        )
    path = Path(named).expanduser()
    if not path.is_dir():
        raise DataFileError(f"The data root {path} is not a folder. Create it, or choose another.")
    return path


def own_file(root: str | os.PathLike[str] | None, file: str) -> Path:
    """A file, pattern or folder of the user's own: in the working directory, or in the data root.

    It needs no data root.

    >>> own_file("/", "no/such/file.csv")
    Traceback (most recent call last):
        ...
    eqrm.errors.DataFileError: The file no/such/file.csv is not in the working ...
    """
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
    hint = "" if len(places) > 1 else " (no data root is set: use EQRM_DATA or --data-root)"
    raise DataFileError(f"The file {file} is not in {' or in '.join(places)}{hint}.")


def data_file(root: str | os.PathLike[str] | None, *places: str) -> Path:
    """The first of these files or folders that exists, in the data root or by absolute path.

    >>> data_file("/", "no/such/file")
    Traceback (most recent call last):
        ...
    eqrm.errors.DataFileError: no/such/file is not in the data root /. ...
    """
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


def opened_bytes(path: Path) -> IO[bytes]:
    """The content of a file, decompressed on the way if its name ends in ``.gz``.

    Content far beyond the size of the file is refused (:mod:`eqrm.files.limits`).
    """
    return opened_gzip(path) if path.suffix == ".gz" else path.open("rb")


def opened_text(path: Path, newline: str | None = "") -> IO[str]:
    """The text of a file without a byte order mark, decompressed if its name ends in ``.gz``."""
    return io.TextIOWrapper(opened_bytes(path), encoding="utf-8-sig", newline=newline)
