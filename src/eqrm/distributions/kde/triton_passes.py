"""Passes over a row of risks on a GPU: moments, brackets, the root, the nearest kernel."""

from __future__ import annotations

import triton
import triton.language as tl

from eqrm.distributions.kde.triton_sums import (
    largest_of,
    log1p,
    log_of_one_plus,
    next_centres,
    next_part,
    part_of_row,
    power_of_two,
    shared,
    single_erfcx,
    tails,
    weights_at,
)
from eqrm.gpu.launching import sum_and_extremes, sum_of_four, sum_of_three

SINGLE_STEPS = tl.constexpr(6)
"""Steps in float32 at most: usual rows need one to four; where they fail, float64 begins anew."""

# fmt: off
# Kernels have long lists of arguments, which read better in lines than in columns.


@triton.jit  # type: ignore[untyped-decorator]
def heaviest_of(  # type: ignore[no-untyped-def]
    weights, place, size, meeting, times, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Σp, Σp², and where the first of the largest weights is."""
    total = tl.zeros([BLOCK], tl.float64)
    squares = tl.zeros([BLOCK], tl.float64)
    most = tl.zeros([BLOCK], tl.float64)
    where = tl.zeros([BLOCK], tl.float64)
    for begin in range(0, size, BLOCKS * BLOCK):
        at = begin + place
        p = weights_at(weights, at, at < size, 1)
        total += p
        squares += p * p
        where = tl.where(p > most, -at.to(tl.float64), where)
        most = tl.maximum(most, p)
    largest = tl.max(most, 0)
    first = tl.max(tl.where(most == largest, where, -float("inf")), 0)
    none = largest * 0.0
    weight, square = tl.sum(total, 0), tl.sum(squares, 0)
    weight, square, _, _ = shared(
        meeting, times + 1, weight, square, none, none, "sum", "sum", BLOCKS
    )
    overall = largest_of(meeting, times + 2, largest, BLOCKS)
    first = tl.where(largest == overall, first, -float("inf"))
    first = largest_of(meeting, times + 3, first, BLOCKS)
    return weight, square, (-first).to(tl.int64), times + 3


@triton.jit  # type: ignore[untyped-decorator]
def first_present(  # type: ignore[no-untyped-def]
    counts, place, size, meeting, times, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Where the first domain with examples is; 0 if none has any."""
    found = tl.zeros([BLOCK], tl.float64) - size
    for begin in range(0, size, BLOCKS * BLOCK):
        at = begin + place
        p = weights_at(counts, at, at < size, 2)
        found = tl.maximum(found, tl.where(p > 0.0, -at.to(tl.float64), -size))
    own = largest_of(meeting, times + 1, tl.max(found, 0), BLOCKS)
    return tl.where(own > -size, -own, 0.0).to(tl.int64), times + 1


@triton.jit  # type: ignore[untyped-decorator]
def moments_of(  # type: ignore[no-untyped-def]
    risks, weights, place, size, each, pivot, d, p, meeting, times, MODE: tl.constexpr,
    FITS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Of differences to the pivot: mean, largest, smallest; the mean of x², the unit of x and 1/it.

    x are differences to the mean in units near the largest of them, so that squares neither
    overflow nor underflow.
    """
    total = tl.zeros([BLOCK], tl.float64)
    above = total - float("inf")
    below = total - float("inf")
    for begin in range(0, 1 if FITS else size, BLOCKS * BLOCK):
        d, p = next_part(risks, weights, begin + place, size, pivot, d, p, MODE, FITS)
        total += p * d
        above = tl.maximum(above, tl.where(p > 0.0, d, -float("inf")))
        below = tl.maximum(below, tl.where(p > 0.0, -d, -float("inf")))
    mean, top, bottom = sum_and_extremes(total, above, below)
    mean, top, bottom, _ = shared(
        meeting, times + 1, mean, top, bottom, bottom, "sum", "largest", BLOCKS
    )
    mean, bottom = mean * each, -bottom
    reach = tl.maximum(tl.abs(top - mean), tl.abs(bottom - mean))
    unit, scale = power_of_two(reach)
    total = tl.zeros([BLOCK], tl.float64)
    for begin in range(0, 1 if FITS else size, BLOCKS * BLOCK):
        d, p = next_part(risks, weights, begin + place, size, pivot, d, p, MODE, FITS)
        x = (d - mean) * scale
        total += tl.where(p > 0.0, p * x * x, 0.0)
    square = tl.sum(total, 0)
    square, _, _, _ = shared(
        meeting, times + 2, square, square, square, square, "sum", "sum", BLOCKS
    )
    return mean, top, bottom, square * each, unit, scale, times + 2


@triton.jit  # type: ignore[untyped-decorator]
def deep_start(  # type: ignore[no-untyped-def]
    risks, weights, place, size, each, pivot, extreme, target, goal, otherwise, meeting, times,
    MODE: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):
    """A lower end of the bracket: the root of the outermost risk's kernel alone, or less.

    See ``_deep_bracket`` of :mod:`.root_in_tensors`.
    """
    weight = each + 0.0
    if MODE:
        most = tl.zeros([BLOCK], tl.float64)
        for begin in range(0, size, BLOCKS * BLOCK):
            d, p = part_of_row(risks, weights, begin + place, size, pivot, MODE)
            most = tl.maximum(most, tl.where(d == extreme, p, 0.0))
        times += 1
        weight = largest_of(meeting, times, tl.max(most, 0), BLOCKS) * each
    square = -2.0 * (target - tl.log(weight))
    square = tl.where(square > 0.0, square, 0.0)
    floor = square - 2.0 * log1p(tl.sqrt(square)) - 1.8378770664093453
    low = tl.where(floor > 1.0, tl.sqrt(tl.where(floor > 0.0, floor, 0.0)), otherwise)
    return tl.minimum(low, goal), times


@triton.jit
def near_kernels(y, p, t, nearest):  # type: ignore[no-untyped-def]
    """p·φ(t−y) relative to the nearest kernel: differences keep the digits that squares lose."""
    return tl.where(p > 0.0, p * tl.exp(-0.5 * (nearest - y) * ((t - y) + (t - nearest))), 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def nearest_to(  # type: ignore[no-untyped-def]
    risks, weights, place, size, pivot, origin, scale, inverse, y, p, t, meeting, times,
    MODE: tl.constexpr, LOWER: tl.constexpr, FITS: tl.constexpr, BLOCKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The centre whose kernel counts most at ``t``."""
    largest = tl.zeros([BLOCK], tl.float64) - float("inf")
    where = tl.zeros([BLOCK], tl.float64)
    for begin in range(0, 1 if FITS else size, BLOCKS * BLOCK):
        y, p = next_centres(
            risks, weights, begin + place, size, pivot, origin, scale, inverse, y, p, MODE, LOWER,
            FITS,
        )  # fmt: skip
        logit = y * (t - 0.5 * y)  # −(t−y)²/2, but for a constant
        if MODE == 1:
            logit += tl.log(p)
        logit = tl.where(p > 0.0, logit, -float("inf"))
        where = tl.where(logit > largest, y, where)
        largest = tl.maximum(largest, logit)
    own = tl.max(largest, 0)
    found = tl.max(tl.where(largest == own, where, -float("inf")), 0)
    overall = largest_of(meeting, times + 1, own, BLOCKS)
    found = tl.where(own == overall, found, -float("inf"))
    found = largest_of(meeting, times + 2, found, BLOCKS)
    return found, times + 2


@triton.jit
def _step(error, log_sf, hazard, mean_z, target):  # type: ignore[no-untyped-def]
    """The step of second order that root_in_tensors.py takes; ``error`` is log S − target."""
    scale = tl.sqrt(-2.0 * log_sf)
    newton = 2.0 * error * scale / ((tl.sqrt(-2.0 * target) + scale) * hazard)
    factor = 1.0 + 0.5 * newton * (hazard - mean_z + 0.5 * hazard / log_sf)
    return newton / tl.where(factor > 0.5, tl.where(factor < 2.0, factor, 2.0), 0.5)


@triton.jit
def start_in_single(y, p, each, t, low, high, target):  # type: ignore[no-untyped-def]
    """The root to about 1e-6 by steps in float32, from ``t``; ``t`` itself where they fail.

    They take a third of the time of steps in float64, of which one is then enough.
    """
    centre, share = y.to(tl.float32), (p * each).to(tl.float32)
    at, goal = t.to(tl.float32), target.to(tl.float32)
    lowest, highest = low.to(tl.float32), high.to(tl.float32)
    count = 0
    done = 0
    while (count < SINGLE_STEPS) & (done == 0):
        z = at - centre
        kernel = share * tl.exp(-0.5 * z * z)
        tail = 0.5 * kernel * single_erfcx(tl.abs(z) * 0.70710678)
        above = tl.where(z < 0.0, share - tail, tail)
        tail, density, moment = sum_of_three(above, kernel, kernel * z)
        log_sf, mean_z = tl.log(tail), moment / density
        error = log_sf - goal
        step = _step(error, log_sf, density * 0.39894228 / tail, mean_z, goal)
        lowest = tl.where(error > 0.0, at, lowest)
        highest = tl.where(error > 0.0, highest, at)
        proposal = at + step
        within = (proposal >= lowest) & (proposal <= highest)
        at = tl.where(within, proposal, 0.5 * (lowest + highest))
        # Steps are of third order: the next would be less than 1e-5.
        cube = tl.abs(step) * step * step * (1.0 + mean_z * mean_z)
        done = (within & (cube < 1e-4)).to(tl.int32)
        count += 1
    found = at.to(tl.float64)
    return tl.where((done == 1) & (found >= low) & (found <= high), found, t)


@triton.jit  # type: ignore[untyped-decorator]
def root_from(  # type: ignore[no-untyped-def]
    risks, weights, place, size, each, pivot, origin, scale, inverse, y, p, t, low, high, target,
    tail, meeting, times, MODE: tl.constexpr, LOWER: tl.constexpr, DEEP: tl.constexpr,
    STEPS: tl.constexpr, FITS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):
    """Safeguarded steps from ``t`` until they lead nowhere, at most ``STEPS``.

    Also √2π times the density before the last step, relative to the kernel at the origin if
    ``DEEP``.
    """
    before = tl.abs(t) * 0.0 + 1e300
    density = before * 0.0
    count = 0
    done = 0
    while (count < STEPS) & (done == 0):
        above = tl.zeros([BLOCK], tl.float64)
        rest = tl.zeros([BLOCK], tl.float64)
        zeroth = tl.zeros([BLOCK], tl.float64)
        first = tl.zeros([BLOCK], tl.float64)
        for begin in range(0, 1 if FITS else size, BLOCKS * BLOCK):
            y, p = next_centres(
                risks, weights, begin + place, size, pivot, origin, scale, inverse, y, p, MODE,
                LOWER, FITS,
            )  # fmt: skip
            a, b, kernel, moment = tails(y, p, t, DEEP)
            above += a
            rest += b
            zeroth += kernel
            first += moment
        times += 1
        over, beside, density, moment = sum_of_four(above, rest, zeroth, first)
        over, beside, density, moment = shared(
            meeting, times, over, beside, density, moment, "sum", "sum", BLOCKS
        )
        over, beside = over * each, beside * each
        if DEEP:
            log_sf = tl.log(beside) - 0.5 * t * t
            error = log_sf - target
        else:
            excess = ((over - tail) + beside) / tail
            error = log_of_one_plus(excess)
            log_sf = target + error
        hazard = density * each * 0.3989422804014327 / (over + beside)
        mean_z = moment / density
        step = _step(error, log_sf, hazard, mean_z, target)
        low = tl.where(error > 0.0, t, low)
        high = tl.where(error > 0.0, high, t)
        proposal = t + step
        within = (proposal >= low) & (proposal <= high)
        # Steps are of third order: the next is about as large as this one's cube.
        cube = tl.abs(step) * step * step * (1.0 + mean_z * mean_z)
        settled = (tl.minimum(tl.abs(step), 1e5 * cube) < 1e-10 + 1e-15 * tl.abs(t)) & within
        now = tl.abs(error)
        # In a gap between risks the curve is flat, and steps along it lead nowhere.
        good = settled | (within & (now <= 0.5 * before))
        before = now
        closed = (high - low) <= 4e-16 * tl.maximum(tl.abs(low), tl.abs(high))
        t = tl.where(error == 0.0, t, tl.where(good, proposal, 0.5 * (low + high)))
        done = (settled | closed | (error == 0.0)).to(tl.int32)
        count += 1
    return t, density * each, times
