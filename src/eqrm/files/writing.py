"""Files that appear whole or not at all: everything that a user keeps is written here."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eqrm.errors import SettingError
from eqrm.text import printable

DRAFT = re.compile(r"\.[0-9a-f]{16}")
"""The name of a folder that is being written, or was when its process was killed."""


@contextmanager
def whole_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to; it takes the place of ``path`` at the end.

    If anything goes wrong before, it is removed, and what was at ``path`` stays as it was. With
    ``durable`` the content is on the disk before the file takes its place.

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
        draft.touch()
        mode = draft.stat().st_mode
        yield draft
        draft.chmod(mode)  # some libraries replace it by a file that only its owner can read
        if durable:
            _force_to_disk(draft)
        os.replace(draft, path)
        if durable:
            _force_to_disk(path.parent)  # the rename itself
    except OSError as error:
        known = error.errno is not None  # without one, the message is all there is
        if known and error.filename in (None, str(draft)):  # that of a full disk names no file
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def whole_files(folder: Path) -> Iterator[Path]:
    """A temporary folder to write files to; at the end they take their places in ``folder``.

    If anything goes wrong before, it is removed, and what was in ``folder`` stays as it was. A
    folder that does not exist yet appears with all of its files at once.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "new"
    >>> with whole_files(folder) as draft:
    ...     _ = (draft / "a.md").write_text("| a |")
    ...     print(folder.exists())
    False
    >>> [p.name for p in folder.iterdir()]
    ['a.md']
    """
    folder = folder.resolve()
    above = folder if folder.exists() else folder.parent
    above.mkdir(parents=True, exist_ok=True)
    draft = above / f".{secrets.token_hex(8)}"
    try:
        draft.mkdir()
        yield draft
        if not folder.exists():
            try:
                draft.rename(folder)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise  # else another process has made it meanwhile
        for path in sorted(path for path in draft.rglob("*") if path.is_file()):
            place = folder / path.relative_to(draft)
            place.parent.mkdir(exist_ok=True)
            os.replace(path, place)
    except OSError as error:
        if isinstance(error.filename, str):
            error.filename = error.filename.replace(str(draft), str(folder))
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, printable, with the same bytes on every operating system."""
    with whole_file(path) as draft:
        draft.write_text(printable(text), encoding="utf-8", newline="\n")


def refuse_unwritable(path: Path) -> None:
    """Raise if a file cannot be written there, before any work is done for it."""
    if path.is_dir():
        raise SettingError(f"{path} is a folder. Give the name of a file in it.")
    if path.exists() and not path.is_file():
        raise SettingError(f"{path} is not a regular file and is not replaced. Choose another.")
    if not path.parent.is_dir():
        raise SettingError(
            f"The folder {path.parent} does not exist. Create it, or choose another."
        )
    if not os.access(path.parent, os.W_OK):
        raise SettingError(f"The folder {path.parent} is not writable. Choose another.")


def is_full_disk(error: OSError) -> bool:
    """Whether a file was not written because the disk is full, or the user's share of it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _force_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
