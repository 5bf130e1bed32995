"""MNIST from its four files, or a stand-in, and ColoredMNIST and RotatedMNIST made of them."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from eqrm.checks import FRACTION, is_number, one_of
from eqrm.data.datasets.data_root import data_root
from eqrm.data.datasets.registry import catalogue
from eqrm.data.domain_data import DomainData
from eqrm.errors import DataFileError, EqrmWarning, SettingError
from eqrm.files.reading import opened_gzip, refusing_damage

MNIST_FOLDERS = ("mnist", "MNIST/raw")
MNIST_MD5 = {Path(s.file).stem: str(s.md5) for s in catalogue()["mnist"].sources}
"""The four files, and the checksums of their uncompressed content."""


class Digits(NamedTuple):
    """Images (n, 28, 28) of bytes and what they show (n,): 60,000 to train, 10,000 to test."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def digits(root: str | os.PathLike[str] | None, stand_in: bool) -> Digits:
    """MNIST, or the stand-in."""
    if not stand_in:
        files = mnist_files(data_root(root))
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
    """The bytes of an idx file, plain or .gz, of the shape it states; ``md5`` is of the content."""
    with refusing_damage(path):
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            with opened_gzip(path) as file:
                content = file.read()
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != 0x08:
        raise DataFileError(f"{path} is not an idx file of bytes, the format of MNIST.")
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], ">u4").tolist() if len(content) >= start else []
    if not shape or len(content) - start != math.prod(shape):
        raise DataFileError(
            f"{path} holds {max(0, len(content) - start):,} bytes of data, but not those of the "
            f"shape that it states ({shape}). It is damaged or truncated: fetch it again."
        )
    if md5 is not None and hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise DataFileError(
            f"{path} is not the published file: its checksum differs. Fetch it again."
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).copy()).reshape(shape)


def stand_in_digits() -> Digits:
    """As many digits as MNIST has, drawn from scikit-learn's 1,797 by turning and stretching."""
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


SPLITS = ("all", "train", "validation", "test")
TRAIN_DIGITS = 50_000  # of MNIST's 60,000; the rest is for validation


def colored_mnist(
    root: str | os.PathLike[str] | None = None,
    *,
    flips: Sequence[float] = (0.1, 0.2),
    test_flips: Sequence[float] = (0.9,),
    split: str = "all",
    size: int = 14,
    label_noise: float = 0.25,
    examples_per_domain: int | None = None,
    seed: int = 0,
    stand_in: bool = False,
) -> DomainData:
    """Digits below 5 or not, in red or green; the colour is correlated with the label.

    A domain is the probability that the colour is flipped, and is named by it. x is (n, 2, size,
    size) in [0, 1], y is 0 or 1, and wrong with probability ``label_noise``. ``size`` is 28, or 14
    for every second pixel. ``seed`` decides which digits go where, and every flip.
    """
    one_of(split, SPLITS, "split")
    if size not in (14, 28):
        raise SettingError(f"size must be 28 (all pixels) or 14 (every second), got {size!r}.")
    parts = {"train": flips, "test": test_flips, "validation": flips}
    wanted = ("train", "test") if split == "all" else (split,)
    for probability in (label_noise, *(flip for part in wanted for flip in parts[part])):
        FRACTION.check(probability, "The probability of a flip")
    if not any(parts[part] for part in wanted):
        raise SettingError("At least one flip is required: each is a domain.")
    found = digits(root, stand_in)
    images, labels, names = [], [], []
    whose: list[str] = []
    for part in wanted:
        pixels, shown = _digits_of(part, found, seed)
        generator = torch.Generator().manual_seed(1000 * seed + SPLITS.index(part))
        for number, flip in enumerate(parts[part]):
            rows = slice(number, None, len(parts[part]))
            drawn = pixels[rows][:examples_per_domain, :: 28 // size, :: 28 // size]
            answer = _flipped(shown[rows][:examples_per_domain] < 5, label_noise, generator)
            green = _flipped(answer, flip, generator).long()
            coloured = torch.zeros(len(drawn), 2, *drawn.shape[1:])
            coloured[torch.arange(len(drawn)), green] = drawn.float() / 255
            images.append(coloured)
            labels.append(answer.long())
            names.append(f"{float(flip):g}")
            whose.append(part)
    data = _dealt(images, labels, names, ("5 to 9", "0 to 4"))
    pairs = list(zip(whose, data.names, strict=True))
    named = {part: tuple(name for owner, name in pairs if owner == part) for part in wanted}
    return replace(data, parts=named)


def rotated_mnist(
    root: str | os.PathLike[str] | None = None,
    *,
    angles: Sequence[float] = (0, 15, 30, 45, 60, 75),
    examples_per_domain: int | None = None,
    seed: int = 0,
    stand_in: bool = False,
) -> DomainData:
    """MNIST's 70,000 digits dealt out to domains, each turned to the left by its angle in degrees.

    x is (n, 1, 28, 28) in [0, 1], y the digit.
    """
    if not angles or not all(map(is_number, angles)):
        raise SettingError(f"angles must be at least one number of degrees, got {angles!r}.")
    found = digits(root, stand_in)
    pixels = torch.cat([found.images, found.test_images])
    shown = torch.cat([found.labels, found.test_labels])
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(seed))
    images, labels = [], []
    for number in range(len(angles)):
        rows = order[number :: len(angles)][:examples_per_domain]
        images.append(rotated(pixels[rows][:, None].float() / 255, angles[number]))
        labels.append(shown[rows])
    names = [f"{float(angle):g}" for angle in angles]
    return _dealt(images, labels, names, tuple("0123456789"))


def rotated(images: Tensor, angle: float) -> Tensor:
    """Images (n, c, h, w) in [0, 1] turned to the left about their middle, bicubic."""
    if angle % 360 == 0:
        return images
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = torch.tensor([[cos, -sin, 0.0], [sin, cos, 0.0]])
    turned = []
    for part in images.split(5000):
        grid = functional.affine_grid(
            turn.expand(len(part), 2, 3), list(part.shape), align_corners=False
        )
        turned.append(functional.grid_sample(part, grid, mode="bicubic", align_corners=False))
    return torch.cat(turned).clamp(0, 1)


def _digits_of(part: str, found: Digits, seed: int) -> tuple[Tensor, Tensor]:
    if part == "test":
        return found.test_images, found.test_labels
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(found.images), generator=generator)
    rows = order[:TRAIN_DIGITS] if part == "train" else order[TRAIN_DIGITS:]
    return found.images[rows], found.labels[rows]


def _flipped(bits: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Each bit turned round with this probability."""
    return bits ^ (torch.rand(len(bits), generator=generator) < probability)


def _dealt(
    images: list[Tensor], labels: list[Tensor], names: list[str], classes: tuple[str, ...]
) -> DomainData:
    sizes = torch.tensor([len(part) for part in labels])
    domains = torch.repeat_interleave(torch.arange(len(names)), sizes)
    # The same flip twice makes two domains (the oracle trains on 0.5 and 0.5).
    before = [names[:number].count(name) for number, name in enumerate(names)]
    apart = [f"{name} ({k + 1})" if k else name for name, k in zip(names, before, strict=True)]
    return DomainData(torch.cat(images), torch.cat(labels), domains, tuple(apart), classes)
