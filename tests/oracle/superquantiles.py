"""Superquantiles by numerical integration and by their dual form.

superquantile(alpha) = 1/(1 - alpha) int_alpha^1 F^-1(u) du
                     = q + int_q^inf S(x)/(1 - alpha) dx
                     = max { E_U[R] : dU/dP <= 1/(1 - alpha) },  a linear program.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]
LogSurvival = Callable[[float], float]

_NODES, _WEIGHTS = leggauss(24)
_PANELS = 100_000


def integrated_superquantile(log_sf: LogSurvival, quantile: float, scale: float) -> float:
    """q + int_q^inf S(x)/S(q) dx on Gauss panels of width ``scale``, until S has died out."""
    log_mass = log_sf(quantile)
    total, left = 0.0, quantile
    for _ in range(_PANELS):
        points = left + 0.5 * scale * (_NODES + 1.0)
        values = np.exp([log_sf(float(x)) - log_mass for x in points])
        total += 0.5 * scale * float(_WEIGHTS @ values)
        left += scale
        if values[-1] < 1e-18:
            return quantile + total
    raise ArithmeticError("the tail did not die out")


def step_superquantile(risks: ArrayLike, alpha: float, weights: ArrayLike | None = None) -> float:
    """The integral of the step quantile over (alpha, 1), piece by piece."""
    values = np.asarray(risks, dtype=np.float64)
    w = np.ones_like(values) if weights is None else np.asarray(weights, dtype=np.float64)
    order = np.argsort(values)
    edges = np.concatenate([[0.0], np.cumsum(w[order])]) / w.sum()
    lengths = np.clip(edges[1:], alpha, 1.0) - np.clip(edges[:-1], alpha, 1.0)
    return float(values[order] @ lengths / (1.0 - alpha))


def dual_superquantile(values: ArrayLike, probabilities: ArrayLike, alpha: float) -> float:
    """max sum_i u_i x_i over 0 <= u_i <= p_i/(1 - alpha), sum_i u_i = 1."""
    x = np.asarray(values, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    bounds = np.column_stack([np.zeros_like(p), p / (1.0 - alpha)])
    solution = linprog(-x, A_eq=np.ones((1, len(x))), b_eq=[1.0], bounds=bounds, method="highs")
    if not solution.success:
        raise ArithmeticError(f"the dual linear program failed: {solution.message}")
    return float(-solution.fun)
