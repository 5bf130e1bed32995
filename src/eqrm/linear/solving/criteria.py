"""What a linear solver minimises, with its gradient and Hessian in the parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from eqrm.linear.solving.measures import Local, Measure
from eqrm.linear.solving.risk_functions import Array, Quadratics, RiskFunctions


class Point(ABC):
    """A criterion plus Σ l2_j θ_j² at one θ: the value at once, derivatives when asked for."""

    def __init__(self, theta: Array, value: float, l2: Array) -> None:
        self.theta, self.l2 = theta, l2
        self.value = value + float(l2 @ (theta * theta))

    @abstractmethod
    def _own_gradient(self) -> Array:
        """Without the penalty, (p,)."""

    @abstractmethod
    def _own_hessian(self) -> Array:
        """Without the penalty, (p, p)."""

    @cached_property
    def gradient(self) -> Array:
        """(p,)."""
        found: Array = self._own_gradient() + 2.0 * self.l2 * self.theta
        return found

    @cached_property
    def hessian(self) -> Array:
        """(p, p), symmetric."""
        total = self._own_hessian()
        return 0.5 * (total + total.T) + np.diag(2.0 * self.l2)


class Criterion(ABC):
    """A function of θ that Newton's method can minimise."""

    @abstractmethod
    def at(self, theta: Array) -> Point:
        """Value and derivatives at θ."""


@dataclass(frozen=True)
class MeasureOfRisks(Criterion):
    """A measure of the domains' risks, plus Σ l2_j θ_j²; kinks rounded off by ``smoothing``."""

    risks: RiskFunctions
    measure: Measure
    l2: Array
    smoothing: float = 0.0

    def smoothed(self, smoothing: float) -> MeasureOfRisks:
        """The same with another smoothing."""
        return replace(self, smoothing=smoothing)

    def at(self, theta: Array) -> Point:
        return _MeasuredPoint(self, theta)


class _MeasuredPoint(Point):
    """:class:`MeasureOfRisks` at one θ."""

    def __init__(self, criterion: MeasureOfRisks, theta: Array) -> None:
        self.risks = criterion.risks.at(theta)
        mean, spread = self.risks.mean, self.risks.spread
        self.local: Local = criterion.measure.at(mean, spread, criterion.smoothing)
        super().__init__(theta, self.local.value, criterion.l2)

    @cached_property
    def _slopes(self) -> tuple[Array, Array]:
        return self.risks.slopes

    def _own_gradient(self) -> Array:
        mean_slope, slopes = self._slopes
        weights = self.local.slope
        found: Array = float(weights.sum()) * mean_slope + weights @ slopes
        return found

    def _own_hessian(self) -> Array:
        return self.risks.weighted_hessian(self.local.slope) + self.local.curvature(*self._slopes)


@dataclass(frozen=True)
class MeanPlusSquares(Criterion):
    """mean R_e + λ·mean g_e² + Σ l2_j θ_j², for quadratics R_e and g_e (IRMv1)."""

    risks: Quadratics
    penalised: Quadratics
    penalty_weight: float
    l2: Array

    def at(self, theta: Array) -> Point:
        return _PenalisedPoint(self, theta)


class _PenalisedPoint(Point):
    """:class:`MeanPlusSquares` at one θ."""

    def __init__(self, criterion: MeanPlusSquares, theta: Array) -> None:
        self.criterion = criterion
        self._penalised = criterion.penalised.at(theta)
        self.terms = self._penalised.mean + self._penalised.spread
        penalty = criterion.penalty_weight * float(self.terms @ self.terms) / len(self.terms)
        super().__init__(theta, criterion.risks.mean_risk(theta) + penalty, criterion.l2)

    @cached_property
    def _penalised_slopes(self) -> Array:
        mean_slope, slopes = self._penalised.slopes
        return mean_slope + slopes

    @property
    def _factor(self) -> float:
        return 2.0 * self.criterion.penalty_weight / len(self.terms)

    def _own_gradient(self) -> Array:
        mean_slope = self.criterion.risks.mean_slope(self.theta)
        found: Array = mean_slope + self._factor * (self.terms @ self._penalised_slopes)
        return found

    def _own_hessian(self) -> Array:
        slopes = self._penalised_slopes
        curved = slopes.T @ slopes * self._factor
        curved += self._penalised.weighted_hessian(self._factor * self.terms)
        found: Array = 2.0 * self.criterion.risks.mean[0] + curved
        return found
