"""Mean and spread of one row of risks on the CPU: :mod:`~eqrm.distributions.moments` in numpy.

The quick road for one row needs these numbers as Python floats, without a graph.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg.blas import dnrm2
from torch import Tensor

from eqrm.distributions.kde import native
from eqrm.distributions.kde.blocks import for_each_block
from eqrm.distributions.kde.long_rows import LONG
from eqrm.distributions.kde.sums import Array


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
    >>> row.pivot + row.offset, round(row.std, 12)
    (2.0, 1.0)
    """
    if risks.dtype not in (torch.float32, torch.float64):
        risks = risks.to(torch.float64)
    m = risks.numel()
    concentration = 1.0 / m if weights is None else float(weights.dot(weights))
    if native.LIBRARY is not None and risks.dtype == torch.float64 and risks.is_contiguous():
        pivot, offset, centred, square = native.centre(native.LIBRARY, risks, weights)
        spread = _root(square, centred, weights)
    elif m > LONG:
        pivot = float(risks[0])
        centred, offset, spread = _centre_in_blocks(risks, weights, pivot)
    else:
        values = risks.numpy()
        pivot = float(values[0])
        centred = np.subtract(values, pivot, dtype=np.float64)
        offset = float(centred.sum()) / m if weights is None else float(weights.dot(centred))
        centred -= offset
        spread = _spread(centred, weights)
    several = concentration < 1.0 - 1e-12
    std = spread / math.sqrt(1.0 - concentration) if several else 0.0
    return CentredRow(pivot, offset, centred, std, concentration)


def _spread(centred: Array, weights: Array | None) -> float:
    """√Σp_ix_i²; the norm of BLAS neither overflows nor underflows."""
    if weights is None:
        return float(dnrm2(centred)) / math.sqrt(centred.size)
    return float(dnrm2(centred * np.sqrt(weights)))


def _centre_in_blocks(
    risks: Tensor, weights: Array | None, pivot: float
) -> tuple[Array, float, float]:
    """risks − mean, mean − pivot, and √Σp_i(R_i − mean)²."""
    m = risks.numel()
    centred = torch.empty(m, dtype=torch.float64)
    shares = None if weights is None else torch.from_numpy(weights)

    def weighed(values: Tensor, where: slice) -> float:
        return float(values.sum() / m if shares is None else (values * shares[where]).sum())

    def subtract_pivot(where: slice, scratch: Tensor) -> tuple[float, ...]:
        values = torch.sub(risks[where].to(torch.float64), pivot, out=centred[where])
        return (weighed(values, where),)

    offset = float(for_each_block(m, subtract_pivot, buffers=0).sum())

    def subtract_mean(where: slice, scratch: Tensor) -> tuple[float, ...]:
        values = centred[where].sub_(offset)
        if shares is None:
            return (float(values.dot(values)) / m,)
        return (weighed(torch.mul(values, values, out=scratch[0]), where),)

    square = float(for_each_block(m, subtract_mean, buffers=1).sum())
    row = centred.numpy()
    return row, offset, _root(square, row, weights)


def _root(square: float, centred: Array, weights: Array | None) -> float:
    """√ of a sum of squares, or the careful way where these overflowed or underflowed."""
    usual = 1e-280 < square < 1e280
    return math.sqrt(square) if usual else _spread(centred, weights)
