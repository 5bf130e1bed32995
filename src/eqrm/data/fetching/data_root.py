"""The data root: the one folder that every dataset is read from."""

from __future__ import annotations

import os
from pathlib import Path

from eqrm.errors import DataFileError, SettingError


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that datasets are read from: ``root``, or the environment's ``EQRM_DATA``.

    >>> data_root("/")
    PosixPath('/')
    """
    named = os.fspath(root) if root is not None else os.environ.get("EQRM_DATA", "")
    if not named:
        raise SettingError(
            "Datasets are read from a data root. Set the environment variable EQRM_DATA to a "
            "folder, or name one (root=, --data-root)."
        )
    path = Path(named).expanduser()
    if not path.is_dir():
        raise DataFileError(f"The data root {path} is no folder. Make it, or name another.")
    return path


def own_file(root: str | os.PathLike[str] | None, file: str) -> Path:
    """A file of the user's own: as it is named from the working directory, or in the data root.

    It needs no data root.

    >>> own_file("/", "no/such/file.csv")
    Traceback (most recent call last):
        ...
    eqrm.errors.DataFileError: There is no file no/such/file.csv, neither in the working ...
    """
    here = Path(file).expanduser()
    if here.is_file():
        return here
    if here.is_dir():
        raise DataFileError(f"{here} is a folder: name a file in it.")
    if here.is_absolute():
        raise DataFileError(f"There is no file {here}.")
    looked = f"in the working directory {Path.cwd()}"
    if root is not None or os.environ.get("EQRM_DATA"):
        folder = data_root(root)
        if (folder / file).is_file():
            return folder / file
        looked = f"neither {looked} nor in the data root {folder}"
    else:
        looked = f"not {looked}, and there is no data root to look in (EQRM_DATA, --data-root)"
    raise DataFileError(f"There is no file {file}, {looked}. An absolute path works anywhere.")


def data_file(root: str | os.PathLike[str] | None, *places: str) -> Path:
    """The first of these files or folders that is there, in the data root or by absolute path.

    >>> data_file("/", "no/such/file")
    Traceback (most recent call last):
        ...
    eqrm.errors.DataFileError: There is no no/such/file in the data root /. ...
    """
    if len(places) == 1 and Path(places[0]).expanduser().is_absolute():
        path = Path(places[0]).expanduser()
        if not path.exists():
            raise DataFileError(f"There is no file {path}.")
        return path
    folder = data_root(root)
    for place in places:
        if (folder / place).exists():
            return folder / place
    raise DataFileError(
        f"There is no {' or '.join(places)} in the data root {folder}. "
        "'eqrm data list' shows what there is, 'eqrm data get NAME' how to get the rest."
    )
