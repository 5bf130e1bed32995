"""TerraIncognita: animals at four of Caltech's camera traps, a domain per trap."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from eqrm.data.datasets.image_folders import ImageFiles, image_folder, resident_or_lazy
from eqrm.data.datasets.wilds import file_inside
from eqrm.data.domain_data import DomainData
from eqrm.data.fetching.data_root import data_file, refusing_damage
from eqrm.errors import DataFileError
from eqrm.files.checked_json import parsed_json
from eqrm.files.regular import regular_file

LOCATIONS = ("38", "43", "46", "100")
CLASSES = (
    "bird",
    "bobcat",
    "cat",
    "coyote",
    "dog",
    "empty",
    "opossum",
    "rabbit",
    "raccoon",
    "squirrel",
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

    Args:
        root: the data root.
        size: images are scaled to size × size.
        resident: see :func:`eqrm.data.datasets.image_folders.image_folder`.
    """
    folder = data_file(root, "terra_incognita", "terraincognita")
    if not (folder / IMAGES).is_dir():
        return image_folder(root, folder=str(folder.absolute()), size=size, resident=resident)
    path = folder / ANNOTATIONS
    content = _read(path)
    try:
        names = {category["id"]: category["name"] for category in content["categories"]}
        labels: dict[Any, str] = {}
        for annotation in content["annotations"]:
            label = names[annotation["category_id"]]
            if label in CLASSES:
                labels.setdefault(annotation["image_id"], label)
        found = [
            (file_inside(image["file_name"], path), labels[image["id"]], str(image["location"]))
            for image in content["images"]
            if str(image["location"]) in LOCATIONS and image["id"] in labels
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataFileError(
            f"{path} is not the annotation file of Caltech Camera Traps ({error!r})."
        ) from None
    if not found:
        raise DataFileError(f"{path} names no image of the locations {', '.join(LOCATIONS)}.")
    images = ImageFiles(folder / IMAGES, [name for name, _, _ in found], size)
    return DomainData.from_arrays(
        resident_or_lazy(images, resident),
        torch.tensor([CLASSES.index(label) for _, label, _ in found]),
        [f"location_{location}" for _, _, location in found],
        target_names=CLASSES,
    )


def _read(path: Path) -> Any:
    with refusing_damage(path):
        text = regular_file(path).read_text(encoding="utf-8")
    try:
        return parsed_json(text)
    except ValueError as error:
        raise DataFileError(f"{path} is truncated or damaged: {error}.") from None
