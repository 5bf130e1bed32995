"""Random changes of training images, as batches of tensors on whichever device they are.

What happens to an image is a function of the seed, the step and the image's row
(:mod:`eqrm.data.hashed_draws`): a resumed run sees the same images, bit for bit, and so do runs on
other devices or on another number of processes, up to rounding. On a GPU a batch takes two launches
(:mod:`eqrm.gpu.augmentation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from eqrm.checks import FRACTION, check_fields, number, ruled
from eqrm.data.hashed_draws import Integers, hashed, uniform
from eqrm.errors import DomainDataError
from eqrm.execution import being_transformed, has_kernels

ATTEMPTS = 10
"""Crops that are drawn for an image before the middle of it is taken."""
RATIOS = (3 / 4, 4 / 3)
"""Width over height of a crop: between these, uniform on the logarithm."""
LUMA = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in grey (ITU-R 601)."""
_AUGMENTATION = 4  # keeps these draws apart from those of the batches
_COLOURS = 3

Numbers = np.ndarray[Any, np.dtype[np.float64]]


class AugmentationDraws(NamedTuple):
    """What happens to each of n images.

    ``crops`` (n, 4) are top, left, height and width in pixels; ``factors`` (n, 4) those of
    brightness, contrast and saturation, and the shift of the hue in turns; ``order`` (n, 4) is that
    of these.
    """

    crops: Tensor
    flipped: Tensor
    factors: Tensor
    order: Tensor
    grey: Tensor


@dataclass(frozen=True)
class Augmentation:
    """Random crop, flip, colour jitter and grey of training images; the defaults are DomainBed's.

    ``crop`` is the smallest share of the area that is kept (1: nearly everything), ``flip`` and
    ``grayscale`` how often it happens; factors of brightness, contrast and saturation are uniform
    between 1 − x and 1 + x, and shifts of the hue between −x and x, in turns of the colour circle.

    >>> images = torch.rand(2, 3, 8, 8)
    >>> Augmentation()(images, rows=torch.tensor([4, 9]), seed=0, step=7).shape
    torch.Size([2, 3, 8, 8])
    """

    crop: float = ruled(0.7, number(above=0, most=1))
    flip: float = ruled(0.5, FRACTION)
    brightness: float = ruled(0.3, FRACTION)
    contrast: float = ruled(0.3, FRACTION)
    saturation: float = ruled(0.3, FRACTION)
    hue: float = ruled(0.3, number(0, 0.5))
    grayscale: float = ruled(0.1, FRACTION)

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, images: Tensor, rows: Tensor, seed: int, step: int) -> Tensor:
        """The images (n, 3, height, width) of these rows, bytes or in [0, 1], changed; numbers."""
        height, width = images.shape[-2:]
        draws = self.draws(rows.cpu().numpy(), height, width, seed, step)
        if not _by_kernel(images):
            return augmented(images, draws)
        from eqrm.gpu.augmentation import augment, pack

        packed = pack(*draws, pinned=images.is_cuda).to(images.device, non_blocking=True)
        return augment(images, packed)

    def draws(
        self, rows: Integers, height: int, width: int, seed: int, step: int
    ) -> AugmentationDraws:
        """What happens to the images of these rows at this step."""
        words = hashed(seed, _AUGMENTATION, step, rows[:, None], np.arange(4 * ATTEMPTS + 10))
        u = uniform(words)
        crops = _crops(u[:, : 4 * ATTEMPTS].reshape(-1, ATTEMPTS, 4), self.crop, height, width)
        rest = u[:, 4 * ATTEMPTS :]
        spread = np.array([self.brightness, self.contrast, self.saturation, self.hue])
        factors = np.array([1.0, 1.0, 1.0, 0.0]) + spread * (2 * rest[:, 2:6] - 1)
        return AugmentationDraws(
            torch.from_numpy(crops),
            torch.from_numpy(rest[:, 0] < self.flip),
            torch.from_numpy(factors).float(),
            torch.from_numpy(np.argsort(rest[:, 6:10], axis=1)),
            torch.from_numpy(rest[:, 1] < self.grayscale),
        )


def check_images(x: Any) -> None:
    """Refuse inputs that are not colour images."""
    if not isinstance(x, Tensor) or x.ndim != 4 or x.shape[1] != _COLOURS:
        given = f"shape {tuple(x.shape[1:])}" if isinstance(x, Tensor) else type(x).__name__
        raise DomainDataError(
            "Augmentation needs images with three channels, (3, height, width), but one example "
            f"has {given}. Leave out training.augment."
        )
    if x.is_floating_point() and not bool(((x >= 0) & (x <= 1)).all()):
        raise DomainDataError(
            "Augmentation needs images as bytes, or as numbers from 0 to 1, got numbers from "
            f"{float(x.min()):g} to {float(x.max()):g}. Leave the scaling to the predictor."
        )


def _crops(u: Numbers, smallest: float, height: int, width: int) -> Integers:
    """Top, left, height and width of a crop of each image, from uniform numbers (n, attempts, 4).

    The first attempt that fits into the image is taken; else its middle.
    """
    area = height * width * (smallest + (1 - smallest) * u[..., 0])
    low, high = np.log(RATIOS)
    ratio = np.exp(low + (high - low) * u[..., 1])
    w = np.rint(np.sqrt(area * ratio)).astype(np.int64)
    h = np.rint(np.sqrt(area / ratio)).astype(np.int64)
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    chosen = fits.argmax(axis=1)[:, None]
    h, w, y, x = (
        np.take_along_axis(each, chosen, axis=1)[:, 0] for each in (h, w, u[..., 2], u[..., 3])
    )
    top = np.floor(y * (height - h + 1)).astype(np.int64)
    left = np.floor(x * (width - w + 1)).astype(np.int64)
    found = np.stack([top, left, h, w], axis=1)
    tall = min(height, max(1, round(width / RATIOS[0])))
    wide = min(width, max(1, round(height * RATIOS[1])))
    middle = ((height - tall) // 2, (width - wide) // 2, tall, wide)
    found[~fits.any(axis=1)] = middle
    return found


def _by_kernel(images: Tensor) -> bool:
    """Whether these images are changed by the kernels of a GPU, which know no gradient."""
    usual = images.dtype in (torch.uint8, torch.float32) and not images.requires_grad
    return usual and has_kernels(images) and not being_transformed()


def augmented(images: Tensor, draws: AugmentationDraws) -> Tensor:
    """The images (n, 3, height, width), bytes or in [0, 1], after crop, flip, jitter and grey."""
    if images.dtype == torch.uint8:
        images = images.float() / 255.0
    images = cropped(images, draws.crops, draws.flipped)
    for place in range(draws.order.shape[1]):
        for kind, change in enumerate((brightened, contrasted, saturated, hue_shifted)):
            rows = (draws.order[:, place] == kind).nonzero()[:, 0]
            if len(rows):
                factors = draws.factors[rows, kind].to(images)
                there = rows.to(images.device)
                images[there] = change(images[there], factors[:, None, None, None])
    rows = draws.grey.nonzero()[:, 0].to(images.device)
    images[rows] = grey_of(images[rows]).expand(-1, _COLOURS, -1, -1)
    return images


def cropped(images: Tensor, crops: Tensor, flipped: Tensor) -> Tensor:
    """Crops (n, 4) scaled to the size of the images, bilinearly, and mirrored where asked."""
    height, width = images.shape[-2:]
    top, left, h, w = crops.to(images).split(1, dim=1)
    y = top + _places(h, height, images)
    x = left + _places(w, width, images)
    x = torch.where(flipped[:, None].to(images.device), x.flip(1), x)
    # In [−1, 1] from the centre of the first pixel to that of the last.
    y, x = 2 * y / max(height - 1, 1) - 1, 2 * x / max(width - 1, 1) - 1
    shape = (len(images), height, width)
    grid = torch.stack([x[:, None, :].expand(shape), y[:, :, None].expand(shape)], dim=-1)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=True)


def _places(size: Tensor, target: int, like: Tensor) -> Tensor:
    """Where the ``target`` pixels of a scaled crop of ``size`` (n, 1) lie in it, (n, target)."""
    centres = (torch.arange(target, device=like.device, dtype=like.dtype) + 0.5) / target
    return torch.minimum((centres * size - 0.5).clamp(min=0), size - 1)


def brightened(images: Tensor, factor: Tensor) -> Tensor:
    """factor · image."""
    return (factor * images).clamp(0, 1)


def contrasted(images: Tensor, factor: Tensor) -> Tensor:
    """Away from the mean grey of the image by a factor."""
    mean = grey_of(images).mean(dim=(2, 3), keepdim=True)
    return torch.lerp(mean, images, factor).clamp(0, 1)


def saturated(images: Tensor, factor: Tensor) -> Tensor:
    """Away from the grey of each pixel by a factor."""
    return torch.lerp(grey_of(images).expand_as(images), images, factor).clamp(0, 1)


def grey_of(images: Tensor) -> Tensor:
    """The luma, (n, 1, height, width)."""
    shares = torch.tensor(LUMA, dtype=images.dtype, device=images.device)
    return torch.einsum("nchw,c->nhw", images, shares)[:, None]


def hue_shifted(images: Tensor, turns: Tensor) -> Tensor:
    """Every pixel's hue turned on the colour circle; its value and saturation (HSV) stay."""
    value, largest = images.max(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    red, green, blue = images.split(1, dim=1)
    # Sixths of the circle from the channel that is largest: red 0, green 2, blue 4.
    ahead = torch.where(
        largest == 0, green - blue, torch.where(largest == 1, blue - red, red - green)
    )
    sixths = 2 * largest + ahead / torch.where(chroma > 0, chroma, 1.0) + 6 * turns
    channels = torch.tensor([5.0, 3.0, 1.0], dtype=images.dtype, device=images.device)
    place = torch.remainder(sixths + channels[:, None, None], 6.0)
    return value - chroma * torch.minimum(place, 4.0 - place).clamp(0.0, 1.0)
