"""What a linear solver minimises, with its gradient and Hessian in the parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from eqrm.linear.solving.measures import Local, Measure
from eqrm.linear.solving.quadratics import Array, Quadratics
from eqrm.linear.solving.risk_functions import RiskFunctions


class Point(ABC):
    """A criterion at one θ: the value at once, derivatives when they are asked for."""

    theta: Array
    value: float

    @property
    @abstractmethod
    def gradient(self) -> Array:
        """(p,)."""

    @property
    @abstractmethod
    def hessian(self) -> Array:
        """(p, p), symmetric."""


class Criterion(ABC):
    """A function of θ that Newton's method can minimise."""

    @abstractmethod
    def at(self, theta: Array) -> Point:
        """Value and derivatives at θ."""


@dataclass(frozen=True)
class MeasureOfRisks(Criterion):
    """A measure of the domains' risks, plus Σ ridge_j θ_j²; kinks rounded off by ``smoothing``."""

    risks: RiskFunctions
    measure: Measure
    ridge: Array
    smoothing: float = 0.0

    def smoothed(self, smoothing: float) -> MeasureOfRisks:
        """The same with another smoothing."""
        return replace(self, smoothing=smoothing)

    def at(self, theta: Array) -> MeasuredPoint:
        return MeasuredPoint(self, theta)


class MeasuredPoint(Point):
    """:class:`MeasureOfRisks` at one θ."""

    def __init__(self, criterion: MeasureOfRisks, theta: Array) -> None:
        self.criterion, self.theta = criterion, theta
        self.risks = criterion.risks.at(theta)
        self.local: Local = criterion.measure.at(
            self.risks.mean, self.risks.spread, criterion.smoothing
        )
        self.value = self.local.value + float(criterion.ridge @ (theta * theta))

    @cached_property
    def _slopes(self) -> tuple[Array, Array]:
        return self.risks.slopes

    @cached_property
    def gradient(self) -> Array:
        mean_slope, slopes = self._slopes
        weights = self.local.slope
        along = float(weights.sum()) * mean_slope + weights @ slopes
        found: Array = along + 2.0 * self.criterion.ridge * self.theta
        return found

    @cached_property
    def hessian(self) -> Array:
        mean_slope, slopes = self._slopes
        of_risks = self.risks.weighted_hessian(self.local.slope)
        total = of_risks + self.local.curvature(mean_slope, slopes)
        return 0.5 * (total + total.T) + np.diag(2.0 * self.criterion.ridge)


@dataclass(frozen=True)
class MeanPlusSquares(Criterion):
    """mean R_e + λ·mean g_e² + Σ ridge_j θ_j², for quadratics R_e and g_e (IRMv1)."""

    risks: Quadratics
    penalised: Quadratics
    penalty_weight: float
    ridge: Array

    def at(self, theta: Array) -> PenalisedPoint:
        return PenalisedPoint(self, theta)


class PenalisedPoint(Point):
    """:class:`MeanPlusSquares` at one θ."""

    def __init__(self, criterion: MeanPlusSquares, theta: Array) -> None:
        self.criterion, self.theta = criterion, theta
        self._bend = criterion.penalised.bend(theta)
        spread = criterion.penalised.spread(theta, self._bend)
        self.terms = criterion.penalised.mean_risk(theta) + spread
        penalty = criterion.penalty_weight * float(self.terms @ self.terms) / len(self.terms)
        shrinkage = float(criterion.ridge @ (theta * theta))
        self.value = criterion.risks.mean_risk(theta) + penalty + shrinkage

    @cached_property
    def _penalised_slopes(self) -> Array:
        mean_slope, slopes = self.criterion.penalised.slopes(self.theta, self._bend)
        return mean_slope + slopes

    @property
    def _factor(self) -> float:
        return 2.0 * self.criterion.penalty_weight / len(self.terms)

    @cached_property
    def gradient(self) -> Array:
        mean_slope, _ = self.criterion.risks.slopes(self.theta)
        penalty = self._factor * (self.terms @ self._penalised_slopes)
        found: Array = mean_slope + penalty + 2.0 * self.criterion.ridge * self.theta
        return found

    @cached_property
    def hessian(self) -> Array:
        slopes = self._penalised_slopes
        curved = slopes.T @ slopes * self._factor
        curved += self.criterion.penalised.weighted_hessian(self._factor * self.terms)
        total = 2.0 * self.criterion.risks.mean[0] + curved
        return 0.5 * (total + total.T) + np.diag(2.0 * self.criterion.ridge)
