"""Mean and standard deviation of the risks, exact for nearly equal risks.

Training at α → 1 ends where the risks of all domains are almost the same. Their spread is
then far below the rounding error of their mean, so everything is computed from differences
to one number near them (their mean as rounded), which floating point gives exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Moments(NamedTuple):
    """``risks = pivot + mean_offset + centred``; all float64, shapes ``(..., 1)`` or ``(..., m)``.

    ``std`` is σ̂ (divisor m−1; 0 for one domain) with the gradient 0 where it is 0.
    ``effective`` is the number of domains, 1/Σp² with weights.
    """

    pivot: Tensor
    mean_offset: Tensor
    centred: Tensor
    std: Tensor
    effective: Tensor

    @property
    def mean(self) -> Tensor:
        """R̄, shape ``(..., 1)``."""
        return self.pivot + self.mean_offset


def moments(risks: Tensor, weights: Tensor | None = None) -> Moments:
    """Weighted moments over the last dimension; None stands for equal weights.

    R̄ = Σp_iR_i and σ̂² = Σp_i(R_i−R̄)²/(1−Σp_i²), which for equal weights p_i = 1/m is the
    usual sample variance.

    >>> risks = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    >>> round(moments(risks).std.item(), 12)
    1.0
    """
    # Any number near the risks will do as pivot: rounded, the mean is as good as another.
    pivot = _mean(risks, weights).detach()
    differences = risks - pivot
    if weights is not None:
        differences = torch.where(weights > 0, differences, 0.0)
    mean_offset = _mean(differences, weights)
    centred = differences - mean_offset
    if weights is None:
        concentration = torch.full_like(pivot, 1.0 / risks.shape[-1])
    else:
        concentration = (weights * weights).sum(-1, keepdim=True)
    std = _root_mean_square(centred, weights) * _bessel(concentration)
    return Moments(pivot, mean_offset, centred, std, 1.0 / concentration)


def _mean(values: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return values.mean(-1, keepdim=True)
    return (weights * values).sum(-1, keepdim=True)


def _root_mean_square(centred: Tensor, weights: Tensor | None) -> Tensor:
    """√Σp_ix_i² without overflow or underflow, and with gradient 0 at 0."""
    size = centred.detach().abs()
    if weights is not None:
        size = torch.where(weights > 0, size, 0.0)
    scale = size.amax(-1, keepdim=True)
    safe = torch.where(scale > 0, scale, 1.0)
    square = _mean((centred / safe) ** 2, weights)
    positive = square > 0
    return torch.where(positive, safe * torch.where(positive, square, 1.0).sqrt(), 0.0)


def _bessel(concentration: Tensor) -> Tensor:
    """(1−Σp²)^−½, and 0 for a single domain, whose spread is 0 by definition."""
    several = concentration < 1.0 - 1e-12
    return torch.where(several, torch.where(several, 1.0 - concentration, 1.0).rsqrt(), 0.0)
