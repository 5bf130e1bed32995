"""KDE quantiles with their gradients on a GPU, in one kernel launch.

A row of risks that one program can hold well is served by one; a long row by programs on the
whole device. Nothing is read by the host. The mathematics is that of :mod:`.root_in_tensors` and
:mod:`.gradient`. Imported only where triton and a GPU are; Triton's interpreter
(``TRITON_INTERPRET=1``) runs the same code on a CPU, for tests.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from eqrm.distributions.kde.sums import NARROWEST
from eqrm.distributions.kde.triton_passes import (
    deep_start,
    first_present,
    heaviest_of,
    moments_of,
    near_kernels,
    nearest_to,
    root_from,
    start_in_single,
)
from eqrm.distributions.kde.triton_sums import (
    NUMBERS_SHARED,
    centres,
    next_centres,
    risks_at,
    shared,
    weights_at,
)
from eqrm.gpu.launching import Launcher, bits_of, double, sum_of_two
from eqrm.level import Level

MAX_STEPS = 100

FAINTEST = 1e-30
"""A density, in bandwidths, below which kernels must be compared with the nearest of them."""

ONE_PROGRAM = 4096
"""Rows up to this length are served by one program each."""

BLOCK, WARPS = 1024, 8
"""Risks that a program takes at once, and its warps; twice as many in the longest rows."""

LONGEST_OF_SMALL_BLOCKS = 500_000

EQUAL, GIVEN_WEIGHTS, COUNTS = 0, 1, 2
"""How domains are weighed: equally, as given, or equally if they have examples."""

NUMBERS = ("stride", "rows", "size", "target_bits", "tail_bits", "goal_bits", "factor_bits")
"""Arguments for whose values no kernel of its own is compiled."""

# fmt: off
# Kernels have long lists of arguments, which read better in lines than in columns.


@triton.jit  # type: ignore[untyped-decorator]
def _write_gradient(  # type: ignore[no-untyped-def]
    risks, weights, place, size, each, pivot, mean, origin, scale, inverse, y, p, t, by_std,
    gradient, slope, meeting, times, faint, MODE: tl.constexpr, GIVEN: tl.constexpr,
    LOWER: tl.constexpr, FITS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):
    """dq/dR_i = w_i + z̄·∂h/∂R_i, or w_i and dq/dh = z̄ where h is given.

    Kernels are relative to that at ``t`` itself, or to the nearest where those are ``FAINT``.
    """
    nearest, y_of_mean = t, centres(mean, origin, scale, inverse, LOWER)
    if faint:
        nearest, times = nearest_to(
            risks, weights, place, size, pivot, origin, scale, inverse, y, p, t, meeting, times,
            MODE, LOWER, FITS, BLOCKS, BLOCK,
        )  # fmt: skip
    zeroth = tl.zeros([BLOCK], tl.float64)
    first = tl.zeros([BLOCK], tl.float64)
    kernel = zeroth
    for begin in range(0, 1 if FITS else size, BLOCKS * BLOCK):
        y, p = next_centres(
            risks, weights, begin + place, size, pivot, origin, scale, inverse, y, p, MODE, LOWER,
            FITS,
        )  # fmt: skip
        kernel = near_kernels(y, p, t, nearest)
        zeroth += kernel
        first += kernel * (y - nearest)
    times += 1
    total, moment = sum_of_two(zeroth, first)
    total, moment, _, _ = shared(
        meeting, times, total, moment, moment, moment, "sum", "sum", BLOCKS
    )
    mean_z = (t - nearest) - moment / total
    mean_z = -mean_z if LOWER else mean_z
    share = 1.0 / total
    if GIVEN and (BLOCKS == 1 or tl.program_id(0) == 0):
        tl.store(slope, mean_z)
    for begin in range(0, 1 if FITS else size, BLOCKS * BLOCK):
        at = begin + place
        y, p = next_centres(
            risks, weights, at, size, pivot, origin, scale, inverse, y, p, MODE, LOWER, FITS
        )
        if not FITS:
            kernel = near_kernels(y, p, t, nearest)
        found = kernel * share
        if not GIVEN:
            from_mean = -(y - y_of_mean) if LOWER else y - y_of_mean
            found += p * each * from_mean * (mean_z * by_std)
        tl.store(gradient + at, found, mask=at < size)
    return times


@triton.jit  # type: ignore[untyped-decorator]
def _factor(factor, effective, MODE: tl.constexpr):  # type: ignore[no-untyped-def]
    """h/σ̂: m^−0.2 is in the factor given, so it is right where m domains count the same."""
    if MODE:  # noqa: SIM102 (decided when the kernel is compiled)
        if effective != 1.0:
            factor *= tl.exp(0.2 * tl.log(effective))
    return factor


@triton.jit
def _bandwidth(factor, several, spread, mean):  # type: ignore[no-untyped-def]
    """h = factor·σ̂; 0 for a single domain, and NaN where the mean is."""
    known = tl.where(several > 1e-12, several, 1.0)
    h = spread * tl.where(several > 1e-12, factor / tl.sqrt(known), 0.0)
    return tl.where(mean == mean, h, mean)


@triton.jit  # type: ignore[untyped-decorator]
def _weighed(  # type: ignore[no-untyped-def]
    risks, weights, place, size, meeting, times, MODE: tl.constexpr, BLOCKS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What a unit of weight is of the whole, Σp_i², and a risk that counts, for differences."""
    found = tl.cast(0, tl.int64)
    if MODE == 1:
        weight, square, found, times = heaviest_of(
            weights, place, size, meeting, times, BLOCKS, BLOCK
        )
        each, concentration = 1.0 / weight, square / (weight * weight)
    else:
        number = tl.cast(size, tl.float64)
        if MODE == 2:
            number = tl.load(weights + size)  # behind the numbers of examples
            if tl.load(weights) == 0.0:
                found, times = first_present(weights, place, size, meeting, times, BLOCKS, BLOCK)
        each = 1.0 / number
        concentration = each
    pivot = risks_at(risks, weights, found, found < size, MODE)
    return each, concentration, pivot, times


@triton.jit(do_not_specialize=NUMBERS)  # type: ignore[untyped-decorator]
def _quantile_rows(  # type: ignore[no-untyped-def]
    risks, weights, given, values, gradients, slopes, meeting, stride, rows, size, target_bits,
    tail_bits, goal_bits, factor_bits, MODE: tl.constexpr, GIVEN: tl.constexpr, LOWER: tl.constexpr,
    DEEP: tl.constexpr, GRADIENT: tl.constexpr, NARROW: tl.constexpr, FAINT: tl.constexpr,
    STEPS: tl.constexpr, FITS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):
    """A program for each row, or ``BLOCKS`` programs for all rows, one after the other."""
    target, tail = double(target_bits), double(tail_bits)
    goal, factor = double(goal_bits), double(factor_bits)
    part, begin_row, end_row = tl.program_id(0), 0, rows
    if BLOCKS == 1:
        part, begin_row, end_row = 0, tl.program_id(0), tl.program_id(0) + 1
    place = part * BLOCK + tl.arange(0, BLOCK)
    times = 0
    for number in range(begin_row, end_row):
        row = tl.cast(number, tl.int64)
        own, p = risks + row * size, weights + row * stride
        # Loaded first: what is loaded next is then near.
        own_p = weights_at(p, place, place < size, MODE)
        own_risks = risks_at(own, p, place, place < size, MODE)
        each, concentration, pivot, times = _weighed(
            own, p, place, size, meeting, times, MODE, BLOCKS, BLOCK
        )
        own_d = tl.where(own_p > 0.0, own_risks - pivot, 0.0)
        mean, top, bottom, square, unit, scale, times = moments_of(
            own, p, place, size, each, pivot, own_d, own_p, meeting, times, MODE, FITS, BLOCKS,
            BLOCK,
        )  # fmt: skip
        several, spread = 1.0 - concentration, tl.sqrt(square)
        reach = tl.maximum(tl.abs(top - mean), tl.abs(bottom - mean))
        if GIVEN:
            h = tl.load(given + row)
            h = tl.where(h > 0.0, tl.maximum(h, reach * NARROW), h)
        else:
            factor = _factor(double(factor_bits), concentration * size, MODE)
            h = _bandwidth(factor, several, unit * spread, mean)
        extreme = bottom if LOWER else top
        origin = extreme if DEEP else mean
        inverse = tl.where(h > 0.0, 1.0 / tl.where(h > 0.0, h * scale, 1.0), 0.0)
        low = centres(top if LOWER else bottom, origin, scale, inverse, LOWER) + goal
        high = centres(extreme, origin, scale, inverse, LOWER) + goal
        if DEEP:
            low, times = deep_start(
                own, p, place, size, each, pivot, extreme, target, goal, low, meeting, times,
                MODE, BLOCKS, BLOCK,
            )  # fmt: skip
            t = low
        else:
            bandwidths = spread * inverse
            t = tl.minimum(tl.maximum(goal * tl.sqrt(1.0 + bandwidths * bandwidths), low), high)
        own_y = centres(own_d, origin, scale, inverse, LOWER)
        if FITS and not DEEP:
            t = start_in_single(own_y, own_p, each, t, low, high, target)
        t, density, times = root_from(
            own, p, place, size, each, pivot, origin, scale, inverse, own_y, own_p, t, low, high,
            target, tail, meeting, times, MODE, LOWER, DEEP, STEPS, FITS, BLOCKS, BLOCK,
        )  # fmt: skip
        # A risk that is not finite spoils the mean, whatever the steps have made of it.
        value = pivot + (origin + h * (-t if LOWER else t))
        if part == 0:
            tl.store(values + row, tl.where(mean - mean == 0.0, value, mean - mean))
        if GRADIENT:
            by_std = factor * factor / tl.maximum(several, 1e-12)
            faint = DEEP | (density < FAINT) | (h <= 0.0)
            times = _write_gradient(
                own, p, place, size, each, pivot, mean, origin, scale, inverse, own_y, own_p, t,
                by_std, gradients + row * size, slopes + row, meeting, times, faint,
                MODE, GIVEN, LOWER, FITS, BLOCKS, BLOCK,
            )  # fmt: skip

# fmt: on


def _programs(rows: int, size: int, device: torch.device) -> int:
    """How many programs share a row: a power of 2, so few that all run at the same time."""
    if size <= ONE_PROGRAM or device.type != "cuda":
        return 1
    everywhere = int(torch.cuda.get_device_properties(device).multi_processor_count)
    if rows >= everywhere:
        return 1
    most = min(everywhere, -(-size // BLOCK))
    return 1 << (most.bit_length() - 1)


def quantile_rows(
    risks: Tensor,
    weights: Tensor | None,
    given: Tensor | None,
    constant: float,
    level: Level,
    wants_gradient: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """q and dq/dR of rows ``(..., m)`` in their dtype, and dq/dh (..., 1) where h is given.

    ``given`` is a bandwidth (..., 1), float64; without it h = ``constant``·m^−0.2·σ̂. ``weights``
    are float64, in any unit.
    """
    size = risks.shape[-1]
    own = risks if risks.is_contiguous() else risks.contiguous()
    stride = 0
    if weights is not None and weights.numel() != size:
        weights, stride = weights.expand(risks.shape), size
    value, gradient, slopes = own.new_empty(risks.shape[:-1]), None, None
    if wants_gradient:
        gradient = own.new_empty(own.shape)
    if given is not None:
        given = given.expand(*risks.shape[:-1], 1).contiguous()
        slopes = torch.empty_like(given) if wants_gradient else None
    mode = EQUAL if weights is None else GIVEN_WEIGHTS
    weights = own if weights is None else weights.contiguous()
    outputs = (value, gradient, slopes)
    _launch(own, weights, stride, mode, given, outputs, size, constant, level)
    return outputs


def quantile_with_slopes(
    risks: Tensor, weights: Tensor, constant: float, level: Level
) -> tuple[Tensor, Tensor]:
    """q and dq/dR of one row of risks (m,) with weights (m,), both float64."""
    value, gradient = risks.new_empty(()), torch.empty_like(risks)
    outputs = (value, gradient, None)
    _launch(risks, weights, 0, GIVEN_WEIGHTS, None, outputs, risks.numel(), constant, level)
    return value, gradient


def quantile_of_totals(
    totals: Tensor,
    size: int,
    constant: float,
    level: Level,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """q and dq/dR of risks given as sums of losses (m,) and, behind them, numbers of examples."""
    value = totals.new_empty((), dtype=dtype)
    gradient = totals.new_empty(size, dtype=dtype)
    outputs = (value, gradient, None)
    _launch(totals, totals[size:], 0, COUNTS, None, outputs, size, constant, level)
    return value, gradient


class _Plan(NamedTuple):
    """What a launch passes on besides its tensors, and how it is launched."""

    numbers: tuple[int, ...]
    constants: tuple[Any, ...]
    programs: int
    shared: int
    warps: int


@lru_cache(maxsize=1024)
def _plan(
    rows: int,
    size: int,
    device: torch.device,
    constant: float,
    level: Level,
    mode: int,
    given: bool,
    gradient: bool,
) -> _Plan:
    lower = level.log_tail > -math.log(2.0)
    target = level.log_alpha if lower else level.log_tail
    programs, shared_numbers = _programs(rows, size, device), 0
    block, warps = BLOCK, WARPS
    if programs > 1:
        shared_numbers = 1 + 2 * NUMBERS_SHARED * programs
        if size >= LONGEST_OF_SMALL_BLOCKS:
            block, warps = 2 * BLOCK, 2 * WARPS
    else:
        block = min(ONE_PROGRAM, max(32, triton.next_power_of_2(size)))
        warps = min(WARPS if block <= BLOCK else 2 * WARPS, block // 32)
    tail = level.alpha if lower else level.tail
    numbers = (target, tail, abs(level.z), constant * size**-0.2)
    deep = target < -15.0 - math.log(size)
    constants = (mode, given, lower, deep, gradient, NARROWEST, FAINTEST, MAX_STEPS, size <= block)
    bits = tuple(bits_of(number) for number in numbers)
    return _Plan(bits, (*constants, programs, block), programs, shared_numbers, warps)


_quantiles = Launcher(_quantile_rows)


def _launch(
    risks: Tensor,
    weights: Tensor,
    stride: int,
    mode: int,
    given: Tensor | None,
    outputs: tuple[Tensor, Tensor | None, Tensor | None],
    size: int,
    constant: float,
    level: Level,
) -> None:
    value, gradient, slopes = outputs
    rows, device = value.numel(), risks.device
    plan = _plan(rows, size, device, constant, level, mode, given is not None, gradient is not None)
    meeting = value
    if plan.shared:
        meeting = torch.zeros(plan.shared, dtype=torch.float64, device=device)
    _quantiles(
        plan.programs if plan.programs > 1 else rows,
        (
            risks,
            weights,
            value if given is None else given,
            value,
            value if gradient is None else gradient,
            value if slopes is None else slopes,
            meeting,
        ),
        (stride, rows, size, *plan.numbers),
        plan.constants,
        plan.warps,
        **({"launch_cooperative_grid": True} if plan.shared else {}),
    )
