"""From settings (measure, distribution, bandwidth, level) to a measure with derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.distributions.bandwidths import (
    Bandwidth,
    BandwidthFunction,
    Fixed,
    SigmaRule,
    resolve_bandwidth,
)
from eqrm.distributions.empirical import Empirical
from eqrm.distributions.equal_weights import equal_step_index
from eqrm.distributions.gaussian import Gaussian
from eqrm.distributions.kernel import KDE
from eqrm.errors import DomainDataError, SettingError
from eqrm.level import Level
from eqrm.linear.solving.kernel_measures import EmpiricalQuantile, KernelMeasure, WorstShare
from eqrm.linear.solving.measures import Local, Mean, MeanPlusDeviations, Measure, no_curvature
from eqrm.linear.solving.risk_functions import Array
from eqrm.measures import (
    Estimator,
    below_one,
    estimate,
    measured_distribution,
    measured_level,
    quantile_at,
    resolve_distribution,
)


@dataclass(frozen=True)
class MeasureChoice:
    """How the risks of domains become one number, for any number of domains.

    >>> choice = MeasureChoice.of("kde", "quantile", "gaussian-optimal")
    >>> type(choice.at(Level(0.9), domains=10)).__name__
    'KernelMeasure'
    """

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
        return AnyDistribution(self.estimator, level, self.beyond, self.options)

    @property
    def beyond(self) -> bool:
        """Whether it is a mean beyond a quantile, and not the quantile itself."""
        return self.measure != "quantile"

    def _inside(self, level: Level, what: str) -> Level:
        return below_one(level, what) if self.beyond else level.interior(what)


class AnyDistribution(Measure):
    """The quantile or superquantile of a user's distribution, or of a KDE with any bandwidth.

    By automatic differentiation, which is slower than the exact forms of the other measures.
    """

    def __init__(
        self,
        estimator: Estimator,
        level: Level,
        superquantile: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.estimator, self.level, self.superquantile = estimator, level, superquantile
        self.options = dict(options or {})
        self.may_fall_without_end = estimator is KDE and level.alpha < 0.5 and not superquantile

    def of_risks(self, risks: Tensor) -> Tensor:
        """The measure of risks (m,), with a graph."""
        found = estimate(self.estimator, risks, None, self.options)
        if self.superquantile:
            value: Tensor = found.superquantile(self.level)
            return value
        return quantile_at(found, self.level)

    def at(self, mean: float, spread: Array, smoothing: float = 0.0) -> Local:
        risks = torch.tensor(mean + spread, dtype=torch.float64, requires_grad=True)
        try:
            value = self.of_risks(risks)
        except DomainDataError:  # too large for a float: a place that the descent must not go to
            return Local(np.inf, np.full(len(spread), np.nan), no_curvature)
        (slope,) = torch.autograd.grad(value, risks, create_graph=True)

        def curvature(mean_slope: Array, slopes: Array) -> Array:
            columns = mean_slope + slopes
            if not slope.requires_grad:  # a law whose quantile is linear in the risks
                return np.zeros((columns.shape[1], columns.shape[1]))
            products = [
                _second(slope, risks, torch.from_numpy(np.ascontiguousarray(column)))
                for column in columns.T
            ]
            found: Array = columns.T @ np.stack(products, axis=1)
            return 0.5 * (found + found.T)

        return Local(float(value.detach()), slope.detach().numpy().copy(), curvature)


def _second(slope: Tensor, risks: Tensor, direction: Tensor) -> Array:
    """(∂²q/∂R²)·direction."""
    (product,) = torch.autograd.grad(slope @ direction, risks, retain_graph=True, allow_unused=True)
    found: Array = np.zeros(len(risks)) if product is None else product.numpy()
    return found
