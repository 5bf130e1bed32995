"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eqrm.errors import SettingError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to; it takes the place of ``path`` at the end.

    If anything goes wrong before, it is removed, and what was at ``path`` stays as it was.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with whole_file(folder / "table.md") as draft:
    ...     _ = draft.write_text("| a |")
    >>> [p.name for p in folder.iterdir()]
    ['table.md']
    """
    refuse_unwritable(path)
    path = path.resolve()  # a link stays a link, and what it points to is written
    draft = path.with_name(f".{secrets.token_hex(8)}{path.suffix}")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def refuse_unwritable(path: Path) -> None:
    """Raise if a file cannot be written there, before any work is done for it."""
    if path.is_dir():
        raise SettingError(f"{path} is a folder. Name a file in it.")
    if path.exists() and not path.is_file():
        raise SettingError(
            f"{path} is no plain file, and would be replaced by one. Choose another."
        )
    if not path.parent.is_dir():
        raise SettingError(f"There is no folder {path.parent}. Make it, or choose another.")
    if not os.access(path.parent, os.W_OK):
        raise SettingError(f"The folder {path.parent} cannot be written to. Choose another.")
