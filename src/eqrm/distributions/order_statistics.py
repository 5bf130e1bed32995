"""Weighted order statistics: which mix of the sorted risks makes a quantile.

Each function returns weights over the sorted risks, so that the quantile is their dot
product and its gradient follows from the sort.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eqrm.distributions.equal_weights import equal_step_index

Places = tuple[float, npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""A statistic of one row: its value, the places of the risks that make it, and their shares."""


def linear_mix(risks: Tensor, weights: Tensor | None, alpha: float) -> Tensor:
    """Weights over the sorted risks of the linearly interpolated α-quantile.

    For equal weights (None) this is the usual interpolation at position α(m−1) (numpy's
    ``linear``). With weights p it spreads a window of width 1/n over the cumulative
    weights, n = 1/Σp², so that a domain of weight 0 is ignored (Akinshin 2023).

    >>> linear_mix(torch.zeros(5, dtype=torch.float64), None, 0.3)
    tensor([0.0000, 0.8000, 0.2000, 0.0000, 0.0000], dtype=torch.float64)
    """
    if weights is None:
        position = alpha * (risks.shape[-1] - 1)
        steps = torch.arange(risks.shape[-1], dtype=torch.float64, device=risks.device)
        return (1.0 - (steps - position).abs()).clamp(min=0.0).expand(risks.shape)
    effective = 1.0 / (weights * weights).sum(-1, keepdim=True)
    start = alpha * (effective - 1.0) / effective
    upper = weights.cumsum(-1)
    # The window's end is 1 at alpha = 1; rounding of the cumulative sum must not lose it.
    upper = upper / upper[..., -1:]
    reached = ((upper - start) * effective).clamp(0.0, 1.0)
    mix = torch.diff(reached, prepend=torch.zeros_like(reached[..., :1]))
    # What is left of 0 after rounding the cumulative sums is dropped.
    slack = 8.0 * torch.finfo(mix.dtype).eps * mix.shape[-1]
    kept = torch.where(mix > slack, mix, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def tail_mix(risks: Tensor, weights: Tensor | None, tail: float) -> Tensor:
    """Weights over the sorted risks of the mean of the worst ``tail`` share of domains.

    >>> tail_mix(torch.zeros(4, dtype=torch.float64), None, 0.375)
    tensor([0.0000, 0.0000, 0.3333, 0.6667], dtype=torch.float64)
    """
    if weights is None:
        size = risks.shape[-1]
        above = torch.arange(size - 1, -1, -1, dtype=torch.float64, device=risks.device)
        taken = (tail * size - above).clamp(0.0, 1.0)
        return (taken / taken.sum()).expand(risks.shape)
    from_top = weights.flip(-1).cumsum(-1)
    taken = (from_top / from_top[..., -1:]).clamp(max=tail)
    mix = torch.diff(taken, prepend=torch.zeros_like(taken[..., :1])).flip(-1)
    return mix / mix.sum(-1, keepdim=True)


def step_mix(risks: Tensor, weights: Tensor | None, alpha: float, tail: float) -> Tensor:
    """1 at the place in sorted order of inf{r : F(r) ≥ α}, the paper's quantile.

    Where F reaches α up to the rounding error of the sum of weights, it has reached it.

    >>> weights = torch.tensor([0.5, 0.0, 0.4, 0.1], dtype=torch.float64)
    >>> step_mix(torch.arange(4.0), weights, 0.9, 0.1)
    tensor([0., 0., 1., 0.])
    """
    steps = torch.arange(risks.shape[-1], device=risks.device)
    if weights is None:
        place = equal_step_index(risks.shape[-1], alpha, tail)
        return (steps == place).to(risks.dtype).expand(risks.shape)
    slack = 4.0 * torch.finfo(weights.dtype).eps * weights.shape[-1] ** 0.5
    # F = 1 - (weight above): near alpha = 1 only the second form keeps its digits.
    if alpha <= 0.5:
        reached = weights.cumsum(-1) >= alpha - slack
    else:
        above = weights.flip(-1).cumsum(-1).flip(-1) - weights
        reached = above <= tail + slack * min(1.0, 2.0 * tail)
    return (steps == first_true(reached & (weights > 0))).to(risks.dtype)


def first_true(condition: Tensor) -> Tensor:
    """Index (..., 1) of the first True in each row.

    >>> first_true(torch.tensor([False, True, True]))
    tensor([1])
    """
    # In float64, because torch 2.11 cannot compile the smallest of these integers on a GPU.
    steps = torch.arange(condition.shape[-1], dtype=torch.float64, device=condition.device)
    last = condition.shape[-1] - 1.0
    return torch.where(condition, steps, last).amin(-1, keepdim=True).to(torch.int64)


def share_among_ties(risks: Tensor, weights: Tensor | None, mix: Tensor) -> Tensor:
    """The same mix of sorted risks with the share of equal ones split among them by their weights.

    The quantile does not change; its gradient no longer depends on how a sort orders ties.

    >>> mix = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    >>> share_among_ties(torch.tensor([1.0, 1.0, 2.0]), None, mix)
    tensor([0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    risks = risks.detach()
    new = torch.ones_like(risks, dtype=torch.int64)
    new[..., 1:] = (risks[..., 1:] != risks[..., :-1]).to(torch.int64)
    group = new.cumsum(-1) - 1
    zeros = torch.zeros_like(mix)
    each = torch.ones_like(mix) if weights is None else weights.expand(mix.shape)
    shares = zeros.scatter_add(-1, group, mix).gather(-1, group)
    total = zeros.scatter_add(-1, group, each).gather(-1, group)
    return torch.where(total > 0, shares * each / total, 0.0)


def interquartile_range(risks: Tensor, weights: Tensor | None = None) -> Tensor:
    """The range between the linearly interpolated quartiles, shape ``(..., 1)``.

    >>> risks = torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0], dtype=torch.float64)
    >>> interquartile_range(risks)
    tensor([2.], dtype=torch.float64)
    """
    values, order = risks.sort(-1)
    given = None if weights is None else weights.expand(risks.shape).gather(-1, order)
    mix, lower = _between_quartiles(values, given)
    # Differences to a value of the lower quartile keep the digits of nearly equal risks, and are
    # 0 where both quartiles are the same value.
    origin = values.detach().gather(-1, first_true(lower > 0.0))
    return (mix * (values - origin)).sum(-1, keepdim=True)


def _between_quartiles(risks: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """The mix of sorted risks that makes the interquartile range, and that of the lower quartile.

    The first sums to 0 to the last digit of its parts: a domain with nearly all the weight makes
    almost all of both quartiles, and what is left there after rounding is what the others need.
    """
    lower = linear_mix(risks, weights, 0.25)
    mix = linear_mix(risks, weights, 0.75) - lower
    if weights is None:
        return mix, lower
    heaviest = lower.argmax(-1, keepdim=True)
    others = mix.scatter(-1, heaviest, 0.0)
    return others.scatter(-1, heaviest, -others.sum(-1, keepdim=True)), lower


def row_interquartile_range(
    values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None
) -> Places:
    """:func:`interquartile_range` of one row on the CPU, and its derivative.

    >>> value, places, shares = row_interquartile_range(np.array([9.0, 1.0, 2.0, 3.0, 4.0]), None)
    >>> value, places.tolist(), shares.tolist()
    (2.0, [2, 3, 4, 0], [-1.0, -0.0, 1.0, 0.0])
    """
    if weights is None:
        ranks, shares = _quartile_ranks(values.size)
        places, first = values.argpartition(ranks)[ranks], 0
    else:
        places = values.argsort()
        given = torch.from_numpy(weights[places])
        mix, lower = _between_quartiles(given, given)
        shares, first = mix.numpy(), int(first_true(lower > 0))
    chosen = values[places]
    with np.errstate(over="ignore", invalid="ignore"):  # risks too far apart, refused later
        return float(shares.dot(chosen - chosen[first])), places, shares


@lru_cache(maxsize=64)
def _quartile_ranks(size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Which sorted risks make the interquartile range, with which shares."""
    low, high = 0.25 * (size - 1), 0.75 * (size - 1)
    ranks = [int(low), min(int(low) + 1, size - 1), int(high), min(int(high) + 1, size - 1)]
    beyond = low - ranks[0], high - ranks[2]
    return np.array(ranks), np.array([beyond[0] - 1.0, -beyond[0], 1.0 - beyond[1], beyond[1]])
