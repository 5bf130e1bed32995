"""Proofs by one combination of quadratic forms, and the linear algebra they need."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eqrm.causal.definite_combination import definite_combination

Floats = NDArray[np.float64]


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


def orthogonal_to(basis: Floats, size: int) -> Floats:
    """An orthonormal basis (size, size − r) of what is orthogonal to an orthonormal (size, r)."""
    q, _ = np.linalg.qr(np.concatenate([basis, np.eye(size)], axis=1))
    return np.asarray(q[:, basis.shape[1] : size])


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
