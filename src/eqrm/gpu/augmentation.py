"""Crop, flip, colour jitter and grey of a batch of images on a GPU: two launches.

The same numbers as :func:`eqrm.data.augmentation.augmented` gives in tensors, up to rounding. The
first launch sums the grey of the pixels as they are when contrast is applied, the second makes the
images. Sums are of fixed blocks in a fixed order: the same inputs give the same bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from eqrm.gpu.launching import Launcher

BLOCK = 512
"""Pixels of an image that a program works on."""
COLUMNS = 14
"""Numbers that say what happens to an image, see :func:`pack`."""

# Columns of what is packed.
FLIPPED = tl.constexpr(4)
GREY = tl.constexpr(5)
FACTORS = tl.constexpr(6)
ORDER = tl.constexpr(10)

# The numbers of the changes in an order; what is left is the hue.
BRIGHTNESS = tl.constexpr(0)
CONTRAST = tl.constexpr(1)
SATURATION = tl.constexpr(2)

# fmt: off
# Kernels have long lists of arguments, which read better in lines than in columns.


@triton.jit  # type: ignore[untyped-decorator]
def _places(index, begin, size, TARGET: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where pixels of a crop scaled to ``TARGET`` lie in the image, rounded as the reference is."""
    centres = tl.div_rn(index.to(tl.float32) + 0.5, TARGET * 1.0)
    place = begin + tl.minimum(tl.maximum(centres * size - 0.5, 0.0), size - 1.0)
    # To [−1, 1] and back, as grid_sample takes its places.
    scaled = tl.div_rn(2.0 * place, (TARGET - 1 if TARGET > 1 else 1) * 1.0) - 1.0
    return tl.minimum(tl.maximum((scaled + 1.0) / 2.0 * (TARGET - 1), 0.0), TARGET - 1.0)


@triton.jit
def _bilinear(image, top, left, down, right, y, x):  # type: ignore[no-untyped-def]
    """One channel between four pixels, ``y`` and ``x`` away from the first of them."""
    found = tl.load(image + top + left).to(tl.float32) * ((1.0 - x) * (1.0 - y))
    found += tl.load(image + top + right).to(tl.float32) * (x * (1.0 - y))
    found += tl.load(image + down + left).to(tl.float32) * ((1.0 - x) * y)
    return found + tl.load(image + down + right).to(tl.float32) * (x * y)


@triton.jit  # type: ignore[untyped-decorator]
def _cropped(  # type: ignore[no-untyped-def]
    images, draw, row, pixel, by_image, by_channel, by_line, by_column,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BYTES: tl.constexpr,
):
    """Red, green and blue of some pixels of an image after crop and flip."""
    line, column = pixel // WIDTH, pixel % WIDTH
    column = tl.where(tl.load(draw + FLIPPED) != 0.0, WIDTH - 1 - column, column)
    y = _places(line, tl.load(draw), tl.load(draw + 2), HEIGHT)
    x = _places(column, tl.load(draw + 1), tl.load(draw + 3), WIDTH)
    first_line, first_column = tl.floor(y), tl.floor(x)
    y, x = y - first_line, x - first_column
    above, before = first_line.to(tl.int32), first_column.to(tl.int32)
    top, left = above * by_line, before * by_column
    down = tl.minimum(above + 1, HEIGHT - 1) * by_line
    right = tl.minimum(before + 1, WIDTH - 1) * by_column
    image = images + row * by_image
    red = _bilinear(image, top, left, down, right, y, x)
    green = _bilinear(image + by_channel, top, left, down, right, y, x)
    blue = _bilinear(image + 2 * by_channel, top, left, down, right, y, x)
    if BYTES:
        red, green, blue = red / 255.0, green / 255.0, blue / 255.0
    return red, green, blue


@triton.jit
def _grey(red, green, blue):  # type: ignore[no-untyped-def]
    return 0.299 * red + 0.587 * green + 0.114 * blue


@triton.jit
def _between(start, end, factor):  # type: ignore[no-untyped-def]
    """start + factor·(end − start) in [0, 1]; exactly the end for a factor of 1."""
    return tl.minimum(tl.maximum(end - (end - start) * (1.0 - factor), 0.0), 1.0)


@triton.jit
def _turned(sixths, value, chroma, channel):  # type: ignore[no-untyped-def]
    """A channel of a colour, from its place on the circle in sixths."""
    place = sixths + channel
    place = place - 6.0 * tl.floor(place / 6.0)
    return value - chroma * tl.minimum(tl.maximum(tl.minimum(place, 4.0 - place), 0.0), 1.0)


@triton.jit
def _hue_shifted(red, green, blue, turns):  # type: ignore[no-untyped-def]
    value = tl.maximum(tl.maximum(red, green), blue)
    chroma = value - tl.minimum(tl.minimum(red, green), blue)
    # The first of the channels that are largest, as torch.max takes it.
    is_red, is_green = red == value, green == value
    ahead = tl.where(is_red, green - blue, tl.where(is_green, blue - red, red - green))
    begin = tl.where(is_red, 0.0, tl.where(is_green, 2.0, 4.0))
    sixths = begin + ahead / tl.where(chroma > 0.0, chroma, 1.0) + 6.0 * turns
    return (
        _turned(sixths, value, chroma, 5.0),
        _turned(sixths, value, chroma, 3.0),
        _turned(sixths, value, chroma, 1.0),
    )


@triton.jit
def _changed(red, green, blue, draw, mean, number):  # type: ignore[no-untyped-def]
    """The first ``number`` changes in the image's order; ``mean`` is its grey at contrast."""
    for place in range(number):
        kind = tl.load(draw + ORDER + place).to(tl.int32)
        factor = tl.load(draw + FACTORS + kind)
        if kind == BRIGHTNESS:
            red = tl.minimum(tl.maximum(factor * red, 0.0), 1.0)
            green = tl.minimum(tl.maximum(factor * green, 0.0), 1.0)
            blue = tl.minimum(tl.maximum(factor * blue, 0.0), 1.0)
        elif kind == CONTRAST:
            red = _between(mean, red, factor)
            green = _between(mean, green, factor)
            blue = _between(mean, blue, factor)
        elif kind == SATURATION:
            grey = _grey(red, green, blue)
            red = _between(grey, red, factor)
            green = _between(grey, green, factor)
            blue = _between(grey, blue, factor)
        else:
            red, green, blue = _hue_shifted(red, green, blue, factor)
    return red, green, blue


@triton.jit(do_not_specialize=[  # type: ignore[untyped-decorator]
    "by_image", "by_channel", "by_line", "by_column"
])
def _sum_grey(  # type: ignore[no-untyped-def]
    images, draws, sums, by_image, by_channel, by_line, by_column,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BYTES: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Sums of grey over blocks of pixels, after the changes that come before contrast."""
    image = tl.program_id(0) // BLOCKS
    at = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    inside = at < HEIGHT * WIDTH
    draw = draws + image * COLUMNS
    red, green, blue = _cropped(
        images, draw, image.to(tl.int64), tl.where(inside, at, 0), by_image, by_channel, by_line,
        by_column, HEIGHT, WIDTH, BYTES,
    )
    place = 0
    for each in range(1, 4):
        place = tl.where(tl.load(draw + ORDER + each) == CONTRAST, each, place)
    red, green, blue = _changed(red, green, blue, draw, 0.0, place)
    grey = tl.where(inside, _grey(red, green, blue), 0.0)
    tl.store(sums + tl.program_id(0), tl.sum(grey, 0))


@triton.jit(do_not_specialize=[  # type: ignore[untyped-decorator]
    "by_image", "by_channel", "by_line", "by_column", "to_image", "to_channel", "to_line",
    "to_column",
])
def _augment(  # type: ignore[no-untyped-def]
    images, draws, sums, out, by_image, by_channel, by_line, by_column,
    to_image, to_channel, to_line, to_column,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BYTES: tl.constexpr,
    BLOCKS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr,
):
    """A block of pixels of an image after crop, flip, jitter and grey."""
    image = tl.program_id(0) // BLOCKS
    at = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    inside = at < HEIGHT * WIDTH
    pixel = tl.where(inside, at, 0)
    draw = draws + image * COLUMNS
    part = tl.arange(0, PARTS)
    parts = tl.load(sums + image * BLOCKS + part, mask=part < BLOCKS, other=0.0)
    mean = tl.sum(parts, 0) / (HEIGHT * WIDTH)
    red, green, blue = _cropped(
        images, draw, image.to(tl.int64), pixel, by_image, by_channel, by_line, by_column,
        HEIGHT, WIDTH, BYTES,
    )
    red, green, blue = _changed(red, green, blue, draw, mean, 4)
    if tl.load(draw + GREY) != 0.0:
        grey = _grey(red, green, blue)
        red, green, blue = grey, grey, grey
    place = out + image.to(tl.int64) * to_image
    place += (pixel // WIDTH) * to_line + (pixel % WIDTH) * to_column
    tl.store(place, red, mask=inside)
    tl.store(place + to_channel, green, mask=inside)
    tl.store(place + 2 * to_channel, blue, mask=inside)

# fmt: on


_sums, _images = Launcher(_sum_grey), Launcher(_augment)


def pack(
    crops: Tensor,
    flipped: Tensor,
    factors: Tensor,
    order: Tensor,
    grey: Tensor,
    pinned: bool = False,
) -> Tensor:
    """What happens to n images (``AugmentationDraws``) in one tensor (n, 14), on the CPU."""
    packed = torch.zeros(len(crops), COLUMNS, dtype=torch.float32, pin_memory=pinned)
    packed[:, :4] = crops
    packed[:, FLIPPED.value] = flipped
    packed[:, GREY.value] = grey
    packed[:, FACTORS.value : FACTORS.value + 4] = factors
    packed[:, ORDER.value : ORDER.value + 4] = order
    return packed


def augment(images: Tensor, packed: Tensor, block: int = BLOCK) -> Tensor:
    """Images (n, 3, height, width), bytes or float32 in [0, 1], changed as :func:`pack` says.

    ``packed`` (n, 14) is on the same device; ``block`` are the pixels per program, a power of two.
    """
    if images.dtype not in (torch.uint8, torch.float32):
        raise TypeError(f"images are bytes or float32, not {images.dtype}")
    number, _, height, width = images.shape
    out = torch.empty_like(images, dtype=torch.float32)
    if not out.numel():
        return out
    packed = packed.contiguous()
    blocks = triton.cdiv(height * width, block)
    sums = torch.empty(number, blocks, dtype=torch.float32, device=images.device)
    given, integers = (images, packed, sums), images.stride()
    constants = (height, width, COLUMNS, images.dtype == torch.uint8, blocks)
    exact = {"enable_fp_fusion": False}  # places in the image are rounded as in the reference
    _sums(number * blocks, given, integers, (*constants, block), **exact)
    parts = triton.next_power_of_2(blocks)
    integers = (*integers, *out.stride())
    _images(number * blocks, (*given, out), integers, (*constants, parts, block), **exact)
    return out
