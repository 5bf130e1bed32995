"""Measures of Gaussian kernels on the risks and of the steps they tend to; from settings to one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import erfc, erfcx

from eqrm.arrays import Values
from eqrm.distributions.bandwidths import (
    Bandwidth,
    BandwidthFunction,
    Fixed,
    SigmaRule,
    UserRule,
    resolve_bandwidth,
)
from eqrm.distributions.empirical import Empirical
from eqrm.distributions.equal_weights import equal_step_index
from eqrm.distributions.gaussian import Gaussian
from eqrm.distributions.kde.bulk_sums import kernel_sums
from eqrm.distributions.kde.root import root_of_one
from eqrm.distributions.kde.sums import SQRT_2PI, SQRT_HALF_PI, Equation, TailSums
from eqrm.distributions.kernel import KDE
from eqrm.distributions.normal_tails import SQRT_2
from eqrm.errors import SettingError
from eqrm.execution import torch_for
from eqrm.level import Level
from eqrm.linear.solving.measures import (
    DEEPEST,
    EQUAL,
    Local,
    Mean,
    MeanPlusDeviations,
    Measure,
    Spread,
    deeper_steps,
    no_curvature,
)
from eqrm.linear.solving.risk_functions import Array
from eqrm.measures import (
    DISTRIBUTIONS,
    Estimator,
    below_one,
    estimate,
    measured_distribution,
    measured_level,
    quantile_at,
    resolve_distribution,
)

SMALLEST = 1e-200
"""A bandwidth below this, of risks that are all about 0, is rounding: its curvature overflows."""


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
        equation = Equation.at(level, spread, None, std, bandwidth)
        sums = kernel_sums(equation)
        root = root_of_one(sums)
        signed, sign = equation.bandwidth, math.copysign(1.0, equation.bandwidth)
        # Distances to where the root is counted from: in the tail that is the largest risk.
        distances = (sums.origin - spread) / signed
        w = _relative(root, distances)
        mean_distance = float(w @ distances)
        return cls(
            bandwidth=bandwidth,
            quantile=sums.origin + signed * root,
            z=sign * (root + distances),
            w=w,
            mean_z=sign * (root + mean_distance),
            away=sign * (mean_distance - distances),
            deep=isinstance(sums, TailSums) and signed > 0.0,
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
            densities = np.exp(-0.5 * self.z * self.z) / SQRT_2PI
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
        tails = deeper_steps(-DEEPEST.log_tail, -self.level.log_tail)
        return [*(self._at_level(Level(log_tail=-tail)) for tail in tails), self]

    def _at_level(self, level: Level) -> KernelMeasure:
        return KernelMeasure(level, self.superquantile, self.factor, self.fixed)

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        found = Spread(spread, smoothing)
        bandwidth = self.factor * found.size if self.fixed is None else self.fixed
        if bandwidth <= max(EQUAL * abs(mean), SMALLEST):
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

        return Local(value, share + rate * factor * found.slope, curvature)


class EmpiricalQuantile(Measure):
    """The k-th smallest of m risks: the quantile of a law with a step at each of them.

    With smoothing δ each step is a Gaussian kernel of width δ. The k-th smallest is the limit of
    their quantile at (k − ½)/m, the middle of its step.
    """

    has_kinks = True

    def __init__(self, level: Level, domains: int) -> None:
        self.index = equal_step_index(domains, level.alpha, level.tail)
        self.middle = Level((self.index + 0.5) / domains)

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        """With δ = 0 the exact value, and one of the slopes that a kink has."""
        if smoothing > 0.0:
            return KernelMeasure(self.middle, fixed=smoothing).at(mean, spread)
        slope = np.zeros_like(spread)
        slope[np.argsort(spread)[self.index]] = 1.0
        return Local(mean + float(slope @ spread), slope, no_curvature)


class WorstShare(Measure):
    """The mean of the worst share 1−α of m risks, at least of the worst one.

    The superquantile of a law with a step at each risk, and from (1−α)m ≤ 1 on the largest risk.
    """

    def __init__(self, level: Level, domains: int) -> None:
        number = max(level.tail * domains, 1.0)
        self.mix = np.clip(number - np.arange(domains - 1, -1, -1.0), 0.0, 1.0) / number
        self.weight_limit = 1.0 / number

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        """With one of the slopes that a kink has."""
        slope = np.empty_like(spread)
        slope[np.argsort(spread)] = self.mix
        return Local(mean + float(slope @ spread), slope, no_curvature)


@dataclass(frozen=True)
class MeasureChoice:
    """How the risks of domains become one number, for any number of domains."""

    estimator: Estimator
    measure: str
    bandwidth: Bandwidth

    @classmethod
    def of(
        cls,
        distribution: str | Estimator | None,
        measure: str,
        bandwidth: str | float | Bandwidth | BandwidthFunction,
    ) -> MeasureChoice:
        """Resolve the names (None: the measure's own); a bandwidth without a KDE is refused."""
        law = measured_distribution(measure, distribution)
        estimator, rule = resolve_distribution(law), resolve_bandwidth(bandwidth)
        if estimator is not KDE and bandwidth != "gaussian-optimal":
            raise SettingError(
                f"Only distribution='kde' has a bandwidth, got distribution={law!r} and "
                f"bandwidth={bandwidth!r}."
            )
        return cls(estimator, measure, rule)

    @property
    def options(self) -> dict[str, Any]:
        """What the distribution is made with, besides the risks."""
        return {"bandwidth": self.bandwidth} if self.estimator is KDE else {}

    def at(self, alpha: Level | float | str | None, domains: int) -> Measure:
        """The measure at a level; levels that the distribution does not have are refused."""
        level = measured_level(self.measure, alpha)
        if level is None or (level.log_tail == 0.0 and self.beyond):
            return Mean()
        if self.estimator is Empirical:
            if self.beyond or equal_step_index(domains, level.alpha, level.tail) == domains - 1:
                return WorstShare(level if self.beyond else Level(1.0), domains)
            return EmpiricalQuantile(level, domains)
        if self.estimator is Gaussian:
            inside = self._inside(level, "A normal distribution")
            return MeanPlusDeviations(inside.tail_mean if self.beyond else inside.z)
        if self.estimator is KDE:
            inside = self._inside(level, "A kernel density estimate")
            rule = self.bandwidth
            if isinstance(rule, SigmaRule):
                return KernelMeasure(inside, self.beyond, factor=rule.factor(domains))
            if isinstance(rule, Fixed):
                return KernelMeasure(inside, self.beyond, fixed=rule.value)
        torch_for(f"The gradient of distribution={self.estimator!r}, bandwidth={self.bandwidth}")
        from eqrm.linear.solving.differentiated import AnyDistribution

        falls = self.estimator is KDE and not self.beyond and level.alpha < 0.5
        return AnyDistribution(partial(self.value, level), falls)

    def value(self, level: Level, risks: Values) -> Values:
        """The measure of some risks (m,): of an array, or of a tensor with its gradient."""
        law = estimate(self.estimator, risks, None, self.options)
        value: Values = law.superquantile(level) if self.beyond else quantile_at(law, level)
        return value

    @property
    def needs_tensors(self) -> bool:
        """Whether a user's class or function, which may know tensors only, takes part."""
        of_user = self.estimator not in DISTRIBUTIONS.values()
        return of_user or isinstance(self.bandwidth, UserRule)

    @property
    def beyond(self) -> bool:
        """Whether it is a mean beyond a quantile, and not the quantile itself."""
        return self.measure != "quantile"

    def _inside(self, level: Level, what: str) -> Level:
        return below_one(level, what) if self.beyond else level.interior(what)
