"""The kernels that augment images, in Triton's interpreter, against the same in tensors.

Run as a program: ``python -m oracle.interpreted_augmentation`` with ``TRITON_INTERPRET=1``
prints one line of JSON per case, with the largest error of a pixel.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from eqrm.data import augmentation
from eqrm.data.augmentation import Augmentation, AugmentationDraws, augmented
from eqrm.gpu.augmentation import augment, pack

STRONG = Augmentation(0.2, 0.5, 0.9, 0.9, 0.9, 0.5, 0.4)
ORDERS = torch.tensor(list(itertools.permutations(range(4))))


def pictures(number: int, height: int = 12, width: int = 10, seed: int = 0) -> Tensor:
    """Noise in bytes; the last image is grey, the one before it has few colours."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (number, 3, height, width), generator=generator)
    images[-1] = images[-1, :1]
    images[-2:-1] = images[-2:-1] // 128 * 127
    return images.to(torch.uint8)


def error_of(found: Tensor, expected: Tensor) -> float:
    """The largest difference, infinite if a number is none."""
    error = float((found - expected).abs().max())
    return error if math.isfinite(error) else math.inf


def orders_flips_and_grey(turns: int) -> Iterator[tuple[str, float]]:
    """Every order, with flips in half and grey in a third of the images: by turns in others."""
    images, n = pictures(24), 24
    spread = torch.rand(n, 4, generator=torch.Generator().manual_seed(1))
    factors = spread * torch.tensor([2.0, 2.0, 2.0, 1.0]) - torch.tensor([0.0, 0.0, 0.0, 0.5])
    crops = torch.tensor([[0, 0, 12, 10], [3, 1, 7, 8], [11, 9, 1, 1], [0, 2, 12, 5]]).repeat(6, 1)
    for turn in range(turns):
        flipped = (torch.arange(n) // 2 + turn) % 2 == 0
        grey = (torch.arange(n) // 3 + turn) % 3 == 0
        draws = AugmentationDraws(crops, flipped, factors, ORDERS, grey)
        found = augment(images, pack(*draws), block=128)
        yield f"all orders, {turn}", error_of(found, augmented(images, draws))


def hues() -> Iterator[tuple[str, float]]:
    """All colours of channels 0, 0.5 and 1, which tie in all ways, and turns of any size."""
    colours = torch.cartesian_prod(*[torch.tensor([0.0, 0.5, 1.0])] * 3)
    images = colours.T.reshape(1, 3, 3, 9).repeat(9, 1, 1, 1)
    turns = torch.tensor([-0.5, -1 / 3, -1 / 6, -0.1, 0.0, 0.1, 1 / 6, 1 / 3, 0.5])
    factors = torch.ones(9, 4)
    factors[:, 3] = turns
    never, whole = torch.zeros(9, dtype=torch.bool), torch.tensor([[0, 0, 3, 9]]).repeat(9, 1)
    draws = AugmentationDraws(whole, never, factors, ORDERS[-9:], never)
    yield "ties of hues", error_of(augment(images, pack(*draws)), augmented(images, draws))


def drawn(seeds: int) -> Iterator[tuple[str, float]]:
    """What is drawn, for bytes and numbers by turns, with several blocks of pixels per image."""
    sizes = ((3, 12, 10, 64), (2, 11, 9, 32), (2, 1, 7, 4))
    for seed, (number, height, width, block) in itertools.product(range(seeds), sizes):
        images = pictures(number, height, width, seed)
        draws = STRONG.draws(torch.arange(number).numpy(), height, width, seed, 3)
        given = images / 255 if seed % 2 else images
        found = augment(given, pack(*draws), block=block)
        name = f"{height} × {width}, {given.dtype}, seed {seed}"
        yield name, error_of(found, augmented(images, draws))


def memory_formats() -> Iterator[tuple[str, float]]:
    """Channels last, the same bits again, no image, and the call where kernels are."""
    images, rows = pictures(4), torch.tensor([7, 0, 8, 7])
    draws = STRONG.draws(rows.numpy(), 12, 10, 5, 6)
    expected, packed = augmented(images, draws), pack(*draws)
    last = images.contiguous(memory_format=torch.channels_last)
    found = augment(last, packed)
    right = found.is_contiguous(memory_format=torch.channels_last)
    yield "channels last", error_of(found, expected) if right else math.inf
    yield "the same bits", 0.0 if torch.equal(found, augment(last, packed)) else math.inf
    nothing = augment(images[:0], packed[:0])
    yield "no images", 0.0 if nothing.shape == (0, 3, 12, 10) else math.inf
    usual = augmentation._by_kernel
    augmentation._by_kernel = lambda images: True
    try:
        found = STRONG(images, rows, 5, 6)
        yield "a call", error_of(found, expected) if found.is_contiguous() else math.inf
    finally:
        augmentation._by_kernel = usual


def larger() -> Iterator[tuple[str, float]]:
    """Images as large as those that networks see, in few programs: each takes time here."""
    images = pictures(4, 224, 224)
    draws = STRONG.draws(torch.arange(4).numpy(), 224, 224, 0, 0)
    found = augment(images, pack(*draws), block=4096)
    yield "224 × 224", error_of(found, augmented(images, draws))


if __name__ == "__main__":
    cases = itertools.chain(
        orders_flips_and_grey(2),
        hues(),
        drawn(20),
        memory_formats(),
        larger(),
    )
    for case, error in cases:
        print(json.dumps({"case": case, "error": error}))
