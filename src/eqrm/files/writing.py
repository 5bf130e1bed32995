"""Files that appear whole or not at all: everything that a user keeps is written here.

Also locks, which the operating system ends with the process that holds them, however that ends, and
cells of users' tables as a spreadsheet may open them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eqrm.errors import SettingError
from eqrm.text import counted, csv_cell, printable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CAN_LOCK = fcntl is not None

DRAFT = re.compile(r"\.[0-9a-f]{16}")
"""The name of a folder that is being written, or was when its process was killed."""


@contextmanager
def whole_file(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A temporary file beside ``path`` to write to; it takes the place of ``path`` at the end.

    If anything goes wrong before, it is removed, and what was at ``path`` stays as it was. With
    ``durable`` the content is on the disk before the file takes its place.
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
def whole_files(folder: Path, without: Collection[str] = ()) -> Iterator[Path]:
    """A temporary folder to write files to; at the end they take their places in ``folder``.

    All do so at once, also where the process is killed: the folder is new, or is exchanged for one
    that has its other files too. Where the system cannot exchange folders (only Linux can, within
    one disk), files are replaced one after the other. ``without`` are files that go away unless
    they are written again.
    """
    folder = folder.resolve()
    # Who works in a folder would be left in the one that is removed.
    movable = not folder.exists() or (
        os.access(folder.parent, os.W_OK) and not Path.cwd().is_relative_to(folder)
    )
    above = folder.parent if movable else folder
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
        if movable and _exchanged(draft, folder, without):
            return
        gone = {(folder / name).resolve() for name in without}
        for path in sorted(filter(Path.is_file, draft.rglob("*"))):
            place = folder / path.relative_to(draft)
            place.parent.mkdir(exist_ok=True)
            os.replace(path, place)
            gone.discard(place)
        for path in gone:
            if path.is_relative_to(folder):
                path.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error.filename, str):
            error.filename = error.filename.replace(str(draft), str(folder))
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _exchanged(draft: Path, folder: Path, without: Collection[str]) -> bool:
    """Whether the draft, with the other files of a folder, took its place, and the other way."""
    linked, gone = [], {Path(name) for name in without}
    try:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            place = draft / name
            if name in gone or DRAFT.fullmatch(name.parts[0]) or os.path.lexists(place):
                continue
            linked.append(place)
            if path.is_dir() and not path.is_symlink():
                place.mkdir()
                place.chmod(path.stat().st_mode)
            else:
                os.link(path, place, follow_symlinks=False)
        draft.chmod(folder.stat().st_mode)
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        exchange = None
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if exchange and exchange(here, os.fsencode(draft), here, os.fsencode(folder), both) == 0:
        for path in draft.rglob("*"):  # what came into the folder while it was looked at
            name = path.relative_to(draft)
            known = name in gone or DRAFT.fullmatch(name.parts[0]) or os.path.lexists(folder / name)
            if not known and not path.is_dir():
                path.rename(folder / name)
        return True
    for place in reversed(linked):
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        else:
            place.unlink(missing_ok=True)
    return False


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


def try_lock(handle: int, *, shared: bool = False) -> bool:
    """Lock an open file or folder without waiting; False where another process has it.

    The lock ends with the handle. Where the system knows no locks, the answer is True.
    """
    if not CAN_LOCK:
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


class GuardedCells:
    """Cells as every CSV file of this package holds them, and how many that changed."""

    def __init__(self) -> None:
        self.changed = 0

    def values(self, cells: Sequence[Any]) -> list[Any]:
        """The cells of a column, or of a header; most columns repeat few texts."""
        written: dict[Any, Any] = {cell: csv_cell(cell) for cell in set(cells)}
        odd = {cell for cell, text in written.items() if isinstance(cell, str) and text != cell}
        self.changed += sum(cell in odd for cell in cells) if odd else 0
        return [written[cell] for cell in cells]

    def batch(self, batch: Any, names: list[str]) -> Any:
        """An Arrow batch, with ``names`` for its columns."""
        import pyarrow
        from pyarrow import types

        columns = []
        for column in batch.columns:
            if types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if types.is_string(column.type) or types.is_large_string(column.type):
                column = pyarrow.array(self.values(column.to_pylist()), column.type)
            columns.append(column)
        return pyarrow.RecordBatch.from_arrays(columns, names=names)

    def sentence(self) -> str:
        """What was changed, and what to do; empty if nothing was."""
        if not self.changed:
            return ""
        were = "was" if self.changed == 1 else "were"
        return (
            f" {counted(self.changed, 'cell')} with control characters or the beginning of a "
            f"formula {were} made harmless for spreadsheets and terminals; a .parquet file keeps "
            "all cells as they are."
        )
