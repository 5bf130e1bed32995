"""Measures of the risks, with exact first and second derivatives.

A measure maps the risks of m domains to the number that is minimised: their α-quantile, their
superquantile, their mean, or mean plus variance. Newton's method needs, besides its value, the
slope g_e in each risk and what its curvature contributes to the Hessian in the parameters,

    ∇²q = Σ g_e ∇²R_e + Jᵀ(∂²q/∂R²)J,    J the (m, p) matrix of the risks' gradients.

Laws with a spread σ̂ have a kink where all risks are equal, and the empirical law
(:mod:`eqrm.linear.solving.empirical_measure`) has kinks everywhere. ``smoothing`` δ rounds them
off: σ̂ becomes √(σ̂² + δ²), and a step of the empirical law becomes a kernel of width δ. The solver
lets δ go to 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dnrm2
from scipy.special import erfc, erfcx

from eqrm.distributions.kde.long_rows import LONG, LongBulkSums
from eqrm.distributions.kde.root import root_of_one
from eqrm.distributions.kde.sums import BulkSums, Equation, KernelSums, TailSums
from eqrm.level import Level
from eqrm.linear.solving.quadratics import Array

SQRT_2 = math.sqrt(2.0)
DEEPEST = Level(log_tail=-1000.0)
"""Where risks are made equal, no deeper level is needed to do so."""
REACHABLE = 1e36
"""Deeper than log(1−α) = −1e36, coefficients differ by less than float64 can tell."""
EQUAL = 1e-100
"""Risks whose spread is below this part of their mean are equal: their curvature overflows."""
SQRT_HALF_PI = math.sqrt(0.5 * math.pi)

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
    may_fall_without_end: bool = False
    """Whether it can lie below every risk, and so have no minimum over predictors."""

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


def _towards(start: float, goal: float) -> list[float]:
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
        self.slope = spread / self.freedom / self.size if self.size > 0.0 else 0.0 * spread

    def curvature(self, slopes: Array) -> Array:
        """Σ(∇R_e−∇R̄)(∇R_e−∇R̄)ᵀ/((m−1)s) − ∇s∇sᵀ/s."""
        along = self.slope @ slopes
        found: Array = (slopes.T @ slopes / self.freedom - np.outer(along, along)) / self.size
        return found


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
        return [*map(MeanPlusDeviations, _towards(deepest, self.deviations)), self]

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        m, c = len(spread), self.deviations
        found = Spread(spread, smoothing)
        if found.size <= EQUAL * abs(mean):
            return Mean().at(mean, spread)

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            return c * found.curvature(slopes)

        return Local(mean + c * found.size, 1.0 / m + c * found.slope, curvature)


@dataclass(frozen=True)
class Kernels:
    """The kernels on the risks at the quantile of their mixture, in units of h.

    ``z`` (m,) is (q − R_e)/h, ``w`` ∝ φ(z) sums to 1, ``mean_z`` = Σ w z and ``away`` = z̄ − z,
    which keeps its digits where z itself is as large as 1e15. ``quantile`` is q − R̄.
    """

    bandwidth: float
    quantile: float
    z: Array
    w: Array
    mean_z: float
    away: Array
    deep: bool

    @classmethod
    def at(cls, spread: Array, std: float, bandwidth: float, level: Level) -> Kernels:
        """Solve Σ Φ((R_e − q)/h)/m = 1−α."""
        mirror = level.log_tail > -math.log(2.0)
        sign = -1.0 if mirror else 1.0
        tail, goal = (level.log_alpha, -level.z) if mirror else (level.log_tail, level.z)
        signed = sign * bandwidth
        equation = Equation(spread, None, std, signed, tail, goal)
        extreme = TailSums.reached(equation)
        sums = _sums(equation, extreme)
        root = root_of_one(sums)
        # Distances to where the root is counted from: in the tail that is the largest risk.
        origin = 0.0 if extreme is None else extreme
        distances = (origin - spread) / signed
        w = _relative(root, distances)
        mean_distance = float(w @ distances)
        return cls(
            bandwidth=bandwidth,
            quantile=origin + signed * root,
            z=sign * (root + distances),
            w=w,
            mean_z=sign * (root + mean_distance),
            away=sign * (mean_distance - distances),
            deep=extreme is not None and not mirror,
        )

    def beyond(self, tail: float) -> tuple[Array, float, float]:
        """v_e ∝ Φ(−z_e), summing to 1, Σφ(z)/ΣΦ(−z), and the superquantile less R̄.

        The last is q + Σ((R_e − q)Φ(−z_e) + hφ(z_e))/(m·tail), which is least at the exact q:
        the rounding of q, large against a small h, does not show in it.
        """
        if self.deep:
            # Φ(−z) = φ(z)·Mills' ratio, which neither underflows nor subtracts large numbers.
            mills = SQRT_HALF_PI * erfcx(self.z / SQRT_2)
            total = float(self.w @ mills)
            share, rate, reached = self.w * mills / total, 1.0 / total, 1.0
        else:
            tails = 0.5 * erfc(self.z / SQRT_2)
            densities = np.exp(-0.5 * self.z * self.z) / math.sqrt(2.0 * math.pi)
            total = float(tails.sum())
            share, rate = tails / total, float(densities.sum()) / total
            reached = total / (len(tails) * tail)
        above = self.bandwidth * (rate - float(share @ self.z))
        return share, rate, self.quantile + reached * above


def _relative(root: float, distances: Array) -> Array:
    """w ∝ φ(root + distance), from differences of squares to the nearest kernel's."""
    z = root + distances
    # Where all z are positive, distances tell which is least, also of those that round to one.
    nearest = int(distances.argmin() if z.min() > 0.0 else np.abs(z).argmin())
    apart = distances - distances[nearest]
    exponents = -apart * (z[nearest] + 0.5 * apart)
    kernels: Array = np.exp(np.minimum(exponents, 0.0))  # above 0 it is rounding, in a wide gap
    kernels /= kernels.sum()
    return kernels


def _sums(equation: Equation, extreme: float | None) -> KernelSums:
    if extreme is not None:
        return TailSums(equation, extreme)
    return LongBulkSums(equation) if equation.centred.size > LONG else BulkSums(equation)


class KernelMeasure(Measure):
    """The α-quantile (or superquantile) of Gaussian kernels on the risks.

    h = ``factor``·√(σ̂² + δ²), or ``fixed``. The implicit function theorem gives, with η = ∇h
    and u_e = ∇q − ∇R_e − z_eη,

        quantile:      ∇q = Σw∇R + z̄η,   ∇²q = Σg∇²R + z̄∇²h + Σ(w z/h)uuᵀ
        superquantile: ∇s = Σv∇R + λη,   ∇²s = Σg∇²R + λ∇²h + (λ/h)Σw uuᵀ

    where v ∝ Φ(−z) and λ = Σφ(z)/ΣΦ(−z): the superquantile is the minimum over q of a function
    convex in q, the risks and h.
    """

    def __init__(
        self,
        level: Level,
        superquantile: bool = False,
        factor: float = 0.0,
        fixed: float | None = None,
    ) -> None:
        self.level, self.superquantile = level, superquantile
        self.factor, self.fixed = factor, fixed
        # A fixed bandwidth is lost against risks that grow, and the law becomes the empirical.
        self.may_fall_without_end = factor > 0.0 and level.alpha < 0.5 and not superquantile

    def milder(self) -> Measure:
        if self.level.log_tail >= DEEPEST.log_tail:
            return self
        return self._at_level(DEEPEST)

    def approach(self) -> Sequence[Measure]:
        tails = _towards(-DEEPEST.log_tail, -self.level.log_tail)
        return [*(self._at_level(Level(log_tail=-tail)) for tail in tails), self]

    def _at_level(self, level: Level) -> KernelMeasure:
        return KernelMeasure(level, self.superquantile, self.factor, self.fixed)

    def with_bandwidth(self, bandwidth: float) -> KernelMeasure:
        """The same with a fixed bandwidth."""
        return KernelMeasure(self.level, self.superquantile, fixed=bandwidth)

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        found = Spread(spread, smoothing)
        bandwidth = self.factor * found.size if self.fixed is None else self.fixed
        if bandwidth <= EQUAL * abs(mean):
            return Mean().at(mean, spread)
        kernels = Kernels.at(spread, found.std, bandwidth, self.level)
        if self.superquantile:
            share, rate, superquantile = kernels.beyond(self.level.tail)
            value = mean + superquantile
            bend = rate * kernels.w / bandwidth
        else:
            share, rate = kernels.w, kernels.mean_z
            value = mean + kernels.quantile
            bend = kernels.w * kernels.z / bandwidth
        slope = share + rate * self.factor * found.slope
        return Local(value, slope, self._curvature(found, kernels, rate, bend))

    def _curvature(self, found: Spread, kernels: Kernels, rate: float, bend: Array) -> Curvature:
        factor = self.factor

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            # u_e = ∇q − ∇R_e − z_eη with ∇q = Σw∇R + z̄η put in, so that z̄ − z_e is exact.
            u = kernels.w @ slopes - slopes
            total = np.zeros((slopes.shape[1], slopes.shape[1]))
            if factor:
                u += np.outer(kernels.away, factor * (found.slope @ slopes))
                total += rate * factor * found.curvature(slopes)
            kept = np.flatnonzero(bend)
            total += u[kept].T @ (bend[kept, None] * u[kept])
            return total

        return curvature
