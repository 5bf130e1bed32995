"""Goal: what ``alpha``, ``distribution``, ``measure`` and ``bandwidth`` together minimise.

The only place that turns these settings into a number: exact solvers ask for a measure with
derivatives, training by gradients for an objective, and scores for the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eqrm.execution import torch_for
from eqrm.level import Level
from eqrm.linear.solving.kernel_measures import MeasureChoice
from eqrm.linear.solving.measures import Mean, Measure
from eqrm.linear.solving.risk_functions import Array
from eqrm.measures import measured_distribution, measured_level, warn_below_risks

if TYPE_CHECKING:
    from eqrm.objectives.risk_memory import RiskMemory
    from eqrm.objectives.risk_objective import RiskObjective


@dataclass(frozen=True)
class Goal:
    """What is minimised: the mean risk (``level`` None), or a measure of the risks at a level.

    The measures and their distributions are those of :mod:`eqrm.measures`.
    """

    level: Level | None
    choice: MeasureChoice
    distribution: Any
    bandwidth: Any

    @classmethod
    def of(
        cls,
        alpha: Any,
        distribution: Any = None,
        measure: str = "quantile",
        bandwidth: Any = "gaussian-optimal",
    ) -> Goal:
        """Resolve and check the settings, before any data is looked at."""
        choice = MeasureChoice.of(distribution, measure, bandwidth)
        level = measured_level(measure, alpha)
        choice.at(level, 2)  # refuses levels that the distribution does not have
        return cls(level, choice, measured_distribution(measure, distribution), bandwidth)

    @property
    def name(self) -> str:
        """The name of the objective."""
        if self.level is None:
            return "erm"
        return "superquantile" if self.choice.beyond else "eqrm"

    def measure(self, domains: int) -> Measure:
        """For exact solvers; with one domain, every level is the mean."""
        return Mean() if domains < 2 else self.choice.at(self.level, domains)

    def objective(self, memory: RiskMemory | None = None) -> RiskObjective:
        """For training by gradients."""
        from eqrm.objectives.risk_based import EQRM, ERM, Superquantile

        if self.level is None:
            return ERM()
        kind = Superquantile if self.choice.beyond else EQRM
        return kind(self.level, self.distribution, self.bandwidth, memory=memory)

    def value(self, risks: Array) -> float:
        """The measure of some risks (m,)."""
        if self.level is None:
            return float(np.mean(risks))
        given: Any = np.asarray(risks, dtype=np.float64)
        if self.choice.needs_tensors:
            given = torch_for("A distribution or bandwidth of your own").tensor(given)
        value = float(self.choice.value(self.level, given))
        if not self.choice.beyond:
            warn_below_risks(self.level, value, float(np.min(risks)), stacklevel=2)
        return value

    def value_and_slope(self, risks: Array) -> tuple[float, Array]:
        """The measure of some risks (m,), and its slope in each of them."""
        mean = float(risks.mean())
        found = self.measure(len(risks)).at(mean, risks - mean)
        return found.value, found.slope
