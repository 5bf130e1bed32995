"""Quantiles of domains with equal weights, as places in their order, without tensors.

Reading and tabulating thousands of records waits for no torch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache

from eqrm.level import Level

INTERPOLATIONS = ("step", "linear")


def equal_step_index(size: int, alpha: float, tail: float) -> int:
    """The place in sorted order of inf{r : F(r) ≥ α}: 0.9 of ten domains is the ninth.

    0.9 is not a binary fraction, so ⌈αm⌉ is taken up to its rounding error.
    """
    slack = 8.0 * sys.float_info.epsilon
    if alpha <= 0.5:
        return max(0, math.ceil(alpha * size * (1.0 - slack)) - 1)
    return size - 1 - min(size - 1, math.floor(tail * size * (1.0 + slack)))


@lru_cache
def shares_of_ranks(
    number: int, level: Level, interpolation: str = "step"
) -> tuple[tuple[int, float], ...]:
    """The quantile of sorted risks as a mean of few of them: which, and with which share."""
    if interpolation == "step":
        return ((equal_step_index(number, level.alpha, level.tail), 1.0),)
    position = level.alpha * (number - 1)
    first = math.floor(position)
    shares = [(rank, 1.0 - abs(rank - position)) for rank in (first, first + 1)]
    return tuple((rank, share) for rank, share in shares if share > 0.0)


def equal_quantile(risks: Sequence[float], level: Level, interpolation: str = "step") -> float:
    """``Empirical(risks, interpolation=interpolation).quantile(level)`` of finite risks."""
    ordered = sorted(risks)
    shares = shares_of_ranks(len(ordered), level, interpolation)
    pivot = ordered[shares[0][0]]
    return pivot + math.fsum(share * (ordered[rank] - pivot) for rank, share in shares)
