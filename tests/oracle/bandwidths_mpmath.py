"""Bandwidth rules and their gradients in the risks, in arbitrary precision.

A rule takes the risks as differences from a pivot and the weights, and returns h and dh/dR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp

Real = Any
"""A number of mpmath, which has no type stubs."""

Bandwidth = tuple[Real, list[Real]]
Rule = Callable[[Sequence[Real], Sequence[Real]], Bandwidth]


def effective_count(weights: Sequence[Real]) -> Real:
    """1 / sum p_i^2, the number of domains for equal weights."""
    return 1 / mp.fsum(p * p for p in weights)


def spread(risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    """The sample standard deviation (over m - 1) and its gradient."""
    mean = mp.fdot(weights, risks)
    freedom = 1 - mp.fsum(p * p for p in weights)
    if freedom <= 0:
        return mp.mpf(0), [mp.mpf(0)] * len(risks)
    variance = mp.fsum(p * (r - mean) ** 2 for p, r in zip(weights, risks, strict=True)) / freedom
    sigma = mp.sqrt(variance)
    if sigma == 0:
        return sigma, [mp.mpf(0)] * len(risks)
    gradient = [p * (r - mean) / (freedom * sigma) for p, r in zip(weights, risks, strict=True)]
    return sigma, gradient


def _times(factor: Real, value_and_gradient: Bandwidth) -> Bandwidth:
    value, gradient = value_and_gradient
    return factor * value, [factor * g for g in gradient]


def gaussian_optimal(risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    factor = (mp.mpf(4) / (3 * effective_count(weights))) ** (mp.mpf(1) / 5)
    return _times(factor, spread(risks, weights))


def scott(risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    factor = effective_count(weights) ** (-mp.mpf(1) / 5)
    return _times(factor, spread(risks, weights))


def gaussian_optimal_106(risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    return _times(mp.mpf("1.06"), scott(risks, weights))


def _sample_quantile(risks: Sequence[Real], order: Sequence[int], quarters: int) -> Bandwidth:
    """Linear interpolation between order statistics at quarters/4."""
    position = mp.mpf(quarters) * (len(risks) - 1) / 4
    below = int(mp.floor(position))
    above = min(below + 1, len(risks) - 1)
    t = position - below
    gradient = [mp.mpf(0)] * len(risks)
    gradient[order[below]] += 1 - t
    gradient[order[above]] += t
    return (1 - t) * risks[order[below]] + t * risks[order[above]], gradient


def interquartile_range(risks: Sequence[Real]) -> Bandwidth:
    order = sorted(range(len(risks)), key=risks.__getitem__)
    low, low_gradient = _sample_quantile(risks, order, 1)
    high, high_gradient = _sample_quantile(risks, order, 3)
    return high - low, [b - a for a, b in zip(low_gradient, high_gradient, strict=True)]


def _silverman(factor: str, risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    if len(set(weights)) > 1:
        raise NotImplementedError("the interquartile range of weighted risks has no oracle")
    sigma = spread(risks, weights)
    width, width_gradient = interquartile_range(risks)
    robust = _times(1 / mp.mpf("1.34"), (width, width_gradient))
    smaller = robust if 0 < robust[0] < sigma[0] else sigma
    scale = mp.mpf(factor) * mp.mpf(len(risks)) ** (-mp.mpf(1) / 5)
    return _times(scale, smaller)


def silverman(risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    return _silverman("0.9", risks, weights)


def silverman_paper(risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    return _silverman("1", risks, weights)


def median_distance(risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    """The median of |R_i - R_j| over i < j, by looking at every pair."""
    if len(set(weights)) > 1:
        raise NotImplementedError("the median distance of weighted risks has no oracle")
    pairs = [(abs(a - b), i, j) for i, a in enumerate(risks) for j, b in enumerate(risks[:i])]
    pairs.sort(key=lambda pair: float(pair[0]))  # nearly sorted, the rest compares little
    pairs.sort(key=lambda pair: pair[0])
    middle = [pairs[(len(pairs) - 1) // 2], pairs[len(pairs) // 2]]
    gradient = [mp.mpf(0)] * len(risks)
    for _, i, j in middle:
        sign = mp.sign(risks[i] - risks[j])
        gradient[i] += sign / 2
        gradient[j] -= sign / 2
    value = (middle[0][0] + middle[1][0]) / 2
    return (value, gradient) if value > 0 else gaussian_optimal(risks, weights)


RULES: dict[str, Rule] = {
    "gaussian-optimal": gaussian_optimal,
    "gaussian-optimal-1.06": gaussian_optimal_106,
    "scott": scott,
    "silverman": silverman,
    "silverman-paper": silverman_paper,
    "median": median_distance,
}


def bandwidth_of(rule: str | float, risks: Sequence[Real], weights: Sequence[Real]) -> Bandwidth:
    """h and dh/dR of a named rule, or a fixed number with a zero gradient."""
    if isinstance(rule, str):
        return RULES[rule](risks, weights)
    return mp.mpf(rule), [mp.mpf(0)] * len(risks)
