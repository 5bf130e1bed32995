"""Is there a positive definite matrix A_0 + Σ c_i A_i? A barrier method for small matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CLEARLY = 1e-6


def definite_combination(base: Floats, directions: Floats) -> Floats | None:
    """Weights c (r,) with base + Σ c_i·directions_i positive definite, or None.

    ``base`` (k, k), ``directions`` (r, k, k), all symmetric. Maximises the smallest eigenvalue τ
    with the barrier −log det(A(c) − τI). The answer is checked by its eigenvalues: the
    smallest must exceed 10⁻⁶ of the largest.
    """
    directions, mixing = _independent(directions)
    c = np.zeros(len(directions))
    if _is_definite(base):
        return mixing @ c
    if len(directions) == 0:
        return None
    k = len(base)
    tau = float(np.linalg.eigvalsh(base)[0]) - 1.0
    weight = 1.0
    while weight < 1e10:
        for _ in range(25):
            try:
                c, tau, decrement = _newton_step(base, directions, c, tau, weight)
            except np.linalg.LinAlgError:  # beyond double precision: nothing is claimed
                return None
            if _is_definite(base + np.tensordot(c, directions, 1)):
                return np.asarray(mixing @ c)
            if decrement < 1e-8 or not np.isfinite(tau):
                break
        if tau + k / weight < 0 or not np.isfinite(tau) or np.abs(c).max() > 1e8:
            return None
        weight *= 8.0
    return None


def _is_definite(matrix: Floats) -> bool:
    if not np.isfinite(matrix).all():
        return False
    values = np.linalg.eigvalsh(matrix)
    return bool(values[0] > CLEARLY * max(values[-1], 0.0) and values[-1] > 0)


def _independent(directions: Floats) -> tuple[Floats, Floats]:
    """An orthonormal basis of the span, and the weights of the directions behind it."""
    r = len(directions)
    if r == 0:
        return directions, np.zeros((0, 0))
    u, s, vt = np.linalg.svd(directions.reshape(r, -1), full_matrices=False)
    keep = s > 1e-10 * max(float(s[0]), 1e-300)
    return vt[keep].reshape(-1, *directions.shape[1:]), u[:, keep] / s[keep]


def _newton_step(
    base: Floats, directions: Floats, c: Floats, tau: float, weight: float
) -> tuple[Floats, float, float]:
    """One damped Newton step on −weight·τ − log det(A(c) − τI)."""
    slack = base + np.tensordot(c, directions, 1) - tau * np.eye(len(base))
    inverse = np.linalg.inv(slack)
    moves = np.concatenate([directions, -np.eye(len(base))[None]])
    pulled = inverse @ moves
    gradient = -np.trace(pulled, axis1=1, axis2=2)
    gradient[-1] -= weight
    hessian = np.einsum("aij,bji->ab", pulled, pulled)
    hessian += 1e-12 * np.trace(hessian) / len(hessian) * np.eye(len(hessian))
    step = -np.linalg.solve(hessian, gradient)
    decrement = float(np.sqrt(max(-gradient @ step, 0.0)))
    step /= 1.0 + decrement  # stays inside the domain of the barrier
    return c + step[:-1], tau + float(step[-1]), decrement
