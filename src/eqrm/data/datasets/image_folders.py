"""Folders of images, ``domain/class/image.jpg``: PACS, VLCS, OfficeHome, and others like them."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from eqrm.data.datasets.image_files import ImageFiles, resident_or_lazy
from eqrm.data.domain_data import DomainData
from eqrm.data.fetching.data_root import data_file
from eqrm.errors import DataFileError

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

    x is (n, 3, size, size) bytes (predictors scale them), y the number of the class in
    alphabetical order. Hidden files, and files that are no images by their name, do not count.
    An image that cannot be decoded is an error that names it.

    Args:
        root: the data root; ``folder`` may lie outside it.
        folder: the folder or the archive, or several, of which the first that is there is read.
        size: images are scaled to size × size.
        domains: only these, so that the others are not decoded.
        resident: keep all images in memory: ``"auto"`` (if they take less than 4 GiB),
            ``"always"`` or ``"never"``.
    """
    places = [folder] if isinstance(folder, str) else list(folder)
    source = data_file(root, *places)
    found = _listed(source)
    classes = sorted({parts[-2] for parts in found})
    if domains is not None:
        everything = DomainData.from_arrays(
            np.arange(len(found)), np.arange(len(found)), [parts[-3] for parts in found]
        )
        found = [found[row] for row in everything.select(list(domains)).y.tolist()]
    number = {name: position for position, name in enumerate(classes)}
    data = DomainData.from_arrays(
        ImageFiles(source, ["/".join(parts) for parts in found], size),
        torch.tensor([number[parts[-2]] for parts in found]),
        [parts[-3] for parts in found],
    )
    return DomainData(
        resident_or_lazy(data.x, resident), data.y, data.domains, data.names, tuple(classes)
    )


def _listed(source: Path) -> list[tuple[str, ...]]:
    """The parts of the path of each image, sorted; the last three are domain, class and file."""
    names = _files_in_folder(source) if source.is_dir() else _files_in_archive(source)
    found = sorted(
        parts
        for parts in (PurePosixPath(name).parts for name in names)
        if parts[-1].lower().endswith(SUFFIXES)
        and not any(part.startswith((".", "__MACOSX")) for part in parts)
    )
    if not found:
        raise DataFileError(f"{source} holds no images. They belong in domain/class/image.jpg.")
    depth = min(len(parts) for parts in found)
    odd = next((parts for parts in found if len(parts) != depth or depth < 3), None)
    above = {parts[:-3] for parts in found}
    if odd is not None or len(above) > 1:
        shown = "/".join(odd if odd is not None else found[-1])
        raise DataFileError(
            f"{source}: images must lie in domain/class/image.jpg, all equally deep, but there is "
            f"{shown}."
        )
    return found


def _files_in_folder(source: Path) -> Iterator[str]:
    for folder, _, files in os.walk(source):
        inside = Path(folder).relative_to(source)
        yield from ((inside / file).as_posix() for file in files)


def _files_in_archive(source: Path) -> list[str]:
    try:
        with zipfile.ZipFile(source) as archive:
            return [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise DataFileError(
            f"{source} is no zip archive, or was cut off ({error}). Fetch it again."
        ) from None
