"""Mean and standard deviation of the risks, exact for nearly equal risks.

:func:`moments` serves rows of arrays, and of tensors, differentiably. :func:`row_moments` gives the
same numbers of one row as Python floats, in less time.

Training at α → 1 ends where the risks of all domains are almost the same. Their spread is
then far below the rounding error of their mean, so everything is computed from differences
to one of them, which floating point gives exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dnrm2

from eqrm.arrays import Values, detached, taken
from eqrm.distributions.kde import native
from eqrm.distributions.kde.native import Array
from eqrm.execution import namespace


class Moments(NamedTuple):
    """``risks = pivot + mean_offset + centred``; all float64, shapes ``(..., 1)`` or ``(..., m)``.

    ``std`` is σ̂ (divisor m−1; 0 for one domain) with the gradient 0 where it is 0.
    ``effective`` is the number of domains, 1/Σp² with weights.
    """

    pivot: Values
    mean_offset: Values
    centred: Values
    std: Values
    effective: Values

    @property
    def mean(self) -> Values:
        """R̄, shape ``(..., 1)``."""
        return self.pivot + self.mean_offset


def moments(risks: Values, weights: Values | None = None) -> Moments:
    """Weighted moments over the last dimension; None stands for equal weights.

    R̄ = Σp_iR_i and σ̂² = Σp_i(R_i−R̄)²/(1−Σp_i²), which for equal weights p_i = 1/m is the
    usual sample variance.
    """
    xp = namespace(risks)
    # One of the risks, so that differences of equal ones are 0; with weights the heaviest, so that
    # the rounding of the others' differences counts for little.
    if weights is None:
        pivot = detached(risks[..., :1])
    else:
        heaviest = xp.argmax(weights, axis=-1, keepdims=True)
        pivot = taken(detached(risks), xp.broadcast_to(heaviest, (*risks.shape[:-1], 1)))
    differences = risks - pivot
    if weights is not None:
        differences = xp.where(weights > 0, differences, 0.0)
    mean_offset = _mean(differences, weights)
    centred = differences - mean_offset
    if weights is None:
        concentration = xp.full_like(pivot, 1.0 / risks.shape[-1])
    else:
        concentration = (weights * weights).sum(axis=-1, keepdims=True)
    # (1−Σp²)^−½, and 0 for a single domain, whose spread is 0 by definition.
    several = concentration < 1.0 - 1e-12
    bessel = xp.where(several, xp.where(several, 1.0 - concentration, 1.0) ** -0.5, 0.0)
    std = _root_mean_square(centred, weights) * bessel
    return Moments(pivot, mean_offset, centred, std, 1.0 / concentration)


def _mean(values: Values, weights: Values | None) -> Values:
    if weights is None:
        return values.mean(axis=-1, keepdims=True)
    return (weights * values).sum(axis=-1, keepdims=True)


def _root_mean_square(centred: Values, weights: Values | None) -> Values:
    """√Σp_ix_i² without overflow or underflow, and with gradient 0 at 0."""
    xp = namespace(centred)
    size = abs(detached(centred))
    if weights is not None:
        size = xp.where(weights > 0, size, 0.0)
    scale = xp.amax(size, axis=-1, keepdims=True)
    safe = xp.where(scale > 0, scale, 1.0)
    square = _mean((centred / safe) ** 2, weights)
    positive = ~(square <= 0)  # NaN, where distances overflow, must not become a spread of 0
    return xp.where(positive, safe * xp.where(positive, square, 1.0) ** 0.5, 0.0)


class RowMoments(NamedTuple):
    """:class:`Moments` of one row, and its weights (positive; None for equal ones)."""

    pivot: float
    mean_offset: float
    centred: Array
    std: float
    effective: float
    weights: Array | None


def row_moments(risks: Array, weights: Array | None) -> RowMoments:
    """Moments of one contiguous row of risks (m,), float64; weights must be positive."""
    m = risks.size
    concentration = 1.0 / m if weights is None else float(weights.dot(weights))
    if native.LIBRARY is not None and weights is None:
        pivot, offset, centred, square = native.centre(risks, None)
    else:
        pivot = float(risks[0 if weights is None else weights.argmax()])  # as in moments
        with np.errstate(over="ignore", invalid="ignore"):  # risks too far apart, refused later
            centred = risks - pivot
            offset = float(centred.sum()) / m if weights is None else float(weights.dot(centred))
            centred -= offset
            if weights is not None:  # one domain may have almost all the weight
                rest = float(weights.dot(centred))
                centred -= rest
                offset += rest
        square = math.nan
    if 1e-280 < square < 1e280:
        spread = math.sqrt(square)
    elif weights is None:  # the norm of BLAS neither overflows nor underflows
        spread = float(dnrm2(centred)) / math.sqrt(m)
    else:
        spread = float(dnrm2(centred * np.sqrt(weights)))
    several = concentration < 1.0 - 1e-12
    std = spread / math.sqrt(1.0 - concentration) if several else 0.0
    return RowMoments(pivot, offset, centred, std, 1.0 / concentration, weights)
