"""The quantile of one row, in numpy, with weights, for risks of any size.

The usual row is one call of the C part, a long one few passes of it; those that need more care are
solved in other units, or from another point.
"""

from __future__ import annotations

import math

import numpy as np

from eqrm.distributions.bandwidths import (
    UNBOUNDED,
    Bandwidth,
    Fixed,
    RowBandwidth,
    SigmaRule,
    scaled,
    spread_bandwidth,
)
from eqrm.distributions.kde import native
from eqrm.distributions.kde.bulk_sums import LONG, BulkSums
from eqrm.distributions.kde.native import Array, Row
from eqrm.distributions.kde.root import (
    RowQuantile,
    add_shares,
    polished,
    quantile_at_once,
    quantile_in_gap,
    quantile_of_row,
    root_of_one,
)
from eqrm.distributions.kde.sums import FAR_FROM_MEAN, Equation, risk_near_quantile
from eqrm.distributions.moments import row_moments
from eqrm.distributions.normal_tails import SQRT_2
from eqrm.level import Level

LARGE = 1e90
"""Squares of numbers of this size, and of ratios of two, are numbers; beyond, risks are solved for
in other units."""


def quantile_of_one(
    row: Row,
    given: float | None,
    weights: Array | None,
    rule: Bandwidth | None,
    level: Level,
    wants_gradient: bool,
) -> RowQuantile:
    """q, dq/dR where it is wanted, and dq/dh; ``given`` is h where there is no rule.

    Domains without weight are left out; equal weights are none. The gradient of a row in float32
    may be in float64.
    """
    domains, kept, shares = row.size, None, None
    needs_no_risks = rule is None or isinstance(rule, (SigmaRule, Fixed))
    if row.dtype != np.float64 and not (row.dtype == np.float32 and needs_no_risks):
        row = row.astype(np.float64)
    if weights is not None:
        counting = weights != 0.0
        if not counting.all():
            kept = np.flatnonzero(counting)
            row = row[kept]
        if np.count_nonzero(weights == weights.max()) < row.size:
            shares = weights[counting]
    if not row.flags.c_contiguous:
        row = np.ascontiguousarray(row)
    spread = None if rule is None or shares is not None else spread_bandwidth(rule, row.size)
    found = None if spread is None else quantile_at_once(row, None, spread, level, wants_gradient)
    if found is None:
        found = _of_bandwidth(row, shares, given, rule, level, wants_gradient)
    if found.gradient is None or kept is None:
        return found
    gradient = np.zeros(domains, found.gradient.dtype)
    gradient[kept] = found.gradient
    return found._replace(gradient=gradient)


def _of_bandwidth(
    row: Row,
    shares: Array | None,
    given: float | None,
    rule: Bandwidth | None,
    level: Level,
    wanted: bool,
) -> RowQuantile:
    """The bandwidth first, then the quantile: at once, in few passes or with care."""
    if rule is None:
        bandwidth = RowBandwidth(fixed=math.nan if given is None else given)
    else:
        bandwidth = rule.of_row(row, shares)
    found = quantile_at_once(row, shares, bandwidth, level, wanted)
    if found is None and shares is None:
        found = quantile_of_long_row(row, bandwidth, level, wanted)
    if found is None:
        row = row.astype(np.float64, copy=False)
        if shares is None and bandwidth.factor == UNBOUNDED:
            found = quantile_in_gap(row, bandwidth.fixed, level, wanted)
    return found or _quantile_with_care(row, shares, bandwidth, level, wanted)


def _quantile_with_care(
    risks: Array, weights: Array | None, bandwidth: RowBandwidth, level: Level, wanted: bool
) -> RowQuantile:
    """q, dq/dR where it is wanted, and z̄, of a row in float64, in any case."""
    row, exponent = row_moments(risks, weights), 0
    h = bandwidth.value(row.std)
    sizes = abs(row.pivot), row.std, abs(h)
    if not all(size == 0.0 or 1.0 / LARGE < size < LARGE for size in sizes):
        size = float(np.abs(risks).max())
        exponent = math.frexp(max(size, h))[1]
        risks = np.ldexp(risks, -exponent)
        bandwidth = bandwidth.in_units(exponent)
        row = row_moments(risks, weights)
        h = bandwidth.value(row.std)
    if not (math.isfinite(row.std) and math.isfinite(h)):
        # A bad risk that nobody refused, or risks too far apart.
        nan = np.full_like(risks, math.nan)
        return RowQuantile(math.nan, nan if wanted else None, math.nan)
    # A domain with nearly all the weight leaves no spread, however far the others are.
    spread = row.std if weights is None else float(np.abs(row.centred).max())
    if h == bandwidth.fixed and spread > FAR_FROM_MEAN * h > 0.0:
        # Differences to a risk near the quantile keep the digits that those to the mean lose.
        near = risk_near_quantile(risks, weights, level)
        row = row._replace(pivot=near, mean_offset=0.0, centred=risks - near)
    value, gradient, mean_z = quantile_of_row(row, bandwidth, level, wanted)
    if abs(value - row.pivot - row.mean_offset) > FAR_FROM_MEAN * h > 0.0:
        value = polished(value, risks, weights, h, level)
    return RowQuantile(scaled(value, exponent), gradient, mean_z)


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
    """Sums over narrow bins of the risks near the quantile, by passes of the C part.

    A bin keeps the powers of its risks' places up to the seventh, and the sums over kernels are
    their Taylor series. What is left out is 5e-15 of the density where that is as high as a
    kernel's, and shows in the 12th digit where it is least. The mean is ``pivot + offset``; the
    equation has only some of the risks, for a start.
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
        count = round(2.0 * FARTHEST_BIN * BINS_PER_BANDWIDTH)
        unit = BINS_PER_BANDWIDTH / self.equation.bandwidth
        shift = (FARTHEST_BIN - middle) * BINS_PER_BANDWIDTH - unit * self.offset
        self.middle, self.table = middle, self.passes.bins(self.pivot, shift, unit, count)

    def write_gradient(self, t: float, a: float, b: float) -> Row:
        unit = -1.0 / (self.equation.bandwidth * SQRT_2)
        shift = t / SQRT_2 - unit * self.offset
        return self.passes.gradient(self.pivot, shift, unit, a, b, self.offset)


def quantile_of_long_row(
    risks: Row, bandwidth: RowBandwidth, level: Level, wants_gradient: bool
) -> RowQuantile | None:
    """q, and the gradient in the dtype of the risks, which are contiguous, float64 or float32.

    None where they are few, hardly any lie beyond the quantile, or the digits need more care.
    """
    size = risks.size
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
    some = risks[::stride].astype(np.float64)
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
