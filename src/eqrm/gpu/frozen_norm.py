"""Batch norm with fixed statistics and what follows it (ReLU, ReLU6) on a GPU: one launch forward,
two backward.

Images are in the memory format of channels last: a matrix of pixels × channels. torch's own kernels
for fixed statistics go through it value by value. Imported only where triton and a GPU are;
Triton's interpreter runs it on a CPU, for tests.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from eqrm.gpu.launching import Launcher

ELEMENTS = 1024
"""Of a block of pixels × channels."""
WARPS = 4
FEW_BLOCKS, MANY_BLOCKS, LARGE = 2, 16, 1 << 24
"""Blocks that a program goes through, one below the other, adding up their sums: few or, of images
with more values than this, many."""
SIZES = ["pixels", "channels", "height", "width", "top", "left", "new_height", "new_width"]
WIDTHS = (128, 64, 32, 16)
"""Channels of a block: the first of these that divides their number."""


@triton.jit  # type: ignore[untyped-decorator]
def _line(weight, bias, mean, variance, channel, own, EPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The norm of each channel as scale·x + shift."""
    scale = tl.load(weight + channel, mask=own, other=0.0).to(tl.float32)
    spread = tl.load(variance + channel, mask=own, other=1.0).to(tl.float32)
    inverse = 1.0 / tl.sqrt(spread + EPS)
    centre = tl.load(mean + channel, mask=own, other=0.0).to(tl.float32)
    shift = tl.load(bias + channel, mask=own, other=0.0).to(tl.float32)
    return scale * inverse, shift - centre * scale * inverse, centre, inverse


@triton.jit
def _moved(pixel, height, width, top, left, new_height, new_width):  # type: ignore[no-untyped-def]
    """The numbers of pixels in images of another size, and whether they are inside of it."""
    narrow = pixel.to(tl.int32)  # dividing wide integers takes many times as long
    line = narrow // width
    row = line % height + top
    column = narrow - line * width + left
    inside = (row >= 0) & (row < new_height) & (column >= 0) & (column < new_width)
    image = line // height
    return ((image * new_height + row) * new_width + column).to(tl.int64), inside


@triton.jit(do_not_specialize=SIZES)  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    x, weight, bias, mean, variance, y,
    pixels, channels, height, width, top, left, new_height, new_width, PADDED: tl.constexpr,
    EPS: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(channels, WIDTH)
    channel = (tl.program_id(0) % across) * WIDTH + tl.arange(0, WIDTH)
    own = channel < channels
    scale, shift, _, _ = _line(weight, bias, mean, variance, channel, own, EPS)
    first = (tl.program_id(0) // across).to(tl.int64) * (ROWS * TURNS)
    for turn in range(TURNS):
        pixel = first + turn * ROWS + tl.arange(0, ROWS)
        exists = pixel < pixels
        source, given = pixel, exists
        if PADDED:  # pixels are those of the result
            source, given = _moved(pixel, new_height, new_width, -top, -left, height, width)
            given = given & exists
        inside = given[:, None] & own[None, :]
        at = source[:, None] * channels + channel[None, :]
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        value = value * scale[None, :] + shift[None, :]
        if LOWEST:
            value = tl.maximum(value, 0.0)
        if HIGHEST > 0:
            value = tl.minimum(value, HIGHEST)
        if PADDED:
            value = tl.where(given[:, None], value, 0.0)
        to = pixel[:, None] * channels + channel[None, :]
        tl.store(y + to, value, mask=exists[:, None] & own[None, :])


@triton.jit(do_not_specialize=SIZES)  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    x, slopes, weight, bias, mean, variance, gradient, sums,
    pixels, channels, height, width, top, left, new_height, new_width, PADDED: tl.constexpr,
    EPS: tl.constexpr, LOWEST: tl.constexpr, HIGHEST: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, TURNS: tl.constexpr,
):  # fmt: skip
    """The gradient in x, and of each program the sums over its pixels that weight and bias need."""
    across = tl.cdiv(channels, WIDTH)
    part = tl.program_id(0) // across
    channel = (tl.program_id(0) % across) * WIDTH + tl.arange(0, WIDTH)
    own = channel < channels
    scale, shift, centre, inverse = _line(weight, bias, mean, variance, channel, own, EPS)
    plain = tl.zeros([ROWS, WIDTH], tl.float32)
    scaled = tl.zeros([ROWS, WIDTH], tl.float32)
    first = part.to(tl.int64) * (ROWS * TURNS)
    for turn in range(TURNS):
        pixel = first + turn * ROWS + tl.arange(0, ROWS)
        inside = (pixel < pixels)[:, None] & own[None, :]
        at = pixel[:, None] * channels + channel[None, :]
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        if PADDED:
            there, _ = _moved(pixel, height, width, top, left, new_height, new_width)
            slope_at = there[:, None] * channels + channel[None, :]
        else:
            slope_at = at
        slope = tl.load(slopes + slope_at, mask=inside, other=0.0).to(tl.float32)
        line = value * scale[None, :] + shift[None, :]
        if LOWEST:
            slope = tl.where(line > 0.0, slope, 0.0)
        if HIGHEST > 0:
            slope = tl.where(line < HIGHEST, slope, 0.0)
        tl.store(gradient + at, slope * scale[None, :], mask=inside)
        plain += slope
        scaled += slope * (value - centre[None, :])
    to = sums + part.to(tl.int64) * (2 * channels) + channel
    tl.store(to, tl.sum(scaled, 0) * inverse, mask=own)
    tl.store(to + channels, tl.sum(plain, 0), mask=own)


@triton.jit(do_not_specialize=["parts", "numbers"])  # type: ignore[untyped-decorator]
def _add_up(sums, total, parts, numbers, ROWS: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sums over the parts, in a fixed order."""
    number = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    own = number < numbers
    found = tl.zeros([WIDTH], tl.float32)
    for first in range(0, parts, ROWS):
        part = first + tl.arange(0, ROWS)
        at = part[:, None] * numbers + number[None, :]
        found += tl.sum(
            tl.load(sums + at, mask=(part < parts)[:, None] & own[None, :], other=0.0), 0
        )
    tl.store(total + number, found, mask=own)


_apply, _differentiate, _total = Launcher(_forward), Launcher(_backward), Launcher(_add_up)


def _layout(channels: int) -> tuple[int, int]:
    """Rows and width of a block."""
    width = next((each for each in WIDTHS if channels % each == 0), WIDTHS[-1])
    return ELEMENTS // width, width


class FrozenNorm(torch.autograd.Function):
    """(x − mean)/√(variance + eps)·weight + bias, cut off below 0 and above ``highest``, padded.

    ``highest`` is None for no cutting, ``math.inf`` for ReLU, 6 for ReLU6. x is in channels last.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        variance: Tensor,
        eps: float,
        highest: float | None,
        padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> Tensor:
        sizes = _sizes(x, padding)
        shape = (len(x), x.shape[1], *sizes[-2:])
        y = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        rows, width = _layout(x.shape[1])
        pixels = y.numel() // y.shape[1]
        _apply(
            triton.cdiv(pixels, rows * FEW_BLOCKS) * triton.cdiv(x.shape[1], width),
            (x, weight, bias, mean, variance, y),
            (pixels, *sizes),
            (any(padding), eps, *_cut(highest), rows, width, FEW_BLOCKS),
            WARPS,
        )
        ctx.save_for_backward(x, weight, bias, mean, variance)
        ctx.eps, ctx.highest, ctx.padding = eps, highest, padding
        return y

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, variance = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            left, right, top, bottom = ctx.padding
            slopes = functional.pad(slopes, (-left, -right, -top, -bottom))
            found = _by_composition(slopes, ctx.saved_tensors, ctx.eps, ctx.highest)
            return (*found, None, None, None, None, None)
        slopes = slopes.contiguous(memory_format=torch.channels_last)
        gradient = torch.empty_like(x)
        pixels, channels = x.numel() // x.shape[1], x.shape[1]
        rows, width = _layout(channels)
        turns = MANY_BLOCKS if x.numel() > LARGE else FEW_BLOCKS
        parts = triton.cdiv(pixels, rows * turns)
        sums = x.new_empty((parts, 2 * channels), dtype=torch.float32)
        _differentiate(
            parts * triton.cdiv(channels, width),
            (x, slopes, weight, bias, mean, variance, gradient, sums),
            (pixels, *_sizes(x, ctx.padding)),
            (any(ctx.padding), ctx.eps, *_cut(ctx.highest), rows, width, turns),
            WARPS,
        )
        total = sums.new_empty(2 * channels)
        _total(triton.cdiv(2 * channels, 32), (sums, total), (parts, 2 * channels), (32, 32))
        by_weight, by_bias = total.to(weight.dtype).split(channels)
        return gradient, by_weight, by_bias, None, None, None, None, None


def _sizes(x: Tensor, padding: tuple[int, int, int, int]) -> tuple[int, ...]:
    """Channels, height and width, how far the image moves, and height and width when padded."""
    height, width = x.shape[2:]
    left, right, top, bottom = padding
    return x.shape[1], height, width, top, left, height + top + bottom, width + left + right


def _cut(highest: float | None) -> tuple[bool, float]:
    if highest is None:
        return False, 0.0
    return True, 0.0 if math.isinf(highest) else highest


def _by_composition(
    slopes: Tensor, saved: tuple[Tensor, ...], eps: float, highest: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients in x, weight and bias, in operations that can be differentiated."""
    x, weight, bias, mean, variance = saved
    shape = (1, -1, 1, 1)
    inverse = (variance + eps).rsqrt()
    normal = (x.to(weight.dtype) - mean.reshape(shape)) * inverse.reshape(shape)
    line = normal * weight.reshape(shape) + bias.reshape(shape)
    slopes = slopes.to(weight.dtype)
    if highest is not None:
        slopes = slopes * ((line > 0.0) & (line < highest)).to(weight.dtype)
    gradient = (slopes * (weight * inverse).reshape(shape)).to(x.dtype)
    return gradient, (slopes * normal).sum((0, 2, 3)), slopes.sum((0, 2, 3))
