"""ColoredMNIST and RotatedMNIST, made from MNIST's digits."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from eqrm.checks import FRACTION, is_number, one_of
from eqrm.data.datasets.digits import Digits, digits
from eqrm.data.domain_data import DomainData
from eqrm.errors import SettingError

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
    stand_in: bool | str = False,
) -> DomainData:
    """Digits below 5 or not, in red or green; the colour is correlated with the label.

    A domain is the probability that the colour is flipped, and is named by it. Colour predicts
    the label better than shape in the domains ``0.1`` and ``0.2``, and misleads in ``0.9``.
    x is (n, 2, size, size) in [0, 1], y is 0 or 1. The parts ``train`` and ``test`` name the
    domains of either.

    Args:
        root: the data root, see :func:`eqrm.data.data_root`.
        flips: the colour flips of the domains to train on. 50,000 of MNIST's training digits
            are dealt out to them.
        test_flips: the colour flips of the domains to test on; they share MNIST's test digits.
        split: ``"train"`` (flips), ``"test"`` (test_flips), ``"all"`` (both), or
            ``"validation"``: the other 10,000 training digits, dealt out to ``flips``.
        size: 28, or 14 for every second pixel. label_noise: the probability that a label is wrong;
        with 0.25, shape predicts at most 75% of the labels. examples_per_domain: use only this
        many. seed: decides which digits go where, and every flip. stand_in: digits that are not
        MNIST, see :func:`eqrm.data.datasets.digits.digits`.
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
            images.append(_coloured(drawn, _flipped(answer, flip, generator)))
            labels.append(answer.long())
            names.append(f"{float(flip):g}")
            whose.append(part)
    data = _joined(images, labels, names, ("5 to 9", "0 to 4"))
    pairs = list(zip(whose, data.names, strict=True))
    named = {part: tuple(name for owner, name in pairs if owner == part) for part in wanted}
    return replace(data, parts=named)


def rotated_mnist(
    root: str | os.PathLike[str] | None = None,
    *,
    angles: Sequence[float] = (0, 15, 30, 45, 60, 75),
    examples_per_domain: int | None = None,
    seed: int = 0,
    stand_in: bool | str = False,
) -> DomainData:
    """MNIST's 70,000 digits dealt out to domains, each turned to the left by its angle.

    Domains are named by their angles in degrees. x is (n, 1, 28, 28) in [0, 1], y the digit.
    The settings are those of :func:`colored_mnist`.
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
    return _joined(images, labels, names, tuple("0123456789"))


def rotated(images: Tensor, angle: float) -> Tensor:
    """Images (n, c, h, w) in [0, 1] turned to the left about their middle, bicubic.

    >>> picture = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]])
    >>> rotated(picture, 90).round().abs()
    tensor([[[[0., 0.], [1., 0.]]]])
    """
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


def _coloured(pixels: Tensor, green: Tensor) -> Tensor:
    """(n, h, w) bytes to (n, 2, h, w) in [0, 1]: the channel of the colour, and an empty one."""
    coloured = torch.zeros(len(pixels), 2, *pixels.shape[1:])
    coloured[torch.arange(len(pixels)), green.long()] = pixels.float() / 255
    return coloured


def _joined(
    images: list[Tensor], labels: list[Tensor], names: list[str], classes: tuple[str, ...]
) -> DomainData:
    sizes = torch.tensor([len(part) for part in labels])
    domains = torch.repeat_interleave(torch.arange(len(names)), sizes)
    # The same flip twice makes two domains (the oracle trains on 0.5 and 0.5).
    before = [names[:number].count(name) for number, name in enumerate(names)]
    apart = [f"{name} ({k + 1})" if k else name for name, k in zip(names, before, strict=True)]
    return DomainData(torch.cat(images), torch.cat(labels), domains, tuple(apart), classes)
