"""Bias, ReLU and dropout of :mod:`.activations` on a GPU, one kernel for each direction.

These passes over the activations are bound by memory: fused, every number is read and written
once, and masks are never stored. Imported only where triton and a GPU are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 512
"""Random numbers come in fours: a program works on four blocks."""
ROWS, ROWS_AT_ONCE = 256, 8


@triton.jit  # type: ignore[untyped-decorator]
def _rectify_and_drop(  # type: ignore[no-untyped-def]
    z, bias, keys, count, size, width, kept_below, factor, BLOCK: tl.constexpr
):
    run = tl.program_id(1).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    key = tl.load(keys + run) + count
    first, second, third, fourth = tl.randint4x(key, tl.program_id(0) * BLOCK + lane)
    for part in tl.static_range(4):
        at = (tl.program_id(0) * 4 + part) * BLOCK + lane
        inside = at < size
        value = tl.load(z + run * size + at, mask=inside, other=0.0).to(tl.float32)
        value += tl.load(bias + run * width + at % width)
        word = first if part == 0 else (second if part == 1 else (third if part == 2 else fourth))
        word = word.to(tl.uint32, bitcast=True)
        # The upper 24 bits, so that the bound is exact in the float32 it is passed in.
        kept = ((word >> 8).to(tl.float32) < kept_below) & (value > 0)
        value = tl.where(kept, value * factor, 0.0)
        tl.store(z + run * size + at, value.to(z.dtype.element_ty), mask=inside)


def rectify_and_drop_(z: Tensor, bias: Tensor, rate: float, keys: Tensor, count: int) -> Tensor:
    """See :func:`studies.many_runs.activations.rectify_`; ``keys`` (R,) decide what is dropped.

    Philox random numbers with key ``keys + count``, one per unit and row.
    """
    runs, rows, width = z.shape
    size = rows * width
    grid = (triton.cdiv(size, 4 * BLOCK), runs)
    kept_below = float(round((1.0 - rate) * 2**24))
    factor = 1.0 / (1.0 - rate)
    _rectify_and_drop[grid](
        z, bias.contiguous(), keys, count, size, width, kept_below, factor, BLOCK=BLOCK
    )
    return z


@triton.jit  # type: ignore[untyped-decorator]
def _rectified_gradient(  # type: ignore[no-untyped-def]
    gradient, h, sums, rows, width, factor, ROWS: tl.constexpr, STEP: tl.constexpr, W: tl.constexpr
):
    run = tl.program_id(1).to(tl.int64)
    column = tl.arange(0, W)
    total = tl.zeros([STEP, W], tl.float32)
    for begin in range(0, ROWS, STEP):
        row = tl.program_id(0) * ROWS + begin + tl.arange(0, STEP)
        at = (run * rows + row[:, None]) * width + column[None, :]
        inside = (row[:, None] < rows) & (column[None, :] < width)
        value = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
        passed = tl.load(h + at, mask=inside, other=0.0).to(tl.float32) > 0
        value = tl.where(passed, value * factor, 0.0).to(gradient.dtype.element_ty)
        tl.store(gradient + at, value, mask=inside)
        total += value.to(tl.float32)
    place = (run * tl.num_programs(0) + tl.program_id(0)) * width + column
    tl.store(sums + place, tl.sum(total, 0), mask=column < width)


def rectified_gradient_and_sum_(
    gradient: Tensor, h: Tensor, factor: float
) -> tuple[Tensor, Tensor]:
    """See :func:`studies.many_runs.activations.rectified_gradient_`."""
    runs, rows, width = gradient.shape
    blocks = triton.cdiv(rows, ROWS)
    sums = torch.empty((runs, blocks, width), dtype=torch.float32, device=gradient.device)
    _rectified_gradient[(blocks, runs)](
        gradient,
        h,
        sums,
        rows,
        width,
        factor,
        ROWS=ROWS,
        STEP=ROWS_AT_ONCE,
        W=triton.next_power_of_2(width),
    )
    return gradient, sums.sum(1)
