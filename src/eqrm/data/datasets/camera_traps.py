"""Animals in photographs of camera traps, a domain per trap: TerraIncognita, iWildCam of WILDS."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from eqrm.checks import one_of
from eqrm.data.datasets.data_root import data_file
from eqrm.data.datasets.image_folders import data_of_images, image_folder
from eqrm.data.domain_data import DomainData
from eqrm.data.splits import refuse_shared
from eqrm.data.tables.kinds import NUMBER, column_of
from eqrm.data.tables.reading import read_texts
from eqrm.errors import DataFileError
from eqrm.files.checked_json import read_json

LOCATIONS = ("38", "43", "46", "100")
CLASSES = (
    *("bird", "bobcat", "cat", "coyote", "dog"),
    *("empty", "opossum", "rabbit", "raccoon", "squirrel"),
)
IMAGES = "eccv_18_all_images_sm"
ANNOTATIONS = "caltech_images_20210113.json"


def terra_incognita(
    root: str | os.PathLike[str] | None = None, *, size: int = 224, resident: str = "auto"
) -> DomainData:
    """Caltech Camera Traps as in DomainBed: 4 locations, 10 classes.

    Reads the official download (``terra_incognita/eccv_18_all_images_sm/`` and
    ``caltech_images_20210113.json``), or folders ``location_38/bird/*.jpg`` made of it. An image
    with two labels gets the first of them. x is (n, 3, size, size) bytes.
    """
    folder = data_file(root, "terra_incognita", "terraincognita")
    if not (folder / IMAGES).is_dir():
        return image_folder(root, folder=str(folder.absolute()), size=size, resident=resident)
    path = folder / ANNOTATIONS
    content = read_json(path)
    try:
        names = {category["id"]: category["name"] for category in content["categories"]}
        labels: dict[Any, str] = {}
        for annotation in content["annotations"]:
            label = names[annotation["category_id"]]
            if label in CLASSES:
                labels.setdefault(annotation["image_id"], label)
        found = [
            (
                _file_inside(image["file_name"], path),
                CLASSES.index(labels[image["id"]]),
                f"location_{image['location']}",
            )
            for image in content["images"]
            if str(image["location"]) in LOCATIONS and image["id"] in labels
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataFileError(
            f"{path} is not the annotation file of Caltech Camera Traps ({error!r})."
        ) from None
    if not found:
        raise DataFileError(f"{path} names no image of the locations {', '.join(LOCATIONS)}.")
    return data_of_images(folder / IMAGES, found, size, resident, target_names=CLASSES)


FOLDERS = ("iwildcam_v2.0", "iwildcam")
SPLITS = ("train", "val", "test", "id_val", "id_test")
WHOLE_DOMAINS = ("train", "val", "test")
NUMBERED = ("location_remapped", "sequence_remapped", "y")
COLUMNS = ("split", "filename", *NUMBERED)


def iwildcam(
    root: str | os.PathLike[str] | None = None,
    *,
    split: str = "all",
    size: int = 448,
    resident: str = "auto",
) -> DomainData:
    """iWildCam2020-WILDS, version 2.0, as its official download unpacks.

    The folder ``iwildcam_v2.0`` holds ``metadata.csv`` (a row per image), ``categories.csv`` and
    the images in ``train/``, whatever split they belong to. A domain is a camera trap, named by its
    ``location_remapped``. x is (n, 3, size, size) bytes (WILDS uses 448), y one of 182 species.
    """
    one_of(split, ("all", *SPLITS), "split")
    wanted = WHOLE_DOMAINS if split == "all" else (split,)
    folder = data_file(root, *FOLDERS)
    table, numbers = _metadata(folder / "metadata.csv")
    labels, locations = numbers["y"], numbers["location_remapped"]
    rows = [row for row, name in enumerate(table["split"]) if name in wanted]
    if not rows:
        raise DataFileError(f"{folder / 'metadata.csv'} has no row of the split {split!r}.")
    found = [
        (_file_inside(table["filename"][row], folder / "metadata.csv"), labels[row], locations[row])
        for row in rows
    ]
    traps = {
        name: {str(locations[row]) for row in rows if table["split"][row] == name}
        for name in wanted
    }
    refuse_shared(traps, f"{folder / 'metadata.csv'}: the trap")
    return data_of_images(
        folder / "train",
        found,
        size,
        resident,
        target_names=_species(folder / "categories.csv", max(labels) + 1),
        parts={name: tuple(sorted(found, key=int)) for name, found in traps.items()},
    )


def _metadata(path: Path) -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """The columns of metadata.csv, and those of numbers as numbers; refused if truncated.

    The published file ends with a line break, and its numbers count from 0 without gaps.
    """
    table = read_texts(path, COLUMNS)
    if not path.read_bytes().endswith(b"\n"):
        raise DataFileError(f"{path} is truncated in its last line. Fetch it again.")
    unknown = sorted(set(table["split"]) - set(SPLITS))
    if unknown:
        raise DataFileError(
            f"{path}: unknown split {unknown[0]!r}, expected one of {', '.join(SPLITS)}."
        )
    numbers = {name: _integers(table[name], path, name) for name in NUMBERED}
    for name, values in numbers.items():
        present = set(values)
        if len(present) != max(present) + 1:
            missing = next(number for number in range(max(present)) if number not in present)
            raise DataFileError(
                f"{path}: no row has {name} {missing}, although larger ones exist. "
                "Rows are missing: fetch it again."
            )
    return table, numbers


def _integers(values: list[str], path: Path, column: str) -> list[int]:
    numbers = column_of(column, np.array(values), NUMBER)
    if not len(numbers) or not ((numbers >= 0) & (numbers == np.rint(numbers))).all():
        raise DataFileError(f"{path}: {column} must hold integers of at least 0.")
    found: list[int] = numbers.astype(np.int64).tolist()
    return found


def _file_inside(name: str, path: Path) -> str:
    """A file name in a table is data: it may not point outside of the folder of images."""
    pure = PurePosixPath(name)
    if not name or pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise DataFileError(f"{path}: the file {name!r} is outside of the folder of images.")
    return name


def _species(path: Path, classes: int) -> tuple[str, ...]:
    """What each y is called; the numbers themselves where categories.csv is not there."""
    names = [str(number) for number in range(classes)]
    if path.is_file():
        table = read_texts(path, ["y", "name"])
        for number, name in zip(_integers(table["y"], path, "y"), table["name"], strict=True):
            # Species that no labelled image shows have the number 99999.
            if number < classes:
                names[number] = name
    return tuple(names)
