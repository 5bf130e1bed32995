"""The median of all pairwise distances in O(m log m), without forming the m² pairs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eqrm.distributions.kde import native
from eqrm.distributions.kde.native import Array
from eqrm.distributions.order_statistics import Places, first_true

_Pairs = tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]

PAIRS_AT_ONCE = 1024


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
    return 0.5 * (distances.gather(-1, lower) + distances.gather(-1, upper))


def _from_search(risks: Tensor, weights: Tensor | None) -> Tensor:
    values, given = risks.detach().cpu().numpy(), None
    kept = np.arange(values.size)
    if weights is not None:
        kept = np.flatnonzero(weights.detach().cpu().numpy())
        values, given = values[kept], weights.detach().cpu().numpy()[kept]
    places = kept[row_median_distance(values, given)[1]]
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
    order = values.argsort()
    sorted_weights = None if weights is None else weights[order]
    search = _middle_pairs if native.LIBRARY is None else native.middle_pairs
    (a, b), (c, d) = search(values[order], sorted_weights)
    places = order[[b, a, d, c]]
    longer, shorter = values[places].reshape(2, 2).T
    return float((longer - shorter).mean()), places, HALVES


HALVES = np.array([0.5, -0.5, 0.5, -0.5])


def _middle_pairs(values: Array, weights: Array | None) -> list[tuple[int, int]]:
    """:func:`eqrm.distributions.kde.native.middle_pairs` in numpy."""
    weights = np.ones(values.size) if weights is None else weights / weights.max()
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    half = 0.5 * _weight_within(values, weights, cumulative, np.inf)
    before, beyond = half * (1.0 - 1e-12), half * (1.0 + 1e-12)
    # Twice the range, since values[0] + range may be rounded to less than the last value.
    low, high = -1.0, 2.0 * float(values[-1] - values[0])
    # Invariant: distances up to low weigh less than half, distances up to high at least half.
    while (_reach(values, high) - _reach(values, low)).sum() > 8 * len(values):
        middle = 0.5 * (max(low, 0.0) + high)
        if middle in (low, high):
            break
        if _weight_within(values, weights, cumulative, middle) < before:
            low = middle
        else:
            high = middle
    distances, first, second = _pairs_between(values, low, high)
    order = np.argsort(distances, kind="stable")
    reached = _weight_within(values, weights, cumulative, low) + np.cumsum(
        (weights[first] * weights[second])[order]
    )
    last = len(order) - 1
    lower = order[min(int(np.searchsorted(reached, before)), last)]
    pairs = [(int(first[lower]), int(second[lower]))]
    if _weight_within(values, weights, cumulative, high) > beyond:
        upper = order[min(int(np.searchsorted(reached, beyond, side="right")), last)]
        return [*pairs, (int(first[upper]), int(second[upper]))]
    return [*pairs, _next_pair(values, high)]


def _reach(values: Array, distance: float) -> npt.NDArray[np.int64]:
    """For each i the end of the run of j > i within ``distance`` of value i."""
    starts = np.arange(1, len(values) + 1)
    if distance < 0.0:
        return starts
    return np.maximum(np.searchsorted(values, values + distance, side="right"), starts)


def _weight_within(values: Array, weights: Array, cumulative: Array, distance: float) -> float:
    starts = np.arange(1, len(values) + 1)
    return float(weights @ (cumulative[_reach(values, distance)] - cumulative[starts]))


def _pairs_between(values: Array, low: float, high: float) -> _Pairs:
    """Pairs with low < distance ≤ high; only one if bisection ended on a crowd of ties."""
    starts, ends = _reach(values, low), _reach(values, high)
    counts = ends - starts
    if counts.sum() > 8 * len(values):
        row = int(np.flatnonzero(counts)[0])
        first, second = np.array([row]), starts[[row]]
    else:
        first = np.repeat(np.arange(len(values)), counts)
        offsets = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        second = np.repeat(starts, counts) + offsets
    return values[second] - values[first], first, second


def _next_pair(values: Array, distance: float) -> tuple[int, int]:
    """The pair with the smallest distance above ``distance``."""
    ends = _reach(values, distance)
    rows = np.flatnonzero(ends < len(values))
    if rows.size == 0:
        return 0, len(values) - 1
    best = int(np.argmin(values[ends[rows]] - values[rows]))
    return int(rows[best]), int(ends[rows[best]])
