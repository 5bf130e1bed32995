"""The quantile of one row on the CPU: the root t of Σ p_i Φ(y_i − t) = 1−α, y_i = (R_i − R̄)/h.

The bandwidth h comes from its rule with its derivatives in the risks, and plays no other part: one
solve serves all rules. The loop is in Python floats and only the sums over kernels
(:mod:`eqrm.distributions.kde.bulk_sums`) touch arrays, which is several times faster than the same
loop in tensors (:mod:`eqrm.distributions.kde.root_in_tensors`); in the common case the C part does
all of it in one call.

Householder steps of third order are taken on a scale on which the tail probability is almost a
straight line, inside a bracket that every evaluation narrows, and the bracket is bisected when a
step would leave it or gain nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from eqrm.distributions.bandwidths import RowBandwidth, SpreadBandwidth
from eqrm.distributions.kde import native
from eqrm.distributions.kde.bulk_sums import LONG, kernel_sums
from eqrm.distributions.kde.native import Array, Row
from eqrm.distributions.kde.sums import (
    FAR_INSIDE_TAIL,
    NARROWEST,
    Equation,
    KernelSums,
    Tail,
    equal_weights,
    narrow,
    upper,
)
from eqrm.distributions.moments import RowMoments
from eqrm.distributions.normal_tails import LOG_SQRT_2PI
from eqrm.level import Level, normal_upper_quantile

MAX_STEPS = 500
"""Enough to halve an interval of 1e90 bandwidths."""

FEW_PLACES = 8
"""Up to so many derivatives are added one by one, which is faster."""

WIDE_GAP = 70.0
"""In the middle of a gap of so many bandwidths every kernel underflows."""

LONGEST_FREE_STEP = 4.0
"""A step of more bandwidths than this is held against the bracket."""


class RowQuantile(NamedTuple):
    """q, dq/dR (None where it is not wanted) and dq/dh at fixed risks, which is z̄."""

    value: float
    gradient: Row | None
    mean_z: float


def quantile_of_row(
    row: RowMoments, bandwidth: RowBandwidth, level: Level, wants_gradient: bool
) -> RowQuantile:
    """q and dq/dR_i = w_i + z̄·∂h/∂R_i, with w_i ∝ p_i φ(z_i) and z̄ = Σ w_i z_i.

    May overwrite the centred risks.
    """
    h = bandwidth.value(row.std)
    if h == 0.0:
        shares = equal_weights(row.centred.size) if row.weights is None else row.weights
        gradient = shares.copy() if wants_gradient else None
        return RowQuantile(row.pivot + row.mean_offset, gradient, level.z)
    fixed = h == bandwidth.fixed
    reach = row.std if row.weights is None else float(np.abs(row.centred).max())
    h = max(h, NARROWEST * reach)
    equation = Equation.at(level, row.centred, row.weights, row.std, h)
    sign = math.copysign(1.0, equation.bandwidth)
    # ∂(c·σ̂)/∂R_i = c·p_i·(R_i − R̄)/((1 − Σp²)·σ̂)
    apart = 1.0 - 1.0 / row.effective
    coupling = 0.0 if fixed else sign * bandwidth.factor / row.std / apart
    found = _in_one_call(equation, coupling, wants_gradient)
    if found is None:
        found = _in_steps(equation, coupling, wants_gradient)
    beyond, gradient, mean_z = found
    mean_z *= sign
    if fixed:
        add_shares(gradient, bandwidth, mean_z)
    return RowQuantile(row.pivot + (row.mean_offset + beyond), gradient, mean_z)


def quantile_at_once(
    risks: Row,
    weights: Array | None,
    bandwidth: RowBandwidth | SpreadBandwidth,
    level: Level,
    wants_gradient: bool,
) -> RowQuantile | None:
    """The same from the risks themselves, by one call of the C part.

    For a contiguous row in float64 or float32, and the gradient is in the same; without weights
    and in float64 where the bandwidth is that of a spread. None where it is long, the tail deep or
    the solve hard.
    """
    if native.LIBRARY is None or risks.shape[0] > native.SHORT:
        return None
    log_tail, goal, sign = upper(level)
    if log_tail < FAR_INSIDE_TAIL:
        return None
    gradient = np.empty_like(risks) if wants_gradient else None
    solving = log_tail, goal, sign, narrow(goal), KernelSums.tolerance
    if isinstance(bandwidth, SpreadBandwidth):
        complete = native.spread_quantile(risks, *bandwidth, *solving, gradient=gradient)
        if complete is None or not math.isfinite(complete[0]):
            return None
        return RowQuantile(complete[0], gradient, complete[1] * sign)
    factor, fixed, _ = bandwidth
    found = native.row_quantile(risks, weights, factor, fixed, *solving, gradient=gradient)
    if found is None or not math.isfinite(found[0]):
        return None
    value, mean_z, is_fixed = found
    mean_z *= sign
    if is_fixed:
        add_shares(gradient, bandwidth, mean_z)
    return RowQuantile(value, gradient, mean_z)


def rank_of_gap(log_share: float, size: int) -> int | None:
    """How many risks are this share of all; None if no number is exactly."""
    number = round(math.exp(log_share) * size)
    if not 0 < number < size:
        return None
    apart = abs(math.log(number / size) - log_share)
    return None if apart > 2e-16 * max(1.0, -log_share) else number


def quantile_in_gap(
    risks: Array, bandwidth: float, level: Level, wants_gradient: bool
) -> RowQuantile | None:
    """The middle of a wide gap, if exactly the share 1−α of the risks lies above it; else None.

    There S is flat to the last digit, and each side has half of the gradient, most of it at the
    risk beside the gap.
    """
    lower, size = level.alpha < 0.5, risks.size
    log_share = level.log_alpha if lower else level.log_tail
    beyond = rank_of_gap(log_share, size)
    if beyond is None or not bandwidth > 0.0:
        return None
    rank = (beyond if lower else size - beyond) - 1
    parted = np.partition(risks, (rank, rank + 1))
    gap = float(parted[rank + 1]) - float(parted[rank])
    if not WIDE_GAP * bandwidth < gap < math.inf:
        return None
    middle = float(parted[rank]) + 0.5 * gap
    if not wants_gradient:
        return RowQuantile(middle, None, 0.0)
    kernels = np.zeros(size)
    across = min(gap / bandwidth, 1e200)
    with np.errstate(over="ignore"):
        sides = parted[rank] - risks, risks - parted[rank + 1]
    for distances in sides:
        near = np.flatnonzero((distances >= 0.0) & (distances < WIDE_GAP * bandwidth))
        ends = distances[near] / bandwidth
        shares = np.exp(-0.5 * ends * (ends + across))
        kernels[near] = 0.5 / shares.sum() * shares
    return RowQuantile(middle, kernels, 0.0)


def add_shares(gradient: Row | None, bandwidth: RowBandwidth, mean_z: float) -> None:
    """z̄·∂h/∂R_i, which a bandwidth has at a few places; one may be named twice."""
    if gradient is None or bandwidth.shares is None:
        return
    places, shares = bandwidth.shares
    if places.size > FEW_PLACES:
        np.add.at(gradient, places, mean_z * shares)
        return
    for place, share in zip(places.tolist(), shares.tolist(), strict=True):
        gradient[place] += mean_z * share


def _in_one_call(equation: Equation, coupling: float, wants_gradient: bool) -> RowQuantile | None:
    """q − R̄, gradient and z̄ by one call of the C part: rows of usual length, no deep tails."""
    size, bandwidth = equation.centred.size, equation.bandwidth
    if native.LIBRARY is None or size > LONG or equation.log_tail < FAR_INSIDE_TAIL:
        return None
    if not (1e-140 < abs(bandwidth) < 1e140 and equation.std < 1e100 * abs(bandwidth)):
        return None
    gradient = np.empty(size) if wants_gradient else None
    found = native.quantile(
        equation.centred,
        equation.weights,
        bandwidth,
        coupling,
        equation.log_tail,
        equation.near_root(),
        KernelSums.tolerance,
        gradient,
    )
    return None if found is None else RowQuantile(bandwidth * found[0], gradient, found[1])


def _in_steps(equation: Equation, coupling: float, wants_gradient: bool) -> RowQuantile:
    """The same for rows of any length, at any level, by any of the sums."""
    with np.errstate(over="ignore"):  # of z², where risks are too many bandwidths away to count
        sums = kernel_sums(equation)
        root = root_of_one(sums)
        beyond = sums.origin + equation.bandwidth * root
        if not wants_gradient:
            return RowQuantile(beyond, None, 0.0)
        return RowQuantile(beyond, *sums.gradient(root, coupling))


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
        pace = tail.pace
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
        first = hazard * math.exp(log_sf + 0.5 * g * g + LOG_SQRT_2PI)
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


def polished(
    value: float, risks: Array, weights: Array | None, bandwidth: float, level: Level
) -> float:
    """A quantile with the digits back that centring at a far mean has rounded away.

    A Newton step on differences of the risks to the quantile itself, which are exact for those
    that matter. Where hardly any risk is near, there is nothing to gain, and nothing is changed.
    """
    lower = level.alpha < 0.5
    with np.errstate(over="ignore"):
        z = (value - risks if lower else risks - value) / bandwidth
    near = np.flatnonzero(np.abs(z) < 9.0)
    if not near.size:
        return value
    kernels = np.exp(-0.5 * z[near] ** 2) / math.sqrt(2.0 * math.pi)
    beyond = z >= 9.0
    if weights is None:
        total, among = float(np.count_nonzero(beyond)), np.ones(near.size)
        size = float(risks.size)
    else:
        total, among, size = float(weights[beyond].sum()), weights[near], float(weights.sum())
    reached = (total + float(among @ ndtr(z[near]))) / size
    density = float(among @ kernels) / size
    excess = reached - (level.alpha if lower else level.tail)
    step = -excess / density if density > 0.0 else math.inf
    return value + bandwidth * (step if lower else -step) if abs(step) < 1e-6 else value
