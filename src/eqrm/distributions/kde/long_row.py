"""The quantile of one long row of equal weights on the CPU, by passes of the C part over the risks.

Nothing is copied but the kernels, which become the gradient: one pass for mean and spread, rough
ones in float32 from the quantile of some risks towards the root, one in float64 there, and one that
writes the gradient.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from eqrm.distributions.bandwidths import RowBandwidth
from eqrm.distributions.kde import native
from eqrm.distributions.kde.bulk_sums import LONG, SMALLEST_DENSITY, NativeSums
from eqrm.distributions.kde.root import RowQuantile, add_shares, root_of_one
from eqrm.distributions.kde.sums import FAR_FROM_MEAN, Equation
from eqrm.level import Level

ENOUGH_FOR_START, WIDEST_STRIDE = 8_192, 32
"""The quantile of so many risks is a good start, and of every so many at least."""

FEWEST_BEYOND = 100.0
"""With fewer risks beyond the quantile, some of them tell nothing about it."""

FARTHEST_PIVOT = 4.0
"""Standard deviations between the mean and the risk from which the others are counted."""


def quantile_of_long_row(
    risks: Tensor, bandwidth: RowBandwidth, level: Level, wants_gradient: bool
) -> RowQuantile | None:
    """q, and the gradient in the dtype of the risks, which are contiguous, float64 or float32.

    None where they are few, hardly any lie beyond the quantile, or the digits need more care.
    """
    size = risks.shape[0]
    beyond = size * min(level.alpha, level.tail)
    if native.LIBRARY is None or size <= LONG or not beyond > FEWEST_BEYOND:
        return None
    passes = native.Passes(risks, None, torch.empty_like(risks) if wants_gradient else None)
    pivot = risks[0].item()
    offset, variance = passes.spread(pivot)
    if not offset * offset < FARTHEST_PIVOT**2 * variance:
        pivot += offset
        offset, variance = passes.spread(pivot)
    if not (1e-100 < variance < 1e100 and abs(pivot) < 1e100):
        return None
    apart = 1.0 - 1.0 / size
    std = math.sqrt(variance / apart)
    h = bandwidth.value(std)
    if not std < FAR_FROM_MEAN * h < math.inf:
        return None
    stride = min(size // ENOUGH_FOR_START, WIDEST_STRIDE)
    some = risks[::stride].numpy().astype(np.float64)
    equation = Equation.at(level, some - pivot - offset, None, std, h)
    sums = NativeSums(equation, passes, pivot, offset)
    root = root_of_one(sums)
    if not (abs(root) < FAR_FROM_MEAN and sums.density_near(root) > SMALLEST_DENSITY):
        return None
    value = pivot + (offset + equation.bandwidth * root)
    if not wants_gradient:
        return RowQuantile(value, None, 0.0)
    sign, fixed = math.copysign(1.0, equation.bandwidth), h == bandwidth.fixed
    coupling = 0.0 if fixed else sign * bandwidth.factor / std / apart
    gradient, mean_z = sums.gradient(root, coupling)
    mean_z *= sign
    if fixed:
        add_shares(gradient, bandwidth, mean_z)
    return RowQuantile(value, gradient, mean_z)
