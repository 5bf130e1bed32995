"""The root t of Σ p_i Φ(y_i − t) = 1−α: the quantile of unit kernels centred at y.

Two solvers share the mathematics and differ in what they run on.

* :func:`root_of_one` serves one row on the CPU. Its loop is in Python floats and only the
  sums over kernels (:mod:`eqrm.distributions.kde.sums`) touch arrays, which is several
  times faster than the same loop in tensors.
* :func:`roots_in_tensors` serves rows in a batch, GPUs, CUDA graphs and ``torch.compile``.
  It never asks the device for a value, so it takes a fixed number of steps.

Both take Householder steps (of third and of second order) on a scale on which the tail
probability is almost a straight line, inside a bracket that every evaluation narrows, and
bisect when a step would leave it or gain nothing.
"""

from __future__ import annotations

import math
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from eqrm.distributions import normal_tails
from eqrm.distributions.kde.sums import KernelSums, Tail
from eqrm.level import Level, normal_upper_quantile

MAX_STEPS = 160


def root_of_one(sums: KernelSums) -> float:
    """Solve for one row in Python floats; returns the root relative to ``sums.origin``.

    The scale is G(t) = Φ⁻¹(1 − S(t)) with S the tail probability: linear for one kernel,
    and nearly so in the bulk of many and in their tails.
    """
    target, goal = sums.equation.log_tail, sums.equation.goal
    low, high, error = -math.inf, math.inf, math.inf
    rougher = sums.rougher()
    t = sums.start if rougher is None else root_of_one(rougher)
    for _ in range(MAX_STEPS):
        tail = sums.at(t)
        log_sf = tail.log_sf
        if log_sf > target:
            low = t
        else:
            high = t
        step = _step(tail, goal)
        # How fast the density changes, where it does so faster than one kernel.
        pace = max(1.0, abs(tail.first), math.sqrt(abs(tail.second)))
        reach = abs(step) * pace
        if reach < 1.0 and abs(log_sf - target) < 1.0:
            refined = _refined(step, tail, target)
            # In a wide gap the density is nothing, and one rounding of S a step of any length.
            step = refined if abs(refined) * pace < 1.0 else step
        proposal = t + step
        if reach < sums.tolerance and low <= proposal <= high:
            return proposal
        before, error = error, abs(log_sf - target)
        if error <= 2e-16 * max(1.0, -target):
            return t
        # In a gap between risks the curve is flat, and steps along it lead nowhere.
        stalled = error > 0.5 * before
        if stalled or not low < proposal < high or abs(step) > LONGEST_FREE_STEP:
            ends = sums.bracket()
            low, high = max(low, ends[0]), min(high, ends[1])
            if stalled or not low < proposal < high:
                proposal = 0.5 * (low + high)
            if not low < proposal < high:
                return proposal
        t = proposal
    return t


LONGEST_FREE_STEP = 4.0
"""A step of more bandwidths than this is held against the bracket."""


def _step(tail: Tail, goal: float) -> float:
    """Householder's step of third order towards G(t) = goal.

    With a and b the first two derivatives of f over f, the derivatives of G over the first one
    G' = f/φ(G) are A = a + G·G' and B = b − a² + G'² + G·G'·A + A².
    """
    log_sf, hazard, a, b, *_ = tail
    if hazard == 0.0 or log_sf == 0.0:
        return math.inf
    g = normal_upper_quantile(log_sf)
    try:
        first = hazard * math.exp(log_sf + 0.5 * g * g + normal_tails.LOG_SQRT_2PI)
    except OverflowError:
        return math.inf
    if not first > 0.0:
        return math.inf
    newton = (goal - g) / first
    second = newton * (a + g * first)
    third = newton * newton * (b - a * a + first * first)
    third += newton * g * first * second + second * second
    above, below = 1.0 + 0.5 * second, 1.0 + second + third / 6.0
    # Held to a factor of 2, so that a short step always means that Newton's is short too.
    factor = above / below if below > 0.0 else 2.0
    return newton * min(max(factor, 0.5), 2.0)


def _refined(step: float, tail: Tail, target: float) -> float:
    """A short ``step`` corrected by the five known terms of the Taylor series of S."""
    log_sf, hazard, a, b, c, d = tail
    excess = -math.expm1(target - log_sf) / hazard
    for _ in range(2):
        slope = 1.0 + step * (a + step * (b / 2.0 + step * (c / 6.0 + step * d / 24.0)))
        ratio = 1.0 + step * (a / 2.0 + step * (b / 6.0 + step * (c / 24.0 + step * d / 120.0)))
        step -= (step * ratio - excess) / slope
    return step


def roots_in_tensors(centres: Tensor, log_weights: Tensor, level: Level) -> Tensor:
    """Roots of every row, shape ``(..., 1)``, for ``centres`` of shape ``(..., m)``, float64.

    The scale is √(−2 log S(t)), which needs no inverse of Φ and is nearly linear below
    S = ½; levels under ½ are mirrored so that S is always there.

    >>> from eqrm.level import Level
    >>> centres = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    >>> log_weights = torch.full((2,), 0.5, dtype=torch.float64).log()
    >>> round(roots_in_tensors(centres, log_weights, Level(0.8413447460685429)).item(), 4)
    1.4931
    """
    lower = level.log_tail > -math.log(2.0)
    log_tail = level.log_alpha if lower else level.log_tail
    if lower:
        centres = -centres
    # To torch.compile the loop is one opaque step: unrolled, it took a minute to compile.
    solve = _upper_roots_compiled if torch.compiler.is_compiling() else _upper_roots
    roots = solve(centres, log_weights, log_tail, abs(level.z))
    return -roots if lower else roots


def _upper_roots(centres: Tensor, log_weights: Tensor, target: float, goal: float) -> Tensor:
    present = log_weights > -math.inf
    largest = torch.where(present, centres, -math.inf).amax(-1, keepdim=True)
    smallest = torch.where(present, centres, math.inf).amin(-1, keepdim=True)
    if target >= -15.0 - math.log(centres.shape[-1]):
        shifted = torch.where(present, centres, smallest)
        low, high = smallest + goal, largest + goal
        if _one_launch_each(shifted):
            variance = (log_weights.exp() * shifted * shifted).sum(-1, keepdim=True)
            start = torch.minimum(torch.maximum(goal * (variance + 1.0).sqrt(), low), high)
            return _solve_in_one_launch(shifted, log_weights, target, low, high, start, False)
        low, high, t = _start(shifted, log_weights, target, low, high)
        return _iterate(t, shifted, log_weights, target, low, high)
    # Deep in the tail only distances to the largest centre matter; with the origin there
    # they keep their digits even at log tails of -1e30.
    shifted = torch.where(present, centres, smallest) - largest
    low, high = _deep_bracket(shifted, log_weights, target, goal)
    if _one_launch_each(shifted):
        found = _solve_in_one_launch(shifted, log_weights, target, low, high, low, True)
        return found + largest
    return _iterate(low, shifted, log_weights, target, low, high) + largest


def _one_launch_each(rows: Tensor) -> bool:
    """Whether rows on a GPU are solved by one program each."""
    return rows.device.type == "cuda" and rows.shape[-1] <= LONGEST_LAUNCH and _triton_is_there()


LONGEST_LAUNCH = 2_097_152
"""One program works through a row: longer rows are better served by the whole device."""


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None


def _solve_in_one_launch(*arguments: Any) -> Tensor:
    from eqrm.distributions.kde.triton_root import solve

    return solve(*arguments)


def _deep_bracket(
    shifted: Tensor, log_weights: Tensor, target: float, goal: float
) -> tuple[Tensor, Tensor]:
    """A narrow bracket beyond the largest centre, which is the origin.

    The root lies below that of all kernels gathered at the origin, ``goal``, and above that of
    one kernel there alone, with weight p: log Φ(−z) = target − log p. Φ(−z) ≥ φ(z)·z/(1+z²)
    gives z² ≥ u² − 2 log(1+u) − log 2π with u² = −2(target − log p).
    """
    top = torch.where(shifted == 0.0, log_weights, -math.inf).amax(-1, keepdim=True)
    square = (-2.0 * (target - top)).clamp(min=0.0)
    floor = square - 2.0 * torch.log1p(square.sqrt()) - math.log(2.0 * math.pi)
    # So light a weight that its kernel alone does not reach the tail: fall back on all.
    low = torch.where(floor > 1.0, floor.clamp(min=0.0).sqrt(), shifted.amin(-1, True) + goal)
    return low.clamp(max=goal), torch.full_like(low, goal)


def _may_look(values: Tensor) -> bool:
    """Whether a look at a result is free: elsewhere it makes the host wait for the device."""
    return values.device.type == "cpu"


def _iterate(
    t: Tensor, shifted: Tensor, log_weights: Tensor, target: float, low: Tensor, high: Tensor
) -> Tensor:
    """Steps until all rows are settled on the CPU, a fixed number of steps elsewhere."""
    watch = _may_look(shifted)
    fixed = FIXED_STEPS if shifted.shape[-1] <= SAMPLE else FIXED_STEPS_OF_LONG_ROWS
    error = torch.full_like(t, math.inf)
    for _ in range(MAX_STEPS if watch else fixed):
        t, low, high, error, done = _bracketed_step(
            t, shifted, log_weights, target, low, high, error
        )
        if watch and bool(done.all()):
            break
    return t


FIXED_STEPS = 10
"""Steps where nobody may look at the result, from a bracket cut to 1e-9 of its length. Too few only
for bandwidths not tied to σ̂, with risks over more orders of magnitude than that (docs/cuda.md)."""

FIXED_STEPS_OF_LONG_ROWS = 20
"""Steps from the root of a sample, which for heavy tails can be far off."""

SAMPLE = 8_192
"""Rows longer than this start from the root of every k-th of their kernels."""


@torch.library.custom_op("eqrm::upper_roots", mutates_args=())
def _upper_roots_compiled(
    centres: Tensor, log_weights: Tensor, target: float, goal: float
) -> Tensor:
    return _upper_roots(centres, log_weights, target, goal)


@_upper_roots_compiled.register_fake
def _(centres: Tensor, log_weights: Tensor, target: float, goal: float) -> Tensor:
    return centres.new_empty((*centres.shape[:-1], 1))


def _start(
    shifted: Tensor, log_weights: Tensor, target: float, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A bracket and a point in it from which a few steps suffice.

    Small arrays: cut the bracket by evaluating 63 points at once, five times (once where later
    steps can be watched). Large ones: solve for every k-th kernel, whose root is near.
    """
    stride = -(-shifted.shape[-1] // SAMPLE)
    if stride > 1:
        some, weights = shifted[..., ::stride], log_weights[..., ::stride]
        # All kernels of the sample might have weight 0: then any start will do.
        weights = (weights - weights.logsumexp(-1, keepdim=True)).nan_to_num(-math.log(SAMPLE))
        near_low, near_high, t = _start(some, weights, target, low, high)
        t = _iterate(t, some, weights, target, near_low, near_high)
        return low, high, torch.minimum(torch.maximum(t, low), high)
    points = 63
    grid = torch.arange(1, points + 1, dtype=low.dtype, device=low.device) / (points + 1)
    for _ in range(1 if _may_look(shifted) else 5):
        width = high - low
        at = low + width * grid
        z = at.unsqueeze(-1) - shifted.unsqueeze(-2)
        log_sf = (log_weights.unsqueeze(-2) + normal_tails.log_sf(z)).logsumexp(-1)
        passed = (log_sf > target).sum(-1, keepdim=True)
        low = low + width * (passed / (points + 1))
        high = torch.minimum(high, low + width / (points + 1))
    return low, high, 0.5 * (low + high)


def _bracketed_step(
    t: Tensor,
    shifted: Tensor,
    log_weights: Tensor,
    target: float,
    low: Tensor,
    high: Tensor,
    before: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    z = t - shifted
    log_sf = (log_weights + normal_tails.log_sf(z)).logsumexp(-1, keepdim=True)
    kernels = log_weights + normal_tails.log_density(z)
    hazard = (kernels.logsumexp(-1, keepdim=True) - log_sf).exp()
    slope = -(kernels.softmax(-1) * z).sum(-1, keepdim=True)
    above = log_sf > target
    low, high = torch.where(above, t, low), torch.where(above, high, t)
    scale = (-2.0 * log_sf).sqrt()
    newton = (math.sqrt(-2.0 * target) - scale) * scale / hazard
    bend = 0.5 * newton * (slope + hazard - hazard / (scale * scale))
    step = newton / (1.0 + bend).clamp(0.5, 2.0)
    proposal = t + step
    inside = (proposal >= low) & (proposal <= high)
    settled = (step.abs() < 1e-6) & inside
    # In a gap between risks the curve is flat, and steps along it lead nowhere.
    error = (log_sf - target).abs()
    good = settled | (inside & (error <= 0.5 * before))
    proposal = torch.where(good, proposal, 0.5 * (low + high))
    exact = error <= 2e-16 * max(1.0, -target)
    settled |= exact | ((high - low) <= 4e-16 * torch.maximum(low.abs(), high.abs()))
    return torch.where(exact, t, proposal), low, high, error, settled
