"""Images in files: folders ``domain/class/image.jpg`` (PACS, VLCS, …), read lazily or at once.

Also photographs of animals by camera traps, a domain per trap: TerraIncognita, iWildCam of WILDS.
"""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.checks import one_of
from eqrm.data.datasets.data_root import data_file, progress
from eqrm.data.domain_data import DomainData
from eqrm.data.splits import refuse_shared
from eqrm.data.tables.kinds import NUMBER, column_of
from eqrm.data.tables.reading import read_texts
from eqrm.errors import DataFileError, naming_extra
from eqrm.files.checked_json import read_json
from eqrm.files.reading import DAMAGES, refuse_growth

RESIDENT = ("auto", "always", "never")
RESIDENT_BYTES = 4 << 30
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".gif", ".tif", ".tiff")


def image_folder(
    root: str | os.PathLike[str] | None = None,
    *,
    folder: str | Sequence[str],
    size: int = 224,
    domains: Sequence[str] | None = None,
    resident: str = "auto",
) -> DomainData:
    """Images in folders ``domain/class/image``, or in a zip archive with such folders.

    x is (n, 3, size, size) bytes (predictors scale them), y the number of the class in alphabetical
    order. ``folder`` may lie outside the data root; of several the first that is there is read.
    Only the images of ``domains`` are decoded, and all are kept in memory if they take less than 4
    GiB (``resident="auto"``), ``"always"`` or ``"never"``.
    """
    source = data_file(root, *([folder] if isinstance(folder, str) else folder))
    found = _listed(source)
    classes = sorted({parts[-2] for parts in found})
    if domains is not None:
        everything = DomainData.from_arrays(
            np.arange(len(found)), np.arange(len(found)), [parts[-3] for parts in found]
        )
        found = [found[row] for row in everything.select(list(domains)).y.tolist()]
    rows = [("/".join(parts), classes.index(parts[-2]), parts[-3]) for parts in found]
    return data_of_images(source, rows, size, resident, target_names=classes)


def data_of_images(
    source: Path, rows: Sequence[tuple[str, int, Any]], size: int, resident: str, **rest: Any
) -> DomainData:
    """Images by file, class and domain, scaled; ``rest`` as for :meth:`DomainData.from_arrays`."""
    one_of(resident, RESIDENT, "value of resident")
    files, labels, domains = zip(*rows, strict=True)
    images = ImageFiles(source, files, size)
    fits = len(images) * 3 * size**2 <= min(RESIDENT_BYTES, _free_memory() // 2)
    in_memory = resident == "always" or (resident == "auto" and fits)
    x = images.in_memory() if in_memory else images
    return DomainData.from_arrays(x, torch.tensor(labels), domains, **rest)


def _listed(source: Path) -> list[tuple[str, ...]]:
    """The parts of the path of each image, sorted; the last three are domain, class and file."""
    if source.is_dir():
        names = [path.relative_to(source).as_posix() for path in source.rglob("*")]
    else:
        try:
            with zipfile.ZipFile(source) as archive:
                names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        except DAMAGES as error:
            raise DataFileError(
                f"{source} is not a zip archive, or is truncated ({error}). Fetch it again."
            ) from None
    found = sorted(
        parts
        for parts in (PurePosixPath(name).parts for name in names)
        if parts[-1].lower().endswith(SUFFIXES)
        and not any(part.startswith((".", "__MACOSX")) for part in parts)
    )
    if not found:
        raise DataFileError(f"{source} contains no images. They belong in domain/class/image.jpg.")
    depth = min(len(parts) for parts in found)
    odd = next((parts for parts in found if len(parts) != depth or depth < 3), None)
    above = {parts[:-3] for parts in found}
    if odd is not None or len(above) > 1:
        shown = "/".join(odd if odd is not None else found[-1])
        raise DataFileError(
            f"{source}: all images must be in folders domain/class/image.jpg of the same depth, "
            f"got {shown}."
        )
    return found


class ImageFiles:
    """Images of a folder or zip archive, decoded on access: ``images[rows]`` is (k, 3, …)."""

    def __init__(self, source: Path, names: Sequence[str], size: int) -> None:
        with naming_extra("pillow", "images", "Reading images"):
            from PIL import Image
        self.source, self.names, self.size = source, list(names), size
        self._image = Image
        self._archive: tuple[int, zipfile.ZipFile] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, rows: Tensor) -> Tensor:
        wanted = [self.names[row] for row in rows.tolist()]
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            return torch.stack(list(pool.map(self._decoded, wanted)))

    def in_memory(self) -> Tensor:
        """All images, (n, 3, size, size) bytes."""
        found = torch.empty(len(self), 3, self.size, self.size, dtype=torch.uint8)
        for part in progress(torch.arange(len(self)).split(256), "Reading images"):
            found[part[0] : part[-1] + 1] = self[part]
        return found

    def _content(self, name: str) -> bytes:
        if self.source.is_dir():
            return (self.source / name).read_bytes()
        if self._archive is None or self._archive[0] != os.getpid():
            self._archive = (os.getpid(), zipfile.ZipFile(self.source))
        entry = self._archive[1].getinfo(name)
        refuse_growth(self.source, entry.file_size, entry.compress_size)
        return self._archive[1].read(entry)

    def _decoded(self, name: str) -> Tensor:
        """One image; whatever is wrong with its file becomes an error that names it."""
        bombs = self._image.DecompressionBombError, self._image.DecompressionBombWarning
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", self._image.DecompressionBombWarning)
                with self._image.open(io.BytesIO(self._content(name))) as file:
                    scaled = file.convert("RGB").resize(
                        (self.size, self.size), self._image.Resampling.BILINEAR
                    )
        except (*DAMAGES, *bombs) as error:
            raise DataFileError(
                f"The image {name} in {self.source} cannot be read ({error}). "
                "Replace it, or remove it."
            ) from None
        return torch.from_numpy(np.asarray(scaled).copy()).permute(2, 0, 1)


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 2 * RESIDENT_BYTES


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
