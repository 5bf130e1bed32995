"""The median of all pairwise distances in O(m log m), without forming the m² pairs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eqrm.distributions.kde import native
from eqrm.distributions.kde.native import Array
from eqrm.distributions.order_statistics import Places, first_true

_Places = npt.NDArray[np.int64]

PAIRS_AT_ONCE = 1024
"""On a GPU, all pairs are formed up to this number of domains."""

FEW_PAIRS = 128
"""Up to this many pairs are sorted at once."""


def median_distance(risks: Tensor, weights: Tensor | None = None) -> Tensor:
    """Weighted median of |R_i − R_j| over i < j with weights p_i·p_j, shape ``(..., 1)``.

    Between two middle distances their mean. Up to 1024 domains on a GPU the pairs are
    formed there; otherwise the pairs that make the median are found on the CPU and the
    distance is taken from the tensor, so that it stays differentiable.

    >>> risks = torch.tensor([0.0, 1.0, 5.0], dtype=torch.float64)
    >>> median_distance(risks)
    tensor([4.], dtype=torch.float64)
    """
    m = risks.shape[-1]
    if m == 1:
        return risks[..., :1] * 0.0
    if m <= 32 or (risks.device.type != "cpu" and m <= PAIRS_AT_ONCE):
        equal = torch.full((m,), 1.0 / m, dtype=risks.dtype, device=risks.device)
        return _from_all_pairs(risks, (equal if weights is None else weights).expand(risks.shape))
    rows = risks.reshape(-1, m)
    shares = [None] * len(rows) if weights is None else weights.expand(risks.shape).reshape(-1, m)
    medians = [_from_search(row, share) for row, share in zip(rows, shares, strict=True)]
    return torch.stack(medians).reshape(*risks.shape[:-1], 1)


def _from_all_pairs(risks: Tensor, weights: Tensor) -> Tensor:
    first, second = torch.triu_indices(
        risks.shape[-1], risks.shape[-1], offset=1, device=risks.device
    )
    distances, order = (risks[..., first] - risks[..., second]).abs().sort(-1)
    pair_weights = (weights[..., first] * weights[..., second]).gather(-1, order)
    cumulative = pair_weights.cumsum(-1)
    half = 0.5 * cumulative[..., -1:]
    slack = half * 1e-12
    lower = first_true(cumulative >= half - slack)
    upper = first_true((cumulative > half + slack) & (pair_weights > 0))
    median = 0.5 * (distances.gather(-1, lower) + distances.gather(-1, upper))
    median = torch.where(half > 0.0, median, 0.0)  # no pair, where one domain has all the weight
    usable = risks.detach().abs().amax(-1, keepdim=True) < LARGEST
    return torch.where(usable, median, math.nan)


def _from_search(risks: Tensor, weights: Tensor | None) -> Tensor:
    values, given = risks.detach().cpu().numpy(), None
    kept = np.arange(values.size)
    if weights is not None:
        kept = np.flatnonzero(weights.detach().cpu().numpy())
        values, given = values[kept], weights.detach().cpu().numpy()[kept]
    median, places, _ = row_median_distance(values, given)
    if math.isnan(median):
        return risks[:1] * math.nan
    places = kept[places]
    longer, shorter = risks[torch.from_numpy(places).to(risks.device)].reshape(2, 2).unbind(-1)
    return (longer - shorter).mean().reshape(1)


def row_median_distance(values: Array, weights: Array | None) -> Places:
    """:func:`median_distance` of one row on the CPU with positive weights, and its derivative.

    >>> value, places, shares = row_median_distance(np.array([5.0, 0.0, 1.0]), None)
    >>> value, places.tolist(), shares.tolist()
    (4.0, [0, 2, 0, 2], [0.5, -0.5, 0.5, -0.5])
    """
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


HALVES = np.array([0.5, -0.5, 0.5, -0.5])

LARGEST = 4e307
"""Beyond, distances overflow: a bad risk that nobody refused, or risks too far apart."""

ALMOST_ALL, MANY = 0.99, 1024
"""Where one domain has almost all the weight, the others' are lost in cumulative sums, and all
pairs are formed instead, unless they are too many."""


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

    def within(distance: float, ends: _Places) -> _Within:
        weight = float(weights @ (cumulative[ends] - cumulative[1:]))
        return _Within(distance, ends, weight)

    # Distances up to low weigh less than half, distances up to high at least half.
    low = within(-1.0, np.arange(1, size + 1))
    high = within(float(values[-1] - values[0]), np.full(size, size))
    half, few = 0.5 * high.weight, max(FEW_PAIRS, size)
    before, beyond = half * (1.0 - 1e-12), half * (1.0 + 1e-12)
    margin, last = 0.5 * few * half / (size * (size - 1)), (0.0, 0.0)
    guess, count = 0.7 * float(values[3 * size // 4] - values[size // 4]), 0
    while (high.ends - low.ends).sum() > few:
        # Secant steps aim a little beyond the half, so that both ends come close to it.
        count, least = count + 1, max(low.distance, 0.0)
        if (count > 6 and count % 2 == 0) or not least < guess < high.distance:
            guess = 0.5 * (least + high.distance)
        if not low.distance < guess < high.distance:
            break
        at = within(guess, np.searchsorted(values, values + guess, side="right"))
        short = at.weight < before
        low, high = (at, high) if short else (low, at)
        slope = (at.weight - last[1]) / (guess - last[0])
        last = guess, at.weight
        guess += (half + (margin if short else -margin) - at.weight) / max(slope, 1e-300)
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
    ends: _Places
    weight: float


def _pairs_between(starts: _Places, ends: _Places, few: int) -> tuple[_Places, _Places]:
    """Pairs in one run and not in the other; only one if there is a crowd of equal distances."""
    counts = ends - starts
    if counts.sum() > few:
        row = np.flatnonzero(counts)[:1]
        return row, starts[row]
    first = np.repeat(np.arange(len(starts)), counts)
    offsets = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    return first, np.repeat(starts, counts) + offsets


def _next_pair(values: Array, ends: _Places) -> tuple[int, int]:
    """The pair with the smallest distance beyond these runs."""
    rows = np.flatnonzero(ends < len(values))
    if rows.size == 0:
        return 0, len(values) - 1
    best = int(np.argmin(values[ends[rows]] - values[rows]))
    return int(rows[best]), int(ends[rows[best]])
