"""The roots t of Σ p_i Φ(y_i − t) = 1−α in tensors: batches, GPUs, CUDA graphs, ``torch.compile``.

The mathematics is that of :mod:`eqrm.distributions.kde.root`, with steps of second order. Nothing
asks the device for a value, so away from the CPU a fixed number of steps is taken.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eqrm.distributions import normal_tails
from eqrm.distributions.kde.root import rank_of_gap
from eqrm.execution import can_look, has_kernels
from eqrm.level import Level

MAX_STEPS = 160
FLAT_GAP = 10.0
"""In a gap of so many bandwidths, S has lost the digits that tell where in it the root lies."""


def roots_in_tensors(centres: Tensor, log_weights: Tensor, level: Level) -> Tensor:
    """Roots of every row, shape ``(..., 1)``, for ``centres`` of shape ``(..., m)``, float64.

    The scale is √(−2 log S(t)), which needs no inverse of Φ and is nearly linear below
    S = ½; levels under ½ are mirrored so that S is always there.
    """
    lower = level.log_tail > -math.log(2.0)
    log_tail = level.log_alpha if lower else level.log_tail
    if lower:
        centres = -centres
    # To torch.compile the loop is one opaque step: unrolled, it took a minute to compile.
    solve = _upper_roots_compiled if torch.compiler.is_compiling() else _upper_roots
    roots = solve(centres, log_weights, log_tail, abs(level.z))
    beyond = rank_of_gap(log_tail, centres.shape[-1])
    if beyond is not None:
        roots = _in_gaps(centres, log_weights, beyond, roots)
    return -roots if lower else roots


def _in_gaps(centres: Tensor, log_weights: Tensor, beyond: int, roots: Tensor) -> Tensor:
    """The same, but where the tails of both sides are equal if exactly ``beyond`` are above a gap.

    There S is flat to the last digit.
    """
    low, high = centres.sort(-1).values.tensor_split([-beyond], dim=-1)
    gap = high[..., :1] - low[..., -1:]
    t = low[..., -1:] + 0.5 * gap
    for _ in range(4):
        sides = (normal_tails.log_sf(z).logsumexp(-1, keepdim=True) for z in (t - low, high - t))
        t = t + (next(sides) - next(sides)) / (gap + 4.0 / gap)
    equal = (log_weights == log_weights[..., :1]).all(-1, keepdim=True)
    return torch.where(equal & (gap > FLAT_GAP), t, roots)


def _upper_roots(centres: Tensor, log_weights: Tensor, target: float, goal: float) -> Tensor:
    if has_kernels(centres):
        from eqrm.distributions.kde.triton_quantile import quantile_rows

        # Roots are quantiles for kernels of width 1.
        one, level = torch.ones_like(centres[..., :1]), Level(log_tail=target)
        return quantile_rows(centres, log_weights.exp(), one, 1.0, level, False)[0].unsqueeze(-1)
    present = log_weights > -math.inf
    largest = torch.where(present, centres, -math.inf).amax(-1, keepdim=True)
    smallest = torch.where(present, centres, math.inf).amin(-1, keepdim=True)
    if target >= -15.0 - math.log(centres.shape[-1]):
        shifted = torch.where(present, centres, smallest)
        low, high = smallest + goal, largest + goal
        low, high, t = _start(shifted, log_weights, target, low, high)
        return _iterate(t, shifted, log_weights, target, low, high)
    # Deep in the tail only distances to the largest centre matter; with the origin there
    # they keep their digits even at log tails of -1e30.
    shifted = torch.where(present, centres, smallest) - largest
    low, high = _deep_bracket(shifted, log_weights, target, goal)
    return _iterate(low, shifted, log_weights, target, low, high) + largest


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


def _iterate(
    t: Tensor, shifted: Tensor, log_weights: Tensor, target: float, low: Tensor, high: Tensor
) -> Tensor:
    """Steps until all rows are settled on the CPU, a fixed number of steps elsewhere."""
    watch = can_look(shifted)
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
    steps can be watched, and there every 8th point first). Large ones: solve for every k-th kernel,
    whose root is near.
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

    def passed(at: Tensor) -> Tensor:
        """Beyond how many of these points each root lies."""
        z = at.unsqueeze(-1) - shifted.unsqueeze(-2)
        log_sf: Tensor = (log_weights.unsqueeze(-2) + normal_tails.log_sf(z)).logsumexp(-1)
        return (log_sf > target).sum(-1, keepdim=True)

    watched = can_look(shifted)
    for _ in range(1 if watched else 5):
        width = high - low
        if watched:
            beyond = passed(low + width * grid[7::8]) / 8
            beyond = beyond + passed(low + width * (beyond + grid[:7])) / (points + 1)
        else:
            beyond = passed(low + width * grid) / (points + 1)
        low = low + width * beyond
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
