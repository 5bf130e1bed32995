"""Squared error over linear predictors: the risk of every domain as a quadratic function.

With v = (β, −1) the residual of a linear predictor is vᵀ(x, y) + b, so a domain's risk is
R_e(θ) = θᵀA_eθ − 2b_eᵀθ + c_e in the free parameters θ: the coefficients and, where there is
one, the prediction at the mean of the features.

All quadratics are kept as their mean over domains and the deviations from it. As α → 1 the
risks of all domains become almost the same; from deviations, their spread keeps its digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eqrm.linear.solving.risk_functions import Array, RiskFunctions, RisksAt

if TYPE_CHECKING:
    from eqrm.linear.moments.domain_moments import DomainMoments

__all__ = ["Array", "Coordinates", "Quadratics", "centred", "risk_quadratics"]


@dataclass(frozen=True)
class Quadratics(RiskFunctions):
    """m quadratics in p parameters: ``mean`` is (A, b, c), ``deviations`` those of each domain.

    A is (p, p), b (p,) and c a number; the deviations are (m, p, p), (m, p) and (m,), and sum
    to 0 over domains.

    >>> one = np.ones((2, 1))
    >>> two = Quadratics.of(one[:, :, None], np.array([[0.0], [1.0]]), np.array([0.0, 1.0]))
    >>> two.risks(np.array([3.0]))  # θ² and (θ − 1)²
    array([9., 4.])
    """

    mean: tuple[Array, Array, float]
    deviations: tuple[Array, Array, Array]

    @classmethod
    def of(cls, squares: Array, products: Array, constants: Array) -> Quadratics:
        """From A_e (m, p, p), b_e (m, p) and c_e (m,)."""
        (A, dA), (b, db), (c, dc) = (centred(part) for part in (squares, products, constants))
        return cls((A, b, float(c)), (dA, db, dc))

    @property
    def domains(self) -> int:
        """m."""
        return len(self.deviations[2])

    @property
    def parameters(self) -> int:
        """p."""
        return len(self.mean[1])

    def at(self, theta: Array) -> QuadraticsAt:
        """The risks at θ."""
        return QuadraticsAt(self, theta)

    def mean_risk(self, theta: Array) -> float:
        """R̄(θ), every domain counted once."""
        A, b, c = self.mean
        return float(theta @ (A @ theta - 2.0 * b) + c)

    def bend(self, theta: Array) -> Array:
        """(A_e − Ā)θ, shape (m, p): the one large product, of which spread and slopes are made."""
        dA, db, _ = self.deviations
        # As one product of a long matrix: BLAS reads it once.
        return (dA.reshape(-1, len(theta)) @ theta).reshape(db.shape)

    def spread(self, theta: Array, bend: Array | None = None) -> Array:
        """R_e(θ) − R̄(θ), shape (m,)."""
        _, db, dc = self.deviations
        bend = self.bend(theta) if bend is None else bend
        found: Array = (bend - 2.0 * db) @ theta + dc
        return found

    def risks(self, theta: Array) -> Array:
        """R_e(θ), shape (m,)."""
        return self.mean_risk(theta) + self.spread(theta)

    def slopes(self, theta: Array, bend: Array | None = None) -> tuple[Array, Array]:
        """∇R̄ (p,) and ∇R_e − ∇R̄ (m, p)."""
        (A, b, _), (_, db, _) = self.mean, self.deviations
        bend = self.bend(theta) if bend is None else bend
        return 2.0 * (A @ theta - b), 2.0 * (bend - db)

    def weighted_hessian(self, weights: Array) -> Array:
        """Σ g_e ∇²R_e for weights g (m,) that need not sum to 1."""
        A, dA = self.mean[0], self.deviations[0].reshape(len(weights), -1)
        kept = np.flatnonzero(weights)
        if 2 * len(kept) < len(weights):
            pulled = weights[kept] @ dA[kept]
        else:
            pulled = weights @ dA
        found: Array = 2.0 * (float(weights.sum()) * A + pulled.reshape(A.shape))
        return found

    def minimiser_of_mean(self, weights: Array | None = None, ridge: Array | None = None) -> Array:
        """θ of the least weighted mean risk, Σ g_e(A_eθ − b_e) + diag(ridge)θ = 0."""
        (A, b, _), (dA, db, _) = self.mean, self.deviations
        if weights is not None:
            A = A + (weights @ dA.reshape(len(dA), -1)).reshape(A.shape)
            b = b + weights @ db
        if ridge is not None:
            A = A + np.diag(ridge)
        return np.asarray(np.linalg.solve(A, b), dtype=np.float64)


class QuadraticsAt(RisksAt):
    """:class:`Quadratics` at one θ."""

    def __init__(self, quadratics: Quadratics, theta: Array) -> None:
        self.quadratics, self.theta = quadratics, theta
        self.mean = quadratics.mean_risk(theta)
        self._bend = quadratics.bend(theta)
        self.spread = quadratics.spread(theta, self._bend)

    @property
    def slopes(self) -> tuple[Array, Array]:
        return self.quadratics.slopes(self.theta, self._bend)

    def weighted_hessian(self, weights: Array) -> Array:
        return self.quadratics.weighted_hessian(weights)


def centred(values: Array) -> tuple[Array, Array]:
    """The mean over the first dimension and the deviations from it.

    Differences to the first domain are exact, so entries that all domains share deviate by 0.

    >>> centred(np.array([0.1, 0.1, 0.1]))[1]
    array([0., 0., 0.])
    """
    deviations = values - values[0]
    shift = deviations.mean(axis=0)
    deviations -= shift
    return values[0] + shift, deviations


@dataclass(frozen=True)
class Coordinates:
    """How θ and the predictor correspond: ``centre`` (d+1,) holds the mean of (x, y).

    With an intercept the last parameter is the mean residual βᵀx̄ + b − ȳ at the centre, which
    keeps it apart from the slopes; without one, θ is β.
    """

    centre: Array
    intercept: bool

    def parameters(self, coefficients: Array, intercept: float = 0.0) -> Array:
        """θ of a predictor."""
        if not self.intercept:
            return coefficients
        residual = float(coefficients @ self.centre[:-1]) + intercept - float(self.centre[-1])
        return np.append(coefficients, residual)

    def predictor(self, theta: Array) -> tuple[Array, float]:
        """β and b of a θ."""
        if not self.intercept:
            return theta, 0.0
        beta = theta[:-1]
        return beta, float(theta[-1] + self.centre[-1] - beta @ self.centre[:-1])

    def ridge(self, strength: float, parameters: int) -> Array:
        """The penalty of each parameter: the coefficients alone are shrunk."""
        found = np.full(parameters, float(strength))
        if self.intercept:
            found[-1] = 0.0
        return found


def risk_quadratics(moments: DomainMoments, intercept: bool) -> tuple[Quadratics, Coordinates]:
    """The risks of all domains as functions of the free parameters."""
    second, centre = _second_moments(moments, intercept)
    # u = (β, −1[, residual at the centre]): split the known −1 from the free parameters.
    d = len(moments.features)
    free = [i for i in range(second.shape[-1]) if i != d]
    squares = np.ascontiguousarray(second[:, free][:, :, free])
    products = np.ascontiguousarray(second[:, free, d])
    return (
        Quadratics.of(squares, products, second[:, d, d].copy()),
        Coordinates(centre, intercept),
    )


def scale_slope_quadratics(moments: DomainMoments, intercept: bool) -> Quadratics:
    """g_e(θ) = d/dw R_e(w·f) at w = 1, of IRMv1: 2E[f(f − y)] = 2(R_e + E[y(f − y)])."""
    second, centre = _second_moments(moments, intercept)
    d = len(moments.features)
    free = [i for i in range(second.shape[-1]) if i != d]
    # E[y·r] = Σ_j u_j E[y·(part j)], with y = (y − ȳ) + ȳ where things are centred.
    with_target = second[:, d, :].copy()
    if intercept:
        with_target += float(centre[-1]) * second[:, -1, :]
    squares = 2.0 * second[:, free][:, :, free]
    products = 2.0 * second[:, free, d] - with_target[:, free]
    constants = 2.0 * (second[:, d, d] - with_target[:, d])
    return Quadratics.of(squares, products, constants)


def _second_moments(moments: DomainMoments, intercept: bool) -> tuple[Array, Array]:
    """E[uuᵀ] per domain, of (x, y) or of (x − x̄, y − ȳ, 1), and the centre."""
    mean, covariance = moments.mean.numpy(), moments.covariance.numpy()
    if not intercept:
        return covariance + mean[:, :, None] * mean[:, None, :], np.zeros(mean.shape[1])
    centre, away = centred(mean)
    m, k = mean.shape
    second = np.empty((m, k + 1, k + 1))
    second[:, :k, :k] = covariance + away[:, :, None] * away[:, None, :]
    second[:, :k, k] = second[:, k, :k] = away
    second[:, k, k] = 1.0
    return second, centre
