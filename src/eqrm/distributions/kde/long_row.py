"""The quantile of one long row of equal weights on the CPU, by passes of the C part over the risks.

Nothing is copied: one pass for mean and spread, one that gathers the risks near the quantile in
narrow bins, and one that writes the gradient. A bin keeps the powers of its risks' places up to the
seventh, and the sums over kernels are their Taylor series, so that the solve costs nothing beside
the passes. What is left out is 5e-15 of the density where that is as high as a kernel's, and shows
in the 12th digit where it is least.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from eqrm.distributions.bandwidths import RowBandwidth
from eqrm.distributions.kde import native
from eqrm.distributions.kde.bulk_sums import LONG, BulkSums
from eqrm.distributions.kde.root import RowQuantile, add_shares, root_of_one
from eqrm.distributions.kde.sums import FAR_FROM_MEAN, Equation
from eqrm.distributions.normal_tails import SQRT_2
from eqrm.level import Level

ENOUGH_FOR_START, ENOUGH_BEYOND, WIDEST_STRIDE = 8_192, 1_000, 32
"""The quantile of so many risks is a good start if so many of them lie beyond it. Where fewer do,
one risk in so many is enough all the same."""

FEWEST_BEYOND = 100.0
"""With fewer risks beyond the quantile, some of them tell nothing about it."""

FARTHEST_PIVOT = 4.0
"""Standard deviations between the mean and the risk from which the others are counted."""

BINS_PER_BANDWIDTH = 16

FARTHEST_BIN, NEARBY = 13.0, 4.0
"""Bandwidths on each side of a point that have bins, and in which the sums hold: kernels beyond
the bins are nothing there."""

LEAST_DENSITY = 1e-5
"""Σ exp(−z²/2)/m below which what is left out would show in the digits: in a valley between risks,
all of which are several bandwidths away."""


class BinnedSums(BulkSums):
    """Sums over bins of risks, whose mean is ``pivot + offset``.

    The equation has only some of them, for a start.
    """

    def __init__(
        self, equation: Equation, passes: native.Passes, pivot: float, offset: float
    ) -> None:
        super().__init__(equation)
        self.passes, self.pivot, self.offset = passes, pivot, offset
        self.middle = math.nan

    @property
    def size(self) -> int:
        return self.passes.size

    def bracket(self) -> tuple[float, float]:
        return self.equation.bracket_of(*self.passes.ends(self.pivot, self.offset))

    def sums(self, t: float) -> list[float]:
        if not abs(t - self.middle) <= NEARBY:
            self._fill(t)
        step = 1.0 / (BINS_PER_BANDWIDTH * SQRT_2)
        shift = (t - self.middle + FARTHEST_BIN) / SQRT_2 - 0.5 * step
        return [each / self.size for each in native.sums_of_bins(self.table, shift, -step)]

    def _fill(self, middle: float) -> None:
        """Put the risks in bins about a point."""
        count = round(2.0 * FARTHEST_BIN * BINS_PER_BANDWIDTH)
        unit = BINS_PER_BANDWIDTH / self.equation.bandwidth
        shift = (FARTHEST_BIN - middle) * BINS_PER_BANDWIDTH - unit * self.offset
        self.middle, self.table = middle, self.passes.bins(self.pivot, shift, unit, count)

    def write_gradient(self, t: float, a: float, b: float) -> Tensor:
        unit = -1.0 / (self.equation.bandwidth * SQRT_2)
        shift = t / SQRT_2 - unit * self.offset
        return self.passes.gradient(self.pivot, shift, unit, a, b, self.offset)


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
    passes = native.Passes(risks)
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
    stride = min(size // ENOUGH_FOR_START, max(int(beyond / ENOUGH_BEYOND), WIDEST_STRIDE))
    some = risks[::stride].numpy().astype(np.float64)
    equation = Equation.at(level, some - pivot - offset, None, std, h)
    sums = BinnedSums(equation, passes, pivot, offset)
    root = root_of_one(sums)
    if not (abs(root) < FAR_FROM_MEAN and sums.density_near(root) > LEAST_DENSITY):
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
