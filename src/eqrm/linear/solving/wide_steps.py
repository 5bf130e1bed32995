"""Newton steps in many parameters: by Cholesky factors instead of eigenvectors.

The step within a radius solves (H + μM)s = −g with the smallest μ ≥ 0 for which H + μM is positive
definite and sᵀMs is at most the square of the radius (Moré & Sorensen 1983). Eigenvectors give s
for every μ at once, but in hundreds of parameters they cost as much as 30 Cholesky factors, of
which about 5 are enough.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from eqrm.linear.solving.risk_functions import Array

WIDE = 150
"""Parameters beyond which factors are faster; below, eigenvectors also handle the hard case."""
MOST_FACTORS = 25
CLOSE = 0.1
"""How exactly the radius is met, relatively: the next one is a guess as well."""


def factored_step(gradient: Array, hessian: Array) -> Array | None:
    """−H⁻¹g where H is positive definite, else None."""
    factor = _factor(hessian)
    return None if factor is None else _solved(factor, gradient)


def step_within(
    gradient: Array, hessian: Array, matrix: Array, radius: float, definite: bool = True
) -> tuple[Array, float, float] | None:
    """The step, the decrease that gᵀs + ½sᵀHs promises, and its length √(sᵀMs).

    ``definite`` says whether H may be positive definite. None in the hard case, where the gradient
    has no part along the most negative curvature, and where H is not finite.
    """
    first = _first_bend(gradient, hessian, matrix, radius)
    bend, low, high = 0.0 if definite else first, 0.0, math.inf
    for _ in range(MOST_FACTORS):
        factor = _factor(hessian + bend * matrix)
        step = None if factor is None else _solved(factor, gradient)
        if factor is None or step is None:
            low = bend
            bend = _between(low, high, first)
            continue
        weighted = matrix @ step
        length = math.sqrt(float(step @ weighted))
        if abs(length - radius) <= CLOSE * radius or (bend == 0.0 and length <= radius):
            promised = -float(gradient @ step + 0.5 * step @ (hessian @ step))
            return (step, promised, length) if promised > 0.0 else None
        low, high = (bend, high) if length > radius else (low, bend)
        # 1/|s(μ)| is concave and nearly linear in μ, so Newton on it needs a few steps.
        across = solve_triangular(factor[0], weighted, lower=True, check_finite=False)
        steepness = float(across @ across) / length**2
        bend += (length / radius - 1.0) / steepness
        if not low < bend < high:
            bend = _between(low, high, 2.0 * low)
    return None


def _factor(matrix: Array) -> tuple[Array, bool] | None:
    try:
        found: tuple[Array, bool] = cho_factor(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return found


def _solved(factor: tuple[Array, bool], gradient: Array) -> Array | None:
    step: Array = -cho_solve(factor, gradient, check_finite=False)
    return step if bool(np.isfinite(step).all()) else None


def _between(low: float, high: float, first: float) -> float:
    """A μ inside the bracket: the middle of its logarithm, or further out where it has no end."""
    if math.isinf(high):
        return max(10.0 * low, first)
    return math.sqrt(low * high) if low > 0.0 else 0.1 * high


def _first_bend(gradient: Array, hessian: Array, matrix: Array, radius: float) -> float:
    """A first μ > 0, from the size of the curvature and of the gradient within the radius."""
    size = math.sqrt(float(np.trace(matrix)) / len(matrix))
    slope = float(np.linalg.norm(gradient)) / (size * radius)
    curvature = abs(float(np.trace(hessian))) / float(np.trace(matrix))
    return 1e-3 * max(slope, curvature) + 1e-300
