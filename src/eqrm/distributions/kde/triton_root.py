"""The root solve of :mod:`.root_in_tensors` on a GPU, in one kernel launch.

In eager mode the solver in tensors is bound by the launches of its hundreds of small kernels.
Here one program per row takes the same steps in a loop that ends when the row has converged;
the host looks at nothing. Imported only where triton and a GPU are.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

MAX_STEPS = 100


@triton.jit  # type: ignore[untyped-decorator]
def _sums(  # type: ignore[no-untyped-def]
    centres, log_weights, size, t, DEEP: tl.constexpr, BLOCK: tl.constexpr
):
    """log S, f/S and the mean of z under the density, of one row at ``t``."""
    place = tl.arange(0, BLOCK)
    tails = tl.zeros([BLOCK], tl.float64)
    zeroth = tl.zeros([BLOCK], tl.float64)
    first = tl.zeros([BLOCK], tl.float64)
    for begin in range(0, size, BLOCK):
        inside = begin + place < size
        y = tl.load(centres + begin + place, mask=inside, other=0.0)
        log_p = tl.load(log_weights + begin + place, mask=inside, other=-float("inf"))
        z = t - y
        if DEEP:
            # Relative to the kernel at the origin, the largest: nothing underflows.
            kernel = libdevice.exp(log_p + y * (t - 0.5 * y))
            tails += kernel * libdevice.erfcx(z * 0.7071067811865476)
        else:
            kernel = libdevice.exp(log_p - 0.5 * z * z)
            tails += libdevice.exp(log_p) * libdevice.erfc(z * 0.7071067811865476)
        zeroth += kernel
        first += kernel * z
    sf = tl.sum(tails, 0)
    density = tl.sum(zeroth, 0)
    log_sf = libdevice.log(0.5 * sf)
    if DEEP:
        log_sf -= 0.5 * t * t
    return log_sf, density * 0.7978845608028654 / sf, tl.sum(first, 0) / density


@triton.jit
def _step(log_sf, hazard, mean_z, target):  # type: ignore[no-untyped-def]
    """The step of second order that root_in_tensors.py takes."""
    scale = libdevice.sqrt(-2.0 * log_sf)
    newton = (libdevice.sqrt(-2.0 * target) - scale) * scale / hazard
    factor = 1.0 + 0.5 * newton * (hazard - mean_z - hazard / (scale * scale))
    return newton / tl.where(factor > 0.5, tl.where(factor < 2.0, factor, 2.0), 0.5)


@triton.jit  # type: ignore[untyped-decorator]
def _solve_row(  # type: ignore[no-untyped-def]
    centres,
    log_weights,
    weights_stride,
    low_ends,
    high_ends,
    starts,
    roots,
    targets,
    size,
    DEEP: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    low, high = tl.load(low_ends + row), tl.load(high_ends + row)
    t, target = tl.load(starts + row), tl.load(targets)
    error = low * 0.0 + 1e300
    count = 0
    done = 0
    while (count < STEPS) & (done == 0):
        weights = log_weights + row * weights_stride
        log_sf, hazard, mean_z = _sums(centres + row * size, weights, size, t, DEEP, BLOCK)
        above = log_sf > target
        low = tl.where(above, t, low)
        high = tl.where(above, high, t)
        step = _step(log_sf, hazard, mean_z, target)
        proposal = t + step
        now = tl.abs(log_sf - target)
        within = (proposal >= low) & (proposal <= high)
        settled = (tl.abs(step) < 1e-6) & within
        good = settled | (within & (now <= 0.5 * error))
        error = now
        exact = now <= 2e-16 * tl.where(target < -1.0, -target, 1.0)
        closed = (high - low) <= 4e-16 * tl.maximum(tl.abs(low), tl.abs(high))
        t = tl.where(exact, t, tl.where(good, proposal, 0.5 * (low + high)))
        done = (settled | exact | closed).to(tl.int32)
        count += 1
    tl.store(roots + row, t)


def solve(
    centres: Tensor,
    log_weights: Tensor,
    target: float,
    low: Tensor,
    high: Tensor,
    start: Tensor,
    deep: bool,
) -> Tensor:
    """Roots of shape ``(..., 1)``; ``deep`` if the largest centre of each row is 0 and roots
    lie beyond it."""
    size = centres.shape[-1]
    rows = centres.numel() // size
    flat = centres.contiguous()
    weights = log_weights.contiguous()
    stride = 0 if weights.numel() == size else size
    ends = [end.expand(low.shape).contiguous() for end in (low, high, start)]
    roots = torch.empty_like(ends[0])
    block = min(1024, max(32, triton.next_power_of_2(size)))
    _solve_row[(rows,)](
        flat,
        weights,
        stride,
        *ends,
        roots,
        # A Python float would reach the kernel as a float32.
        torch.full((1,), target, dtype=torch.float64, device=centres.device),
        size,
        DEEP=deep,
        STEPS=MAX_STEPS,
        BLOCK=block,
        num_warps=max(1, min(8, block // 128)),
    )
    return roots
