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
