"""Objectives without a minimum.

Below the median a Gaussian or a KDE quantile can fall below every risk, and then rewards risks
that are far apart. Along θ + t·d the risks grow as t²·dᵀA_e d, so a quantile that commutes with
shifts and scales goes as t²·q(dᵀA_e d): if that is negative for any direction d, the objective
has no minimum.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from eqrm.linear.solving.criteria import MeasureOfRisks
from eqrm.linear.solving.quadratics import Array, Quadratics

CANDIDATES = 8
"""Directions from which the descent on the sphere starts."""


def falling_direction(criterion: MeasureOfRisks) -> Array | None:
    """A direction (p,) along which the objective falls without end, or None if none was found."""
    growth = _growth(criterion)
    best, lowest = None, -1e-12
    for start in _candidates(_quadratics(criterion)):
        end = _descend(growth, start)
        value = growth.at(end).value / float(end @ end)
        if value < lowest:
            best, lowest = end, value
    return best


def falls_along(criterion: MeasureOfRisks, direction: Array) -> bool:
    """Whether the objective falls without end along this direction."""
    unit = direction / np.linalg.norm(direction)
    return _growth(criterion).at(unit).value < 0.0


def _growth(criterion: MeasureOfRisks) -> MeasureOfRisks:
    """q(dᵀA_e d) + Σ ridge_j d_j², the factor of t²."""
    quadratics = _quadratics(criterion)
    (A, b, _), (dA, db, dc) = quadratics.mean, quadratics.deviations
    pure = Quadratics((A, 0.0 * b, 0.0), (dA, 0.0 * db, 0.0 * dc))
    return MeasureOfRisks(pure, criterion.measure, criterion.ridge)


def _quadratics(criterion: MeasureOfRisks) -> Quadratics:
    if not isinstance(criterion.risks, Quadratics):
        raise TypeError("only quadratics grow as t² times the same quantile")
    return criterion.risks


def _candidates(quadratics: Quadratics) -> list[Array]:
    """Directions in which domains differ most, relative to their mean.

    The eigenvectors, in the metric of the mean, of the mean square of the deviations and of
    the most unusual domains.
    """
    A, dA = quadratics.mean[0], quadratics.deviations[0]
    sizes = np.einsum("eij,eij->e", dA, dA)
    unusual = np.argsort(sizes)[::-1][: max(1, CANDIDATES // 2)]
    square = np.einsum("eij,ekj->ik", dA, dA) / len(dA)
    jitter = 1e-12 * float(np.trace(A)) / len(A) * np.eye(len(A))
    found = []
    for matrix in [square, *(dA[e] for e in unusual)]:
        _, vectors = eigh(matrix, A + jitter)
        found += [vectors[:, -1], vectors[:, 0]]
    return found


def _descend(growth: MeasureOfRisks, start: Array) -> Array:
    """A minimum of growth(d)/|d|² near ``start``."""

    def quotient(direction: Array) -> tuple[float, Array]:
        norm = float(direction @ direction)
        point = growth.at(direction)
        value = point.value / norm
        return value, (point.gradient - 2.0 * value * direction) / norm

    scaled = start / np.linalg.norm(start)
    end: Array = minimize(quotient, scaled, jac=True, method="L-BFGS-B").x
    return end
