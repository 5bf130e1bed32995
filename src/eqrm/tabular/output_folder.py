"""The folder of a training: what may be replaced in it, and whether it can be written."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from eqrm.errors import DataFileError, SettingError
from eqrm.files.checked_json import read_json
from eqrm.files.writing import DRAFT

LISTED = "files.json"
"""Lists what a training wrote, so that the next one in the same folder can replace it."""
WRITER = "eqrm train"


def check_folder(folder: Path, ours: Collection[str] | None = None) -> None:
    """Raise if the results cannot be written there without overwriting other files.

    ``ours`` are names that may be replaced; by default what an earlier training listed.
    """
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file. Choose a folder for the output.")
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    inside = {name for name in there if not DRAFT.fullmatch(name)}
    known = inside <= set(ours) if ours is not None else earlier_files(folder) is not None
    if inside and not known:
        raise SettingError(
            f"The folder {folder} contains other files. Choose a new one, or empty it."
        )
    above = folder if folder.is_dir() else _first_that_exists(folder)
    if not above.is_dir():
        raise SettingError(
            f"{above} is a file, so that {folder} cannot be created. Choose another."
        )
    if not os.access(above, os.W_OK):
        raise SettingError(f"The folder {above} is not writable. Choose another.")


def _first_that_exists(folder: Path) -> Path:
    return next(parent for parent in folder.resolve().parents if parent.exists())


def listing(names: list[str], about: Mapping[str, Any]) -> str:
    """The list of what a training wrote, and more about it."""
    return json.dumps({"written by": WRITER, "files": names, **about}, indent=1) + "\n"


def earlier_files(folder: Path) -> list[str] | None:
    """What an earlier training listed, or None."""
    content = listed_files(folder)
    return None if content is None else [str(name) for name in content["files"]]


def listed_files(folder: Path) -> dict[str, Any] | None:
    """The list of a training, or None: a list that something else wrote does not count."""
    try:
        listed = read_json(folder / LISTED)
    except DataFileError:
        return None
    return listed if isinstance(listed, dict) and listed.get("written by") == WRITER else None
