"""The risks of all domains as functions of parameters: what Newton's method needs of them.

:class:`RiskFunctions` is the interface; any loss that can be differentiated twice will do. Squared
error over linear predictors gives :class:`Quadratics`: with v = (β, −1) the residual is
vᵀ(x, y) + b, so a domain's risk is R_e(θ) = θᵀA_eθ − 2b_eᵀθ + c_e in the free parameters θ: the
coefficients and, where there is one, the prediction at the mean of the features.

All quadratics are kept as their mean over domains and the deviations from it. As α → 1 the
risks of all domains become almost the same; from deviations, their spread keeps its digits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eqrm.linear.domain_moments import DomainMoments

Array = npt.NDArray[np.float64]


class RisksAt(ABC):
    """The risks of m domains at one θ (p,): ``mean`` R̄ and ``spread`` R_e − R̄ (m,)."""

    mean: float
    spread: Array
    slopes: tuple[Array, Array]
    """∇R̄ (p,) and ∇R_e − ∇R̄ (m, p)."""

    @abstractmethod
    def weighted_hessian(self, weights: Array) -> Array:
        """Σ g_e ∇²R_e for weights g (m,) that need not sum to 1."""


class RiskFunctions(ABC):
    """The risks of m domains in p parameters."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """p."""

    @abstractmethod
    def at(self, theta: Array) -> RisksAt:
        """The risks at θ, with derivatives when they are asked for."""


@dataclass(frozen=True)
class Quadratics(RiskFunctions):
    """m quadratics in p parameters: ``mean`` is (A, b, c), ``deviations`` those of each domain.

    A is (p, p), b (p,) and c a number; the deviations are (m, p, p), (m, p) and (m,), and sum
    to 0 over domains.
    """

    mean: tuple[Array, Array, float]
    deviations: tuple[Array, Array, Array]

    @classmethod
    def of(cls, squares: Array, products: Array, constants: Array) -> Quadratics:
        """From A_e (m, p, p), b_e (m, p) and c_e (m,)."""
        (A, dA), (b, db), (c, dc) = (centred(part) for part in (squares, products, constants))
        return cls((A, b, float(c)), (dA, db, dc))

    def followed_by(self, other: Quadratics) -> Quadratics:
        """These quadratics and then the others, in the same parameters."""
        (A, b, c), (dA, db, dc) = self.mean, self.deviations
        (B, e, f), (dB, de, df) = other.mean, other.deviations
        return Quadratics.of(
            np.concatenate([A + dA, B + dB]),
            np.concatenate([b + db, e + de]),
            np.concatenate([c + dc, f + df]),
        )

    @property
    def parameters(self) -> int:
        return len(self.mean[1])

    def at(self, theta: Array) -> QuadraticsAt:
        return QuadraticsAt(self, theta)

    def mean_risk(self, theta: Array) -> float:
        """R̄(θ), every domain counted once."""
        A, b, c = self.mean
        return float(theta @ (A @ theta - 2.0 * b) + c)

    def minimiser_of_mean(self, l2: Array) -> Array:
        """θ of the least mean risk plus Σ l2_j θ_j²: Āθ − b̄ + diag(l2)θ = 0."""
        A, b, _ = self.mean
        return np.asarray(np.linalg.solve(A + np.diag(l2), b), dtype=np.float64)


class QuadraticsAt(RisksAt):
    """:class:`Quadratics` at one θ."""

    def __init__(self, quadratics: Quadratics, theta: Array) -> None:
        self.quadratics, self.theta = quadratics, theta
        dA, db, dc = quadratics.deviations
        # (A_e − Ā)θ, as one product of a long matrix: BLAS reads it once.
        self._bend = (dA.reshape(-1, len(theta)) @ theta).reshape(db.shape)
        self.mean = quadratics.mean_risk(theta)
        self.spread: Array = (self._bend - 2.0 * db) @ theta + dc

    @cached_property
    def slopes(self) -> tuple[Array, Array]:  # type: ignore[override]
        (A, b, _), (_, db, _) = self.quadratics.mean, self.quadratics.deviations
        return 2.0 * (A @ self.theta - b), 2.0 * (self._bend - db)

    def weighted_hessian(self, weights: Array) -> Array:
        A, dA = self.quadratics.mean[0], self.quadratics.deviations[0].reshape(len(weights), -1)
        kept = np.flatnonzero(weights)
        if 2 * len(kept) < len(weights):
            pulled = weights[kept] @ dA[kept]
        else:
            pulled = weights @ dA
        return 2.0 * (float(weights.sum()) * A + pulled.reshape(A.shape))


def centred(values: Array) -> tuple[Array, Array]:
    """The mean over the first dimension and the deviations from it.

    Differences to the first domain are exact, so entries that all domains share deviate by 0.
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

    def l2(self, strength: float, parameters: int) -> Array:
        """The penalty of each parameter: of the coefficients, not of the intercept."""
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
    mean, covariance = moments.mean, moments.covariance
    if not intercept:
        return covariance + mean[:, :, None] * mean[:, None, :], np.zeros(mean.shape[1])
    centre, away = centred(mean)
    m, k = mean.shape
    second = np.empty((m, k + 1, k + 1))
    second[:, :k, :k] = covariance + away[:, :, None] * away[:, None, :]
    second[:, :k, k] = second[:, k, :k] = away
    second[:, k, k] = 1.0
    return second, centre
