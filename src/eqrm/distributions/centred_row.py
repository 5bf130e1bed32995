"""Mean and spread of one row of risks on the CPU: :mod:`~eqrm.distributions.moments` in numpy.

The quick road for one row needs these numbers as Python floats, without a graph.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eqrm.distributions.blocks import for_each_block
from eqrm.distributions.kernel_sums import LARGE, Array


class CentredRow(NamedTuple):
    """``risks = pivot + offset + centred``, σ̂, and Σp² (1/m for equal weights)."""

    pivot: float
    offset: float
    centred: Array
    std: float
    concentration: float


def center_row(risks: Tensor, weights: Array | None) -> CentredRow:
    """Centre one row of risks (m,), detached, with positive weights or None for equal ones.

    >>> row = center_row(torch.tensor([1.0, 2.0, 3.0]), None)
    >>> row.pivot + row.offset, row.std
    (2.0, 1.0)
    """
    pivot = float(risks[0])
    m = risks.numel()
    if m > LARGE and weights is None:
        centred, offset = _centre_in_blocks(risks, pivot)
    else:
        centred = risks.to(torch.float64).numpy() - pivot
        offset = float(centred.sum()) / m if weights is None else float(weights.dot(centred))
        centred -= offset
    concentration = 1.0 / m if weights is None else float(weights.dot(weights))
    if concentration >= 1.0 - 1e-12:
        return CentredRow(pivot, offset, centred, 0.0, 1.0)
    std = _mean_square_root(centred, weights) / math.sqrt(1.0 - concentration)
    return CentredRow(pivot, offset, centred, std, concentration)


def _mean_square_root(centred: Array, weights: Array | None) -> float:
    """√Σp_ix_i² without overflow or underflow."""
    with np.errstate(over="ignore"):
        square = _mean_square(centred, weights)
    if 1e-280 < square < 1e280:
        return math.sqrt(square)
    scale = float(np.abs(centred).max())
    return scale * math.sqrt(_mean_square(centred / scale, weights)) if scale > 0.0 else 0.0


def _mean_square(values: Array, weights: Array | None) -> float:
    if weights is None:
        return float(values.dot(values)) / values.size
    return float(values.dot(weights * values))


def _centre_in_blocks(risks: Tensor, pivot: float) -> tuple[Array, float]:
    centred = torch.empty(risks.numel(), dtype=torch.float64)

    def subtract(where: slice, scratch: Tensor) -> tuple[float, ...]:
        return (float(centred[where].copy_(risks[where]).sub_(pivot).sum()),)

    offset = float(for_each_block(risks.numel(), subtract, buffers=0).sum()) / risks.numel()

    def centre(where: slice, scratch: Tensor) -> tuple[float, ...]:
        centred[where].sub_(offset)
        return ()

    for_each_block(risks.numel(), centre, buffers=0)
    return centred.numpy(), offset
