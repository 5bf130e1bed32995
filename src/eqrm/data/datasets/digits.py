"""Handwritten digits: MNIST from its four files, or a stand-in where there is none."""

from __future__ import annotations

import hashlib
import math
import os
import struct
import warnings
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from eqrm.data.datasets.catalogue import CATALOGUE
from eqrm.data.fetching.data_root import data_root, refusing_damage
from eqrm.errors import DataFileError, EqrmError, EqrmWarning, SettingError
from eqrm.files.limits import opened_gzip

MNIST_FOLDERS = ("mnist", "MNIST/raw")
MNIST_MD5 = {Path(s.file).stem: str(s.md5) for s in CATALOGUE["mnist"].sources}
"""The four files, and the checksums of their uncompressed content."""


class Digits(NamedTuple):
    """Images (n, 28, 28) of bytes and what they show (n,): 60,000 to train, 10,000 to test."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def digits(root: str | os.PathLike[str] | None, stand_in: bool | str) -> Digits:
    """MNIST; with ``stand_in=True`` the stand-in; with ``"if-missing"`` MNIST where possible."""
    if stand_in not in (True, False, "if-missing"):
        raise SettingError(f"stand_in must be true, false or 'if-missing', got {stand_in!r}.")
    if stand_in is not True:
        try:
            files = mnist_files(data_root(root))
        except EqrmError:
            if stand_in is False:
                raise
        else:
            return _read(tuple((path, path.stat().st_mtime_ns) for path in files))
    warnings.warn(
        "This is not MNIST but a stand-in, made from scikit-learn's 8×8 digits. "
        "Numbers measured on it say nothing about MNIST.",
        EqrmWarning,
        stacklevel=4,
    )
    return stand_in_digits()


def mnist_files(root: Path) -> list[Path]:
    """Where MNIST's four files are, plain or .gz."""
    places = [
        root / folder / f"{name}{suffix}"
        for name in MNIST_MD5
        for folder in MNIST_FOLDERS
        for suffix in ("", ".gz")
    ]
    found = {path.name.removesuffix(".gz"): path for path in places if path.is_file()}
    missing = [name for name in MNIST_MD5 if name not in found]
    if missing:
        raise DataFileError(
            f"mnist/{missing[0]}.gz is not in the data root {root}. 'eqrm data get mnist' "
            "downloads MNIST or says where to get it; stand_in=True uses generated digits "
            "instead."
        )
    return [found[name] for name in MNIST_MD5]


@lru_cache(maxsize=1)
def _read(files: tuple[tuple[Path, int], ...]) -> Digits:
    """The digits of files, each with the time of its last change: the same are read once."""
    read = [read_idx(path, md5) for (path, _), md5 in zip(files, MNIST_MD5.values(), strict=True)]
    return Digits(read[0], read[1].long(), read[2], read[3].long())


def read_idx(path: Path, md5: str | None = None) -> Tensor:
    """The bytes of an idx file, plain or .gz, as a uint8 tensor of the shape it states.

    ``md5`` is the checksum of the uncompressed file; another one is refused.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    >>> read_idx(file)
    tensor([7, 2, 1], dtype=torch.uint8)
    """
    with refusing_damage(path):
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            with opened_gzip(path) as file:
                content = file.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != 0x08:
        raise DataFileError(f"{path} is not an idx file of bytes, the format of MNIST.")
    dimensions = content[3]
    start = 4 + 4 * dimensions
    if dimensions == 0 or len(content) < start:
        raise DataFileError(f"{path} is damaged: it does not state its shape.")
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataFileError(
            f"{path} states {math.prod(shape):,} bytes of data but holds "
            f"{len(content) - start:,}. It is damaged or truncated: fetch it again."
        )
    if md5 is not None and hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise DataFileError(
            f"{path} is not the published file: its checksum differs. Fetch it again."
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).copy()).reshape(shape)


def stand_in_digits() -> Digits:
    """As many digits as MNIST has, drawn from scikit-learn's 1,797 by turning and stretching.

    Train and test digits come from different writers' originals. Always the same.

    >>> stand_in_digits().images.shape
    torch.Size([60000, 28, 28])
    """
    from sklearn.datasets import load_digits

    source = load_digits()
    images = torch.from_numpy(source.images).float()[:, None] / 16
    labels = torch.from_numpy(source.target).long()
    generator = torch.Generator().manual_seed(0)
    first_test = 1437  # four fifths; the digits are in the order of their writers
    train = torch.randint(first_test, (60_000,), generator=generator)
    test = torch.randint(first_test, len(images), (10_000,), generator=generator)
    drawn, shown = (
        torch.cat([_deformed(images[part], generator) for part in rows.split(5000)])
        for rows in (train, test)
    )
    return Digits(drawn, labels[train], shown, labels[test])


def _deformed(images: Tensor, generator: torch.Generator) -> Tensor:
    """(k, 1, 8, 8) in [0, 1] to (k, 28, 28) bytes: turned, stretched, sheared and shifted."""

    def spread(size: float) -> Tensor:
        return size * (2 * torch.rand(len(images), generator=generator) - 1)

    angle, shear = spread(math.radians(12)), spread(0.15)
    wide, high = 1.35 * (1 + spread(0.12)), 1.35 * (1 + spread(0.12))
    cos, sin = angle.cos(), angle.sin()
    rows = [wide * cos, wide * (shear - sin), spread(0.15), high * sin, high * cos, spread(0.15)]
    maps = torch.stack(rows, 1).reshape(-1, 2, 3)
    grid = functional.affine_grid(maps, [len(images), 1, 28, 28], align_corners=False)
    drawn = functional.grid_sample(images, grid, mode="bicubic", align_corners=False)
    return (drawn[:, 0].clamp(0, 1) * 255).round().to(torch.uint8)
