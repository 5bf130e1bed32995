"""Proofs by one combination of quadratic forms: definite, zero on a hull, least at a point."""

from __future__ import annotations

import numpy as np

from studies.causal.quadratic_forms import Floats, orthogonal_to

CLEARLY = 1e-6


def is_confined(basis: Floats, hull: Floats) -> bool:
    """Whether a combination of the forms is zero on the hull and definite beside it."""
    outside = orthogonal_to(hull, basis.shape[1])
    weights = null_space(np.stack([(form @ hull).ravel() for form in basis], axis=1))
    forms = np.tensordot(weights.T, basis, 1)
    small = outside.T @ forms @ outside
    traces = np.trace(small, axis1=1, axis2=2)
    if len(small) == 0 or np.abs(traces).max() < 1e-9:
        return False
    first, rest = traces / (traces @ traces), null_space(traces[None])
    found = definite_combination(np.tensordot(first, small, 1), np.tensordot(rest.T, small, 1))
    if found is None:
        return False
    form = np.tensordot(first + rest @ found, forms, 1)
    smallest = float(np.linalg.eigvalsh(outside.T @ form @ outside)[0])
    return hull.shape[1] == 0 or bool(np.abs(form @ hull).max() <= 1e-8 * smallest)


def minimum_kernel(basis: Floats, mean: Floats, u: Floats) -> Floats | None:
    """Where a convex q̄ + Σc_iF_i with its minimum at u is minimal: the span of (1, ·) there.

    An orthonormal basis (k+1, r), r = 1 when u is the only minimiser; None if no such
    combination was found.
    """
    move = np.eye(len(mean))
    move[1:, 0] = u
    forms, mean = move.T @ basis @ move, move.T @ mean @ move
    slopes = forms[:, 0, 1:].T
    weights = np.linalg.lstsq(slopes, -mean[0, 1:], rcond=1e-11)[0]
    if np.abs(slopes @ weights + mean[0, 1:]).max() > 1e-8:
        return None
    base = mean[1:, 1:] + np.tensordot(weights, forms[:, 1:, 1:], 1)
    free = null_space(slopes)
    flat = np.zeros((len(base), 0))
    found = definite_combination(base, np.tensordot(free.T, forms[:, 1:, 1:], 1))
    if found is not None:
        weights = weights + free @ found
        convexity = np.linalg.eigvalsh(mean[1:, 1:] + np.tensordot(weights, forms[:, 1:, 1:], 1))
        # What is left of the equations at u, in units of the combination, bounds how far from u
        # the lowest point can be.
        if np.abs(weights) @ np.abs(forms[:, 0, 0]) > 1e-12 * convexity[0]:
            return None
    else:
        values, vectors = np.linalg.eigh(base)
        size = float(np.abs(values).max())
        if values[0] < -1e-8 * max(size, 1.0):
            return None
        flat = vectors[:, values < 1e-6 * max(size, 1.0)]
    spanning = np.zeros((len(mean), 1 + flat.shape[1]))
    spanning[0, 0] = 1.0
    spanning[1:, 1:] = flat
    return np.asarray(np.linalg.qr(move @ spanning)[0])


def span_of_points(points: Floats) -> Floats:
    """An orthonormal basis of the span of (1, u) over the points (s, k)."""
    h = np.concatenate([np.ones((len(points), 1)), points], axis=1)
    if len(h) == 0:
        return np.zeros((points.shape[1] + 1, 0))
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    _, s, vt = np.linalg.svd(h, full_matrices=False)
    return np.asarray(vt[s > 1e-4 * s[0]].T)


def null_space(matrix: Floats) -> Floats:
    """An orthonormal basis (n, r) of the null space of a matrix (m, n)."""
    columns = matrix.shape[1]
    if matrix.shape[0] == 0:
        return np.eye(columns)
    _, s, vt = np.linalg.svd(matrix, full_matrices=True)
    rank = int((s > 1e-8 * max(float(s[0]), 1.0)).sum()) if len(s) else 0
    return np.asarray(vt[rank:].T)


def degenerate_ratios(first: Floats, second: Floats) -> list[float]:
    """Real r at which first + r·second (3×3) is singular."""
    nodes = np.array([-1.5, -0.5, 0.5, 1.5])
    values = [np.linalg.det(first + node * second) for node in nodes]
    roots = np.roots(np.polyfit(nodes, values, 3))
    return [float(root.real) for root in roots if abs(root.imag) < 1e-8 * (1.0 + abs(root))]


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
