"""Risks as quadratic functions of the coefficients, in coordinates fit for numerical work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eqrm.errors import DomainDataError
from eqrm.linear.moments.domain_moments import DomainMoments

Floats = NDArray[np.float64]

FLAT = 1e-13
ROUNDING = 1e-12


@dataclass(frozen=True)
class Quadratics:
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


def risk_quadratics(moments: DomainMoments, intercept: bool) -> Quadratics:
    """R_e as a function of the coefficients, around the pooled least-squares ones."""
    size = moments.num_features + int(intercept)
    grams, cross, _ = residual_moments(moments, np.zeros(size), intercept)
    pooled = np.linalg.lstsq(grams.mean(axis=0), cross.mean(axis=0), rcond=1e-13)[0]
    grams, cross, squares = residual_moments(moments, pooled, intercept)
    return standardise(grams, -cross, squares, pooled)


def excess_quadratics(moments: DomainMoments, causal: Floats, intercept: bool) -> Quadratics:
    """R_e(β̂) − R_e(β) around the causal β: the system of Assumption (v)."""
    grams, cross, squares = residual_moments(moments, causal, intercept)
    quadratics = standardise(grams, -cross, squares, causal)
    forms = quadratics.forms.copy()
    forms[:, 0, 0] = 0.0
    return replace(quadratics, forms=forms)


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


def standardise(grams: Floats, linear: Floats, constant: Floats, centre: Floats) -> Quadratics:
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
    return Quadratics(forms, centre, basis, flat, unit, rounding)


def check_moments(moments: Any) -> None:
    """Refuse anything but moments."""
    if not isinstance(moments, DomainMoments):
        raise DomainDataError(
            "DomainMoments are needed, as from DomainMoments.from_arrays(X, y, domains), but "
            f"{type(moments).__name__} came."
        )


def as_floats(values: Any) -> Floats:
    """A float64 array of numbers, of tensors too."""
    try:
        tensor = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise DomainDataError(f"Coefficients must be numbers, but {values!r} came.") from None
    if not bool(torch.isfinite(tensor).all()):
        raise DomainDataError(f"Coefficients must be finite numbers, but {values!r} came.")
    return np.asarray(tensor.numpy(), dtype=np.float64)
