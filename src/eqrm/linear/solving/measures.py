"""Measures of the risks, with exact first and second derivatives.

A measure maps the risks of m domains to the number that is minimised: their α-quantile, their
superquantile, their mean, or mean plus variance. Newton's method needs, besides its value, the
slope g_e in each risk and what its curvature contributes to the Hessian in the parameters,

    ∇²q = Σ g_e ∇²R_e + Jᵀ(∂²q/∂R²)J,    J the (m, p) matrix of the risks' gradients.

Laws with a spread σ̂ have a kink where all risks are equal, and the empirical law
has kinks everywhere. ``smoothing`` δ rounds them off: σ̂ becomes √(σ̂² + δ²), and a step of the
empirical law becomes a kernel of width δ. The solver lets δ go to 0.

Kernel density estimates and the empirical law are in :mod:`eqrm.linear.solving.kernel_measures`;
:class:`~eqrm.linear.solving.kernel_measures.MeasureChoice` finds the measure of a distribution.
:class:`MeasureOfRisks` is what a solver minimises: a measure plus a penalty, with derivatives.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dnrm2

from eqrm.level import Level
from eqrm.linear.solving.risk_functions import Array, RiskFunctions

DEEPEST = Level(log_tail=-1000.0)
"""Where risks are made equal, no deeper level is needed to do so."""
REACHABLE = 1e36
"""Deeper than log(1−α) = −1e36, coefficients differ by less than float64 can tell."""
EQUAL = 1e-100
"""Risks whose spread is below this part of their mean are equal: their curvature overflows."""

Curvature = Callable[[Array, Array], Array]
"""∇R̄ (p,) and ∇R_e − ∇R̄ (m, p) to Jᵀ(∂²q/∂R²)J (p, p)."""


@dataclass(frozen=True)
class Local:
    """A measure around one vector of risks: its value, its slope g (m,) and its curvature."""

    value: float
    slope: Array
    curvature: Curvature


class Measure(ABC):
    """A number made of the risks of m domains."""

    has_kinks: bool = False
    """Whether it is smooth only with δ > 0."""
    is_smooth: bool = False
    """Whether it is smooth even where all risks are equal."""
    may_fall_without_end: bool = False
    """Whether it can lie below every risk, and so have no minimum over predictors."""
    weight_limit: float | None = None
    """c, if it is the largest Σ λ_e R_e over weights 0 ≤ λ_e ≤ c that sum to 1. Then it is convex
    in convex risks, and :mod:`eqrm.linear.solving.interior_point` minimises it."""

    def milder(self) -> Measure:
        """The same measure at a level not deeper than log(1−α) = −1000.

        Where it has a minimum with all risks equal, the deeper one has it too: it is nowhere
        lower, and the same there. And it is not yet drowned by the rounding of the risks.
        """
        return self

    def approach(self) -> Sequence[Measure]:
        """The same measure at ever deeper levels, from :meth:`milder` to itself.

        The minimiser moves little from one to the next, so that Newton's method can follow it
        to levels at which it would stop anywhere on the kink.
        """
        return (self,)

    @abstractmethod
    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        """Around the risks ``mean + spread`` (m,); the spread sums to 0."""


def deeper_steps(start: float, goal: float) -> list[float]:
    """start, 10·start, 100·start … below ``goal``; nothing towards one that is out of reach."""
    found: list[float] = []
    while start < goal <= REACHABLE:
        found.append(start)
        start *= 10.0
    return found


def no_curvature(mean_slope: Array, slopes: Array) -> Array:
    """Of a measure that is linear in the risks."""
    return np.zeros((slopes.shape[1], slopes.shape[1]))


class Mean(Measure):
    """Σ p_e R_e; equal weights unless others are given."""

    def __init__(self, weights: Array | None = None) -> None:
        self.weights = weights

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        equal = np.full(len(spread), 1.0 / len(spread))
        weights = equal if self.weights is None else self.weights
        return Local(mean + float(weights @ spread), weights, no_curvature)


class MeanPlusVariance(Measure):
    """R̄ + β·Σ(R_e − R̄)²/m, the objective of VREx."""

    def __init__(self, penalty_weight: float) -> None:
        self.penalty_weight = penalty_weight

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        m = len(spread)
        factor = 2.0 * self.penalty_weight / m
        value = mean + 0.5 * factor * float(spread @ spread)

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            return factor * (slopes.T @ slopes)

        return Local(value, 1.0 / m + factor * spread, curvature)


class Spread:
    """s = √(σ̂² + δ²) of centred risks x: ∇s = x/((m−1)s), and the curvature of s."""

    def __init__(self, spread: Array, smoothing: float) -> None:
        self.std = float(dnrm2(spread)) / math.sqrt(len(spread) - 1)
        self.size = math.hypot(self.std, smoothing)
        self.freedom = len(spread) - 1
        self.slope = spread / self.size / self.freedom if self.size > 0.0 else 0.0 * spread

    def curvature(self, slopes: Array) -> Array:
        """Σ(∇R_e−∇R̄)(∇R_e−∇R̄)ᵀ/((m−1)s) − ∇s∇sᵀ/s."""
        along = self.slope @ slopes
        return (slopes.T @ slopes / self.freedom - np.outer(along, along)) / self.size


class MeanPlusDeviations(Measure):
    """R̄ + c·σ̂: the Gaussian quantile for c = Φ⁻¹(α), its superquantile for c = φ/(1−α)."""

    def __init__(self, deviations: float) -> None:
        self.deviations = deviations
        self.may_fall_without_end = deviations < 0.0

    def milder(self) -> Measure:
        deepest = DEEPEST.tail_mean
        return self if self.deviations <= deepest else MeanPlusDeviations(deepest)

    def approach(self) -> Sequence[Measure]:
        deepest = DEEPEST.tail_mean
        return [*map(MeanPlusDeviations, deeper_steps(deepest, self.deviations)), self]

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        m, c = len(spread), self.deviations
        found = Spread(spread, smoothing)
        if found.size <= EQUAL * abs(mean):
            return Mean().at(mean, spread)

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            return c * found.curvature(slopes)

        return Local(mean + c * found.size, 1.0 / m + c * found.slope, curvature)


class MeanPlusSquares(Measure):
    """R̄ + λ·Σ g_e²/m of m risks R_e and then m values g_e (IRMv1)."""

    is_smooth = True

    def __init__(self, penalty_weight: float) -> None:
        self.penalty_weight = penalty_weight

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        m = len(spread) // 2
        factor = 2.0 * self.penalty_weight / m
        squared = mean + spread[m:]
        value = mean + float(spread[:m].mean() + 0.5 * factor * (squared @ squared))

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            own = mean_slope + slopes[m:]
            return factor * (own.T @ own)

        return Local(value, np.append(np.full(m, 1.0 / m), factor * squared), curvature)


@dataclass(frozen=True)
class MeasureOfRisks:
    """What a solver minimises: a measure of the domains' risks plus Σ l2_j θ_j².

    Kinks are rounded off by ``smoothing``.
    """

    risks: RiskFunctions
    measure: Measure
    l2: Array
    smoothing: float = 0.0

    def at(self, theta: Array) -> Point:
        """Value and derivatives at θ."""
        return Point(self, theta)


class Point:
    """:class:`MeasureOfRisks` at one θ: the value at once, derivatives when asked for."""

    def __init__(self, criterion: MeasureOfRisks, theta: Array) -> None:
        self.theta, self.l2 = theta, criterion.l2
        self.risks = criterion.risks.at(theta)
        mean, spread = self.risks.mean, self.risks.spread
        self.local = criterion.measure.at(mean, spread, criterion.smoothing)
        self.value = self.local.value + float(self.l2 @ (theta * theta))

    @cached_property
    def gradient(self) -> Array:
        """(p,)."""
        mean_slope, slopes = self.risks.slopes
        weights = self.local.slope
        own = float(weights.sum()) * mean_slope + weights @ slopes
        return own + 2.0 * self.l2 * self.theta

    @cached_property
    def hessian(self) -> Array:
        """(p, p), symmetric."""
        total = self.risks.weighted_hessian(self.local.slope)
        total = total + self.local.curvature(*self.risks.slopes)
        return 0.5 * (total + total.T) + np.diag(2.0 * self.l2)
