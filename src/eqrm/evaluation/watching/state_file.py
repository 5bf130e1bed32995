"""The file of a watch: whole at every moment, and with the one before it beside.

The first line has a digest of the others, one per certificate and per domain. Every change writes
``STATE.previous`` first, a copy of the state as it was, and then replaces the state. A process
that is killed leaves the state of before or of after, never one between.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eqrm.errors import DataFileError
from eqrm.evaluation.watching.state import WatchState
from eqrm.files.checked_json import read_checked_lines, write_checked_lines
from eqrm.files.writing import CAN_LOCK, try_lock, whole_file
from eqrm.text import counted

FORMAT, WHAT = "eqrm watch 3", "the state of a watch"
ATTEMPTS = 100


def previous_path(path: Path) -> Path:
    """Where the state before the last change is kept."""
    return path.with_name(f"{path.name}.previous")


def read_state(path: Path) -> WatchState:
    """The state in a file; a damaged one is refused with what is left of it."""
    if not path.exists():
        raise DataFileError(f"The state {path} does not exist. {_about_previous(path)}")
    try:
        return _read(path)
    except DataFileError as error:
        raise DataFileError(f"{error} {_about_previous(path)}") from None


def write_state(path: Path, state: WatchState) -> None:
    """Write a state, and keep the one before it."""
    if path.exists():
        with whole_file(previous_path(path), durable=True) as draft:
            draft.write_bytes(path.read_bytes())
    write_checked_lines(path, FORMAT, state.entries())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing a state meanwhile; refused where one of them does.

    The lock is on the file that is at ``path`` once it is held: the one before may have been
    replaced while it was opened.
    """
    for _ in range(ATTEMPTS):
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # a new state: its folder is locked until it is written
            if not CAN_LOCK:
                yield
                return
            handle = os.open(path.parent, os.O_RDONLY)
        try:
            if not try_lock(handle):
                raise DataFileError(
                    f"Another process is changing {path} now. Run the command again when it is "
                    "done."
                )
            where = path if path.exists() else path.parent
            if os.path.samestat(os.fstat(handle), os.stat(where)):
                yield
                return
        finally:
            os.close(handle)
    raise DataFileError(f"{path} is being replaced all the time. Run the command again later.")


def _read(path: Path) -> WatchState:
    return WatchState.of(read_checked_lines(path, FORMAT, WHAT), str(path))


def _about_previous(path: Path) -> str:
    kept = previous_path(path)
    if not kept.exists():
        return "Start a watch: eqrm watch STATE --start evaluation.json …"
    try:
        domains = [record for record in _read(kept).history if "domain" in record]
    except DataFileError:
        return f"{kept} is damaged too. Restore one of them from a copy, or start a new watch."
    last = f", the last of them {domains[-1]['domain']!r}" if domains else ""
    return (
        f"The state before the last change is in {kept} "
        f"({counted(len(domains), 'domain')}{last}): copy it to {path}, and give the files since "
        "then again."
    )
