"""Weighted order statistics: mixes of sorted risks, and the median of all pairwise distances.

A mix is weights over the sorted risks, so that the quantile is their dot product and its gradient
follows from the sort.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eqrm.arrays import (
    Values,
    as_array,
    detached,
    in_type,
    pairs,
    ranks,
    replaced,
    sums_of_groups,
    taken,
)
from eqrm.distributions.equal_weights import equal_step_index
from eqrm.distributions.kde import native
from eqrm.distributions.kde.native import Array
from eqrm.execution import is_tensor, namespace

Indices = npt.NDArray[np.int64]
RowStatistic = tuple[float, Indices, Array]
"""A statistic of one row: its value, the places of the risks that make it, and their shares."""

PAIRS_AT_ONCE = 1024
"""On a GPU, all pairs are formed up to this number of domains."""
FEW_PAIRS = 128
"""Up to this many pairs are sorted at once."""
HALVES = np.array([0.5, -0.5, 0.5, -0.5])
"""The shares of the risks that make a mean of two distances."""
LARGEST = 4e307
"""Beyond, distances overflow: a bad risk that nobody refused, or risks too far apart."""
ALMOST_ALL, MANY = 0.99, 1024
"""Where one domain has almost all the weight, the others' are lost in cumulative sums, and all
pairs are formed instead, unless they are too many."""


def linear_mix(risks: Values, weights: Values | None, alpha: float) -> Values:
    """Weights over the sorted risks of the linearly interpolated α-quantile.

    For equal weights (None) this is the usual interpolation at position α(m−1) (numpy's
    ``linear``). With weights p it spreads a window of width 1/n over the cumulative
    weights, n = 1/Σp², so that a domain of weight 0 is ignored (Akinshin 2023).

    >>> linear_mix(np.zeros(5), None, 0.3).round(6)
    array([0. , 0.8, 0.2, 0. , 0. ])
    """
    xp = namespace(risks)
    if weights is None:
        position = alpha * (risks.shape[-1] - 1)
        return xp.broadcast_to(xp.clip(1.0 - abs(ranks(risks) - position), 0.0, None), risks.shape)
    effective = 1.0 / (weights * weights).sum(axis=-1, keepdims=True)
    start = alpha * (effective - 1.0) / effective
    upper = xp.cumsum(weights, axis=-1)
    # The window's end is 1 at alpha = 1; rounding of the cumulative sum must not lose it.
    upper = upper / upper[..., -1:]
    reached = xp.clip((upper - start) * effective, 0.0, 1.0)
    mix = xp.diff(reached, prepend=xp.zeros_like(reached[..., :1]))
    # What is left of 0 after rounding the cumulative sums is dropped.
    slack = 8.0 * sys.float_info.epsilon * mix.shape[-1]
    kept = xp.where(mix > slack, mix, 0.0)
    return kept / kept.sum(axis=-1, keepdims=True)


def tail_mix(risks: Values, weights: Values | None, tail: float) -> Values:
    """Weights over the sorted risks of the mean of the worst ``tail`` share of domains."""
    xp = namespace(risks)
    if weights is None:
        size = risks.shape[-1]
        share = xp.clip(tail * size - (size - 1.0 - ranks(risks)), 0.0, 1.0)
        return xp.broadcast_to(share / share.sum(), risks.shape)
    from_top = xp.cumsum(xp.flip(weights, (-1,)), axis=-1)
    share = xp.clip(from_top / from_top[..., -1:], None, tail)
    mix = xp.flip(xp.diff(share, prepend=xp.zeros_like(share[..., :1])), (-1,))
    return mix / mix.sum(axis=-1, keepdims=True)


def step_mix(risks: Values, weights: Values | None, alpha: float, tail: float) -> Values:
    """1 at the place in sorted order of inf{r : F(r) ≥ α}, the paper's quantile.

    Where F reaches α up to the rounding error of the sum of weights, it has reached it.
    """
    xp, steps = namespace(risks), ranks(risks)
    if weights is None:
        place = equal_step_index(risks.shape[-1], alpha, tail)
        return xp.broadcast_to(xp.where(steps == place, 1.0, 0.0 * steps), risks.shape)
    slack = 4.0 * sys.float_info.epsilon * weights.shape[-1] ** 0.5
    # F = 1 - (weight above): near alpha = 1 only the second form keeps its digits.
    if alpha <= 0.5:
        reached = xp.cumsum(weights, axis=-1) >= alpha - slack
    else:
        above = xp.flip(xp.cumsum(xp.flip(weights, (-1,)), axis=-1), (-1,)) - weights
        reached = above <= tail + slack * min(1.0, 2.0 * tail)
    return xp.where(steps == first_true(reached & (weights > 0)), 1.0, 0.0 * steps)


def first_true(condition: Values) -> Values:
    """Index (..., 1) of the first True in each row."""
    xp, last = namespace(condition), condition.shape[-1] - 1.0
    place = xp.amin(xp.where(condition, ranks(condition), last), axis=-1, keepdims=True)
    return in_type(place, xp.int64)


def share_among_ties(risks: Values, weights: Values | None, mix: Values) -> Values:
    """The same mix of sorted risks with the share of equal ones split among them by their weights.

    The quantile does not change; its gradient no longer depends on how a sort orders ties.

    >>> share_among_ties(np.array([1.0, 1.0, 2.0]), None, np.array([0.0, 1.0, 0.0]))
    array([0.5, 0.5, 0. ])
    """
    xp, risks = namespace(mix), detached(risks)
    new = xp.ones_like(risks, dtype=xp.int64)
    new[..., 1:] = in_type(risks[..., 1:] != risks[..., :-1], xp.int64)
    group = xp.cumsum(new, axis=-1) - 1
    own = xp.ones_like(mix) if weights is None else xp.broadcast_to(weights, mix.shape)
    shares, total = sums_of_groups(mix, group), sums_of_groups(own, group)
    positive = total > 0
    return xp.where(positive, shares * own / xp.where(positive, total, 1.0), 0.0)


def interquartile_range(risks: Values, weights: Values | None = None) -> Values:
    """The range between the linearly interpolated quartiles, shape ``(..., 1)``."""
    xp = namespace(risks)
    order = xp.argsort(detached(risks), -1)
    values = taken(risks, order)
    given = None if weights is None else taken(xp.broadcast_to(weights, risks.shape), order)
    mix, lower = _between_quartiles(values, given)
    # Differences to a value of the lower quartile keep the digits of nearly equal risks, and are
    # 0 where both quartiles are the same value.
    origin = taken(detached(values), first_true(lower > 0.0))
    return (mix * (values - origin)).sum(axis=-1, keepdims=True)


def _between_quartiles(risks: Values, weights: Values | None) -> tuple[Values, Values]:
    """The mix of sorted risks that makes the interquartile range, and that of the lower quartile.

    The first sums to 0 to the last digit of its parts: a domain with nearly all the weight makes
    almost all of both quartiles, and what is left there after rounding is what the others need.
    """
    lower = linear_mix(risks, weights, 0.25)
    mix = linear_mix(risks, weights, 0.75) - lower
    if weights is None:
        return mix, lower
    heaviest = namespace(lower).argmax(lower, axis=-1, keepdims=True)
    others = replaced(mix, heaviest, 0.0)
    return replaced(others, heaviest, -others.sum(axis=-1, keepdims=True)), lower


def row_interquartile_range(values: Array, weights: Array | None) -> RowStatistic:
    """:func:`interquartile_range` of one row of an array, and its derivative."""
    if weights is None:
        ranks, shares = _quartile_ranks(values.size)
        places, first = values.argpartition(ranks)[ranks], 0
    else:
        places = values.argsort()
        given = weights[places]
        shares, lower = _between_quartiles(given, given)
        first = int((lower > 0.0).argmax())
    chosen = values[places]
    with np.errstate(over="ignore", invalid="ignore"):  # risks too far apart, refused later
        return float(shares.dot(chosen - chosen[first])), places, shares


@lru_cache(maxsize=64)
def _quartile_ranks(size: int) -> tuple[Indices, Array]:
    """Which sorted risks make the interquartile range, with which shares."""
    low, high = 0.25 * (size - 1), 0.75 * (size - 1)
    ranks = [int(low), min(int(low) + 1, size - 1), int(high), min(int(high) + 1, size - 1)]
    beyond = low - ranks[0], high - ranks[2]
    return np.array(ranks), np.array([beyond[0] - 1.0, -beyond[0], 1.0 - beyond[1], beyond[1]])


def median_distance(risks: Values, weights: Values | None = None) -> Values:
    """Weighted median of |R_i − R_j| over i < j with weights p_i·p_j, shape ``(..., 1)``.

    Between two middle distances their mean. Up to 1024 domains on a GPU the pairs are
    formed there; otherwise the pairs that make the median are found on the CPU and the
    distance is taken from the tensor, so that it stays differentiable.
    """
    xp, m = namespace(risks), risks.shape[-1]
    if m == 1:
        return risks[..., :1] * 0.0
    shares = None if weights is None else xp.broadcast_to(weights, risks.shape)
    if m <= 32 or (m <= PAIRS_AT_ONCE and is_tensor(risks) and risks.device.type != "cpu"):
        return _from_all_pairs(risks, xp.full_like(risks, 1.0 / m) if shares is None else shares)
    rows = risks.reshape(-1, m)
    of_rows = [None] * len(rows) if shares is None else shares.reshape(-1, m)
    medians = [_from_search(row, share) for row, share in zip(rows, of_rows, strict=True)]
    return xp.stack(medians).reshape(*risks.shape[:-1], 1)


def _from_all_pairs(risks: Values, weights: Values) -> Values:
    xp = namespace(risks)
    first, second = pairs(risks)
    distances = abs(risks[..., first] - risks[..., second])
    order = xp.argsort(detached(distances), -1)
    distances = taken(distances, order)
    pair_weights = taken(weights[..., first] * weights[..., second], order)
    cumulative = xp.cumsum(pair_weights, axis=-1)
    half = 0.5 * cumulative[..., -1:]
    slack = half * 1e-12
    lower = first_true(cumulative >= half - slack)
    upper = first_true((cumulative > half + slack) & (pair_weights > 0))
    median = 0.5 * (taken(distances, lower) + taken(distances, upper))
    median = xp.where(half > 0.0, median, 0.0)  # no pair, where one domain has all the weight
    usable = xp.amax(abs(detached(risks)), axis=-1, keepdims=True) < LARGEST
    return xp.where(usable, median, math.nan)


def _from_search(risks: Values, weights: Values | None) -> Values:
    values, given = as_array(risks), None
    kept = np.arange(values.size)
    if weights is not None:
        shares = as_array(weights)
        kept = np.flatnonzero(shares)
        values, given = values[kept], shares[kept]
    median, places, _ = row_median_distance(values, given)
    if math.isnan(median):
        return risks[:1] * math.nan
    middle = risks[kept[places].tolist()]
    return (middle[::2] - middle[1::2]).mean().reshape(1)


def row_median_distance(values: Array, weights: Array | None) -> RowStatistic:
    """:func:`median_distance` of one row of an array with positive weights, and its derivative."""
    if values.size < 2:
        return 0.0, np.zeros(4, dtype=np.int64), HALVES
    search = _middle_pairs if native.LIBRARY is None else native.middle_pairs
    order = None if weights is None else values.argsort()
    # Without weights, sorting and looking for four values is quicker.
    ascending = np.sort(values) if order is None else values[order]
    if not -LARGEST < ascending[0] <= ascending[-1] < LARGEST:
        return math.nan, np.zeros(4, dtype=np.int64), HALVES
    if weights is None or order is None:
        found = search(ascending, None, values)
    else:
        given = weights[order]
        if given.max() > ALMOST_ALL and given.size <= MANY:
            pairs = _of_all_pairs(ascending, given)
        else:
            pairs = search(ascending, given, None)
        found = [(int(order[i]), int(order[j])) for i, j in pairs]
    (a, b), (c, d) = found
    distance = 0.5 * (float(values[b] - values[a]) + float(values[d] - values[c]))
    return distance, np.array([b, a, d, c]), HALVES


def _of_all_pairs(values: Array, weights: Array) -> list[tuple[int, int]]:
    """The same pairs as :func:`_middle_pairs` from all of them."""
    first, second = np.triu_indices(values.size, 1)
    order = np.argsort(values[second] - values[first], kind="stable")
    reached = np.cumsum((weights[first] * weights[second])[order])
    half = 0.5 * reached[-1]
    lower = int(np.searchsorted(reached, half * (1.0 - 1e-12)))
    upper = int(np.searchsorted(reached, half * (1.0 + 1e-12), side="right"))
    chosen = order[[lower, min(upper, order.size - 1)]]
    return [(int(first[k]), int(second[k])) for k in chosen]


def _middle_pairs(
    values: Array, weights: Array | None, given: Array | None
) -> list[tuple[int, int]]:
    """:func:`eqrm.distributions.kde.native.middle_pairs` in numpy."""
    size = values.size
    weights = np.ones(size) if weights is None else weights / weights.max()
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])

    def within(distance: float, ends: Indices) -> _Within:
        weight = float(weights @ (cumulative[ends] - cumulative[1:]))
        return _Within(distance, ends, weight)

    # Distances up to low weigh less than half, distances up to high at least half.
    low = within(-1.0, np.arange(1, size + 1))
    high = within(float(values[-1] - values[0]), np.full(size, size))
    half, few = 0.5 * high.weight, max(FEW_PAIRS, size)
    before, beyond = half * (1.0 - 1e-12), half * (1.0 + 1e-12)
    while (high.ends - low.ends).sum() > few:
        middle = 0.5 * (max(low.distance, 0.0) + high.distance)
        if not low.distance < middle < high.distance:
            break
        at = within(middle, np.searchsorted(values, values + middle, side="right"))
        low, high = (at, high) if at.weight < before else (low, at)
    first, second = _pairs_between(low.ends, high.ends, few)
    order = np.argsort(values[second] - values[first])
    reached = low.weight + np.cumsum((weights[first] * weights[second])[order])
    lower, upper = np.minimum(
        [np.searchsorted(reached, before), np.searchsorted(reached, beyond, side="right")],
        order.size - 1,
    )
    pairs = [(int(first[k]), int(second[k])) for k in (order[lower], order[upper])]
    if not high.weight > beyond:
        pairs[1] = _next_pair(values, high.ends)
    if given is None:
        return pairs

    def place(k: int) -> int:
        return int((given == values[k]).argmax())

    return [(place(i), place(j)) for i, j in pairs]


class _Within(NamedTuple):
    """The pairs within a distance: for each i the end of the run of j > i, and what they weigh."""

    distance: float
    ends: Indices
    weight: float


def _pairs_between(starts: Indices, ends: Indices, few: int) -> tuple[Indices, Indices]:
    """Pairs in one run and not in the other; only one if there is a crowd of equal distances."""
    counts = ends - starts
    if counts.sum() > few:
        row = np.flatnonzero(counts)[:1]
        return row, starts[row]
    first = np.repeat(np.arange(len(starts)), counts)
    offsets = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first, np.repeat(starts, counts) + offsets


def _next_pair(values: Array, ends: Indices) -> tuple[int, int]:
    """The pair with the smallest distance beyond these runs."""
    rows = np.flatnonzero(ends < len(values))
    if rows.size == 0:
        return 0, len(values) - 1
    best = int(np.argmin(values[ends[rows]] - values[rows]))
    return int(rows[best]), int(ends[rows[best]])
