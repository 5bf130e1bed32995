"""Points where several quadratic forms vanish together: found by search, claimed by check."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from studies.causal.quadratic_forms import Floats

STARTS = 64
SETTLED = 1e-11


def independent_forms(forms: Floats, noises: Floats) -> Floats:
    """A basis (r, n, n), of norm 1 each, of the span of forms (m, n, n) above their noise."""
    size = np.abs(forms).max(axis=(1, 2))
    loud = size > noises
    if not loud.any():
        return forms[:0]
    scaled = forms[loud] / size[loud, None, None]
    _, s, vt = np.linalg.svd(scaled.reshape(len(scaled), -1), full_matrices=False)
    relative = float((noises[loud] / size[loud]).max())
    keep = s > max(1e-9, 10 * relative) * s[0]
    return np.asarray(vt[keep].reshape(-1, *forms.shape[1:]))


def find_common_zeros(forms: Floats, starts: int = STARTS, seed: int = 0) -> Floats:
    """Distinct u (s, k) with (1, u)ᵀF_i(1, u) = 0 for all i, by Levenberg-Marquardt."""
    k = forms.shape[1] - 1
    generator = np.random.default_rng(seed)
    u = generator.standard_normal((starts, k)) * generator.choice([0.3, 1.0, 4.0], (starts, 1))
    damping = np.ones(starts)
    value, jacobian = _residuals(forms, u)
    for _ in range(120):
        normal = np.einsum("sik,sil->skl", jacobian, jacobian)
        slope = np.einsum("sik,si->sk", jacobian, value)
        size = 1e-14 * np.trace(normal, axis1=1, axis2=2) + 1e-300
        regular = normal + (damping + size)[:, None, None] * np.eye(k)
        moved = u - np.linalg.solve(regular, slope[..., None])[..., 0]
        new_value, new_jacobian = _residuals(forms, moved)
        better = (new_value**2).sum(1) < (value**2).sum(1)
        u = np.where(better[:, None], moved, u)
        value = np.where(better[:, None], new_value, value)
        jacobian = np.where(better[:, None, None], new_jacobian, jacobian)
        damping = np.clip(np.where(better, damping / 5, damping * 3), 1e-14, 1e8)
    good = np.abs(value).max(axis=1) <= SETTLED * (1 + (u**2).sum(axis=1))
    return _distinct(np.array([sharpen(forms, each) for each in u[good]]).reshape(-1, k))


def sharpen(forms: Floats, u: Floats) -> Floats:
    """Refine a multiple zero, which Newton's method finds only approximately.

    Combinations of the forms whose gradient vanishes there have F(c)h = 0, a linear equation.
    """
    for _ in range(3):
        h = np.append(1.0, u)
        pushed = forms @ h
        left, s, _ = np.linalg.svd(2 * pushed[:, 1:], full_matrices=False)
        flat = np.tensordot(left[:, s < 1e-3].T, forms, 1)
        if len(flat) == 0:
            return u
        rows = np.concatenate([flat[:, :, 1:].reshape(-1, len(u)), 2 * pushed[:, 1:]])
        right = np.concatenate([(flat @ h).ravel(), pushed @ h])
        moved = u - np.linalg.lstsq(rows, right, rcond=1e-10)[0]
        error = np.abs(_residuals(forms, np.stack([u, moved]))[0]).max(axis=1)
        if not error[1] < error[0]:
            return u
        u = moved
    return u


def _residuals(forms: Floats, u: Floats) -> tuple[Floats, Floats]:
    h = np.concatenate([np.ones((len(u), 1)), u], axis=1)
    pushed = np.einsum("ijk,sk->sij", forms, h)
    return np.einsum("sij,sj->si", pushed, h), 2 * pushed[:, :, 1:]


def _distinct(points: Floats) -> Floats:
    chosen: list[Floats] = []
    for point in points:
        if all(
            np.linalg.norm(point - other) > 1e-5 * (1 + np.linalg.norm(point)) for other in chosen
        ):
            chosen.append(point)
    return np.array(chosen).reshape(-1, points.shape[1])


def lowest_common_zeros(forms: Floats, objective: Floats, points: Floats) -> Floats:
    """Local minima (s, k) of (1, u)ᵀ·objective·(1, u) on the common zeros, from given ones."""

    def value(form: Floats, u: Floats) -> float:
        h = np.append(1.0, u)
        return float(h @ form @ h)

    def slope(form: Floats, u: Floats) -> Floats:
        return np.asarray(2 * (form @ np.append(1.0, u))[1:])

    constraints = {
        "type": "eq",
        "fun": lambda u: np.array([value(form, u) for form in forms]),
        "jac": lambda u: np.array([slope(form, u) for form in forms]),
    }
    order = np.argsort([value(objective, u) for u in points])
    found = []
    for start in points[order[:12]]:
        result = optimize.minimize(
            lambda u: value(objective, u),
            start,
            jac=lambda u: slope(objective, u),
            constraints=constraints,
            method="SLSQP",
            options={"maxiter": 200, "ftol": 1e-15},
        )
        polished = polish(forms, objective, np.asarray(result.x))
        error = np.abs(_residuals(forms, polished[None])[0]).max()
        if error <= SETTLED * (1 + polished @ polished):
            found.append(polished)
    return _distinct(np.array(found).reshape(-1, points.shape[1]))


def polish(forms: Floats, objective: Floats, u: Floats) -> Floats:
    """Newton's method on the Lagrange conditions, least squares where they are degenerate."""
    k = len(u)
    for _ in range(8):
        h = np.append(1.0, u)
        pushed = forms @ h
        J, residual = 2 * pushed[:, 1:], pushed @ h
        gradient = 2 * (objective @ h)[1:]
        multipliers = np.linalg.lstsq(J.T, -gradient, rcond=1e-12)[0]
        hessian = 2 * (objective + np.tensordot(multipliers, forms, 1))[1:, 1:]
        system = np.block([[hessian, J.T], [J, np.zeros((len(J), len(J)))]])
        right = -np.concatenate([gradient + J.T @ multipliers, residual])
        step = np.linalg.lstsq(system, right, rcond=1e-13)[0][:k]
        if not np.isfinite(step).all() or np.linalg.norm(step) > 0.1 * (1 + np.linalg.norm(u)):
            break
        u = u + step
    return u


def is_near_a_zero(forms: Floats, u: Floats) -> bool:
    """Whether Newton's method from u is known to end at a common zero, within 1% of |u|.

    The theorem of Kantorovich for equations with a constant second derivative: it holds if
    ‖J⁺‖²·‖F‖·‖F''‖ < ½, with J of full row rank.
    """
    basis = independent_forms(forms, 1e-12 * (1 + np.abs(forms).max(axis=(1, 2))))
    value, jacobian = _residuals(basis, u[None])
    if len(basis) == 0 or len(basis) > len(u):
        return False
    smallest = float(np.linalg.svd(jacobian[0], compute_uv=False)[-1])
    residual = float(np.linalg.norm(value))
    curvature = 2 * float(np.linalg.norm(basis))
    if smallest <= 0:
        return False
    converges = residual * curvature < 0.5 * smallest**2
    return bool(converges and 2 * residual < 0.01 * smallest * np.linalg.norm(u))
