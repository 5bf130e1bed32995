"""The settings that QRMClassifier and QRMRegressor share, and what they mean together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from eqrm.errors import SettingError, did_you_mean
from eqrm.level import Level
from eqrm.linear.settings import check_amount, check_whole
from eqrm.linear.solving.chosen_measure import MeasureChoice
from eqrm.linear.solving.measures import Measure
from eqrm.linear.solving.risk_functions import Array
from eqrm.objectives.base import RiskObjective
from eqrm.objectives.risk_based import EQRM, ERM, Superquantile
from eqrm.objectives.risk_memory import RiskMemory

MODELS = ("linear", "mlp")


@dataclass(frozen=True)
class Goal:
    """What is minimised: the mean risk (``level`` None), or a measure of risks at a level."""

    level: Level | None
    choice: MeasureChoice
    distribution: Any
    bandwidth: Any

    @classmethod
    def of(cls, alpha: Any, distribution: Any, measure: str, bandwidth: Any) -> Goal:
        """Resolved and checked, before any data is looked at."""
        choice = MeasureChoice.of(distribution, measure, bandwidth)
        level = None if alpha is None else Level.of(alpha)
        if level is not None:
            choice.at(level, 2)  # refuses levels that the distribution does not have
        return cls(level, choice, distribution, bandwidth)

    def measure(self, domains: int) -> Measure | None:
        """For exact solvers; None is the mean, and so is any level of one domain."""
        if self.level is None or domains < 2:
            return None
        return self.choice.at(self.level, domains)

    def objective(self, memory: RiskMemory | None = None) -> RiskObjective:
        """For training by gradients."""
        if self.level is None:
            return ERM()
        kind = EQRM if self.choice.measure == "quantile" else Superquantile
        return kind(self.level, self.distribution, self.bandwidth, memory=memory)

    def value(self, risks: Array) -> float:
        """The quantile (superquantile, mean) of some risks (m,)."""
        values = torch.from_numpy(np.ascontiguousarray(risks, dtype=np.float64))
        with torch.no_grad():
            return float(self.objective().of_risks(values))


def check_settings(estimator: Any) -> None:
    """Refuse settings that no data could make sense of."""
    if estimator.model not in MODELS:
        raise SettingError(
            f"There is no model {estimator.model!r}. {did_you_mean(estimator.model, MODELS)}"
        )
    check_amount(estimator.l2, "l2")
    check_whole(estimator.max_steps, "max_steps", 1)
    check_whole(estimator.erm_steps, "erm_steps", 0)
    check_whole(estimator.steps, "steps", 1)
    if check_amount(estimator.learning_rate, "learning_rate") == 0.0:
        raise SettingError("learning_rate must be above 0.")
    for name in ("domains_per_batch", "rows_per_domain"):
        if getattr(estimator, name) is not None:
            check_whole(getattr(estimator, name), name, 1)
    if estimator.rows_per_domain is not None and estimator.domains_per_batch is None:
        raise SettingError("rows_per_domain needs domains_per_batch: batches are made of domains.")
    if isinstance(estimator.hidden, str) or not hasattr(estimator.hidden, "__iter__"):
        raise SettingError(f"hidden must be a list of widths, but it is {estimator.hidden!r}.")
    for width in estimator.hidden:
        check_whole(width, "each width in hidden", 1)
