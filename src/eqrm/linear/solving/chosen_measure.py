"""From a distribution, a level and the quantile or what lies beyond it to a measure of risks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eqrm.distributions.bandwidths import (
    Bandwidth,
    BandwidthFunction,
    Fixed,
    SigmaRule,
    resolve_bandwidth,
)
from eqrm.distributions.empirical import Empirical
from eqrm.distributions.gaussian import Gaussian
from eqrm.distributions.kernel import KDE
from eqrm.errors import SettingError, did_you_mean
from eqrm.level import Level
from eqrm.linear.solving.any_distribution import AnyDistribution
from eqrm.linear.solving.empirical_measure import EmpiricalMeasure
from eqrm.linear.solving.measures import KernelMeasure, Mean, MeanPlusDeviations, Measure
from eqrm.measures import Estimator, resolve_distribution

MEASURES = ("quantile", "superquantile")


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
        distribution: str | Estimator,
        measure: str,
        bandwidth: str | float | Bandwidth | BandwidthFunction,
    ) -> MeasureChoice:
        """Resolve the names; a bandwidth without a KDE is refused."""
        if measure not in MEASURES:
            raise SettingError(
                f"There is no measure {measure!r}. {did_you_mean(measure, MEASURES)}"
            )
        estimator, rule = resolve_distribution(distribution), resolve_bandwidth(bandwidth)
        if estimator is not KDE and bandwidth != "gaussian-optimal":
            raise SettingError(
                f"Only distribution='kde' has a bandwidth, but distribution={distribution!r} came "
                f"with bandwidth={bandwidth!r}."
            )
        return cls(estimator, measure, rule)

    @property
    def options(self) -> dict[str, Any]:
        """What the distribution is made with, besides the risks."""
        return {"bandwidth": self.bandwidth} if self.estimator is KDE else {}

    def at(self, level: Level, domains: int) -> Measure:
        """The measure at a level; levels that the distribution does not have are refused."""
        beyond = self.measure == "superquantile"
        if beyond and level.log_tail == 0.0:
            return Mean()
        if self.estimator is Empirical:
            return EmpiricalMeasure(level, domains, beyond)
        if self.estimator is Gaussian:
            inside = level.interior("A normal law")
            return MeanPlusDeviations(inside.tail_mean if beyond else inside.z)
        if self.estimator is KDE:
            inside = level.interior("A kernel density estimate")
            rule = self.bandwidth
            if isinstance(rule, SigmaRule):
                return KernelMeasure(inside, beyond, factor=rule.factor(domains))
            if isinstance(rule, Fixed):
                return KernelMeasure(inside, beyond, fixed=rule.value)
        return AnyDistribution(self.estimator, level, beyond, self.options)
