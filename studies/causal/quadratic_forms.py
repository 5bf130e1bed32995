"""Risks as quadratic forms, and what a quadratic equation says on an affine set of predictors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eqrm.errors import DomainDataError
from eqrm.linear import DomainMoments

Floats = NDArray[np.float64]

FLAT, ROUNDING = 1e-13, 1e-12
ZERO, CLEAR, UNSURE = 1e-9, 1e-6, 1e3


@dataclass(frozen=True)
class RiskForms:
    """q_e(w) = hᵀQ_e h with h = (1, w), one per domain; coefficients are centre + w·basisᵀ.

    ``forms`` is Q (E, k+1, k+1). In the coordinates w the mean of the E quadratic parts is the
    identity, and values are in units of ``unit``, so that "small" means the same everywhere.
    ``flat`` (d, d−k) holds the directions in which no domain has any variation, ``rounding``
    the relative error of the forms: it grows with the condition of the features.
    """

    forms: Floats
    centre: Floats
    basis: Floats
    flat: Floats
    unit: float
    rounding: float

    def coefficients(self, w: Floats) -> Floats:
        """The coefficients (intercept last, where there is one) at w (k,)."""
        return np.asarray(self.centre + self.basis @ w)


def risk_forms(moments: DomainMoments, intercept: bool) -> RiskForms:
    """R_e as a function of the coefficients, around the pooled least-squares ones."""
    size = moments.num_features + int(intercept)
    grams, cross, _ = residual_moments(moments, np.zeros(size), intercept)
    pooled = np.linalg.lstsq(grams.mean(axis=0), cross.mean(axis=0), rcond=1e-13)[0]
    grams, cross, squares = residual_moments(moments, pooled, intercept)
    return _standardise(grams, -cross, squares, pooled)


def excess_forms(moments: DomainMoments, causal: Floats, intercept: bool) -> RiskForms:
    """R_e(β̂) − R_e(β) around the causal β: the system of Assumption (v)."""
    grams, cross, squares = residual_moments(moments, causal, intercept)
    found = _standardise(grams, -cross, squares, causal)
    forms = found.forms.copy()
    forms[:, 0, 0] = 0.0
    return replace(found, forms=forms)


def residual_moments(
    moments: DomainMoments, coefficients: Floats, intercept: bool
) -> tuple[Floats, Floats, Floats]:
    """E[xxᵀ], E[xr] and E[r²] per domain, r = y − βᵀx − b; x ends with 1 if there is b.

    From centred moments, so that nothing large is subtracted from anything large.
    """
    d = moments.num_features
    mean, covariance = moments.mean.numpy(), moments.covariance.numpy()
    v = np.append(-coefficients[:d], 1.0)
    shift = mean @ v - (coefficients[d] if intercept else 0.0)
    spread = covariance @ v
    grams = covariance[:, :d, :d] + mean[:, :d, None] * mean[:, None, :d]
    cross = spread[:, :d] + mean[:, :d] * shift[:, None]
    squares = spread @ v + shift**2
    if intercept:
        corner = np.concatenate([mean[:, :d], np.ones((len(mean), 1))], axis=1)
        grams = np.concatenate([grams, corner[:, None, :d]], axis=1)
        grams = np.concatenate([grams, corner[:, :, None]], axis=2)
        cross = np.concatenate([cross, shift[:, None]], axis=1)
    return grams, cross, squares


def _standardise(grams: Floats, linear: Floats, constant: Floats, centre: Floats) -> RiskForms:
    """Choose coordinates in which the mean of the Gram matrices is the identity."""
    pooled = grams.mean(axis=0)
    scale = np.sqrt(np.where(np.diag(pooled) > 0, np.diag(pooled), 1.0))
    values, vectors = np.linalg.eigh(pooled / np.outer(scale, scale))
    solid = values > FLAT * max(float(values[-1]), 0.0)
    unit = float(constant.mean()) if constant.mean() > 0 else 1.0
    basis = vectors[:, solid] / np.sqrt(values[solid]) / scale[:, None] * np.sqrt(unit)
    flat = vectors[:, ~solid] / scale[:, None]
    k = basis.shape[1]
    forms = np.zeros((len(grams), k + 1, k + 1))
    forms[:, 0, 0] = constant / unit
    forms[:, 0, 1:] = forms[:, 1:, 0] = linear @ basis / unit
    quadratic = basis.T @ grams @ basis / unit
    forms[:, 1:, 1:] = (quadratic + quadratic.transpose(0, 2, 1)) / 2
    condition = float(values[-1] / values[solid].min()) if solid.any() else 1.0
    rounding = max(ROUNDING, 1e-15 * condition)
    return RiskForms(forms, centre, basis, flat, unit, rounding)


def check_moments(moments: Any) -> None:
    """Raise unless the argument is a DomainMoments."""
    if not isinstance(moments, DomainMoments):
        raise DomainDataError(
            "moments must be DomainMoments, for example from DomainMoments.from_arrays(X, y, "
            f"domains), got {type(moments).__name__}."
        )


def as_floats(values: Any) -> Floats:
    """A float64 array from numbers or a tensor."""
    try:
        tensor = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise DomainDataError(f"Coefficients must be numbers, got {values!r}.") from None
    if not bool(torch.isfinite(tensor).all()):
        raise DomainDataError(f"Coefficients must be finite numbers, got {values!r}.")
    return np.asarray(tensor.numpy(), dtype=np.float64)


@dataclass(frozen=True)
class Piece:
    """The affine set {w : (1, w) = map·(1, u)}, map (K+1, k+1) with first row (1, 0, …, 0)."""

    map: Floats

    @classmethod
    def everything(cls, size: int) -> Piece:
        """All of R^size."""
        return cls(np.eye(size + 1))

    @property
    def dimension(self) -> int:
        """k: 0 for a point."""
        return int(self.map.shape[1]) - 1

    def restrict(self, forms: Floats) -> Floats:
        """The quadratic forms (…, K+1, K+1) on this piece (…, k+1, k+1)."""
        restricted = self.map.T @ forms @ self.map
        return np.asarray((restricted + np.swapaxes(restricted, -1, -2)) / 2)

    def point(self, u: Floats) -> Floats:
        """w (K,) at the piece's own coordinates u (k,)."""
        return np.asarray(self.map[1:, 0] + self.map[1:, 1:] @ u)

    def within(self, kernel: Floats) -> Piece | None:
        """The part of the piece whose (1, u) lies in the span of ``kernel`` (k+1, r); None: empty.

        The basis must be orthonormal.
        """
        first = kernel[0]
        size = float(np.linalg.norm(first))
        if size < ZERO:
            return None
        anchor = kernel @ first / size**2
        rest = kernel @ orthogonal_to((first / size)[:, None], len(first))
        # Directions orthonormal in w, so that what is small stays small.
        directions, _ = np.linalg.qr(self.map[:, 1:] @ rest[1:])
        return Piece(np.column_stack([self.map @ anchor, directions]))


def orthogonal_to(basis: Floats, size: int) -> Floats:
    """An orthonormal basis (size, size − r) of what is orthogonal to an orthonormal (size, r)."""
    q, _ = np.linalg.qr(np.concatenate([basis, np.eye(size)], axis=1))
    return np.asarray(q[:, basis.shape[1] : size])


def kernel_of_row(row: Floats) -> Floats:
    """An orthonormal basis of {h : row·h = 0}."""
    return orthogonal_to((row / np.linalg.norm(row))[:, None], len(row))


@dataclass(frozen=True)
class FormShape:
    """The eigenvalues of a form, sorted into positive, negative and zero, or "unclear"."""

    kind: str  # "zero", "semidefinite", "two factors", "indefinite", "unclear"
    rank: int
    values: Floats
    vectors: Floats


def form_shape(form: Floats, noise: float) -> FormShape:
    """What the equation hᵀ·form·h = 0 says; ``noise`` is the rounding error of the entries."""
    values, vectors = np.linalg.eigh(form)
    size = float(np.abs(values).max())
    if size <= noise:
        return FormShape("zero", 0, values, vectors)
    if size <= UNSURE * noise:
        return FormShape("unclear", 0, values, vectors)
    zero = np.abs(values) <= max(ZERO * size, noise)
    clear = np.abs(values) >= max(CLEAR * size, 10 * noise)
    if not (zero | clear).all():
        return FormShape("unclear", 0, values, vectors)
    positive, negative = int((clear & (values > 0)).sum()), int((clear & (values < 0)).sum())
    kind = "indefinite"
    if positive == 0 or negative == 0:
        kind = "semidefinite"
    elif positive == negative == 1:
        kind = "two factors"
    return FormShape(kind, positive + negative, np.where(zero, 0.0, values), vectors)


def kernel_of(shape: FormShape) -> Floats:
    """{h : form·h = 0}, all that a semidefinite form allows."""
    return np.asarray(shape.vectors[:, shape.values == 0])


def factors_of(shape: FormShape) -> tuple[Floats, Floats]:
    """The rows a, b with form = (abᵀ + baᵀ)/2 of a form with one positive, one negative value."""
    up, down = int(shape.values.argmax()), int(shape.values.argmin())
    plus = np.sqrt(shape.values[up]) * shape.vectors[:, up]
    minus = np.sqrt(-shape.values[down]) * shape.vectors[:, down]
    return plus + minus, plus - minus
