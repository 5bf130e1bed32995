"""The folder of a training: what may be replaced in it, and whether it can be written."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eqrm.checks import one_of
from eqrm.errors import DataFileError, DomainDataError, SettingError
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
    above = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    if not above.is_dir():
        raise SettingError(
            f"{above} is a file, so that {folder} cannot be created. Choose another."
        )
    if not os.access(above, os.W_OK):
        raise SettingError(f"The folder {above} is not writable. Choose another.")


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


@contextmanager
def refusing_damaged(folder: Path) -> Iterator[None]:
    """Say that a folder is damaged where what it holds is not what a training wrote."""
    try:
        yield
    except DataFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataFileError(
            f"The folder {folder} is damaged: {error}. Train again, or use one of the files in "
            f"{folder / 'models'}."
        ) from None


def saved_models(content: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """The files of a training's models by name, and the name of the one that was chosen.

    ``content`` is what the training listed.
    """
    files = dict(content["models"])
    for file in map(Path, files.values()):
        if file.is_absolute() or ".." in file.parts:
            raise DomainDataError(f"it lists {str(file)!r}, which is outside of it")
    return files, one_of(content["recommended"], files, "model")


def chosen_model(folder: Path) -> tuple[str, Path]:
    """The name and the file of the model that a training chose, in its folder."""
    with refusing_damaged(folder):
        files, chosen = saved_models(listed_files(folder) or {})
    return chosen, folder / files[chosen]
