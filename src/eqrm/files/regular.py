"""Which files can be read to their end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from eqrm.errors import DataFileError


def regular_file(path: Path) -> Path:
    """The path itself; refused where it leads to a pipe, a device or a socket.

    Reading those may never end. What is missing, locked or a folder is left to whoever opens it.
    """
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
