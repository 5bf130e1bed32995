"""EQRM as an objective for gradient boosting: domains are weighted anew in every round.

By the chain rule the gradient of an objective Q(R_1 … R_m) in the margin of row i of domain e is

    dQ/dF_i = w_e · (s_i/S_e) · dℓ_i/dF_i,      w_e = ∂Q/∂R_e,

with s_i the row's weight (1 if none) and S_e their sum in the domain. It is multiplied by
S = Σ s_i, because the libraries expect a sum over rows. The Hessian must be positive: its weight
is v_e = max(|w_e|, 1/m). docs/boosting.md says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import NON_NEGATIVE_INTEGER, one_of
from eqrm.errors import DomainDataError, MissingExtraError
from eqrm.estimators.boosting.losses import (
    BLOCK,
    LOSSES,
    BoostingLoss,
    Floats,
    blocks,
    boosting_loss,
)
from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import Groups, as_groups
from eqrm.level import Level
from eqrm.linear.solving.risk_functions import Array

if TYPE_CHECKING:
    from eqrm.objectives.risk_objective import RiskObjective

Aim: TypeAlias = "Goal | RiskObjective"
ERM = Goal.of(None)


@dataclass(frozen=True, eq=False)
class Round:
    """What a round of boosting saw: the objective's value, risks and weights of the domains."""

    value: float
    risks: Array
    weights: Array


class DomainTable:
    """The labels, domains and weights of one table, ready for any margins."""

    def __init__(
        self,
        loss: str,
        labels: Any,
        domains: Any,
        sample_weight: Any = None,
        num_class: int | None = None,
    ) -> None:
        self.loss: BoostingLoss = boosting_loss(loss, labels, num_class)
        rows = len(labels)
        self.groups = domains if isinstance(domains, Groups) else as_groups(domains, rows)
        weighted = sample_weight is not None and len(sample_weight) > 0  # empty: XGBoost has none
        self.sample_weight = np.asarray(sample_weight, np.float64) if weighted else None
        counts = self.groups.counts.astype(np.float64)
        self.totals = counts if self.sample_weight is None else self.groups.sums(self.sample_weight)
        self._row_weight = (
            None if self.sample_weight is None else self.sample_weight.astype(np.float32)
        )

    def risks(self, margins: NDArray[Any]) -> Array:
        """The risk of each domain (m,)."""
        return self._means(self.loss.derivatives(self._shaped(margins)).losses)

    def gradient(self, margins: NDArray[Any], objective: Aim) -> tuple[Floats, Floats, Round]:
        """Gradient and Hessian of every row, and what they were computed from."""
        found = self.loss.derivatives(self._shaped(margins))
        risks = self._means(found.losses)
        value, weights = self.weigh(risks, objective)
        self._scale(found.slopes, weights)
        self._scale(found.curvatures, np.maximum(np.abs(weights), 1.0 / weights.size))
        return found.slopes, found.curvatures, Round(value, risks, weights)

    def weigh(self, risks: Array, objective: Aim) -> tuple[float, Array]:
        """The value of an objective of the risks (m,), and its slope in each of them (m,).

        The slope is how much each domain counts in the gradient. For a quantile it sums to 1, and
        domains of low risk often have a negative part in it.
        """
        self.groups.refuse_diverged(risks)
        return objective.value_and_slope(np.asarray(risks, np.float64))

    def _means(self, losses: Floats) -> Array:
        weighted = losses if self._row_weight is None else losses * self._row_weight
        return self.groups.sums(weighted) / self.totals

    def _scale(self, values: Floats, per_domain: Array) -> None:
        """Multiply rows in place by S · (weight of their domain) · s_i/S_e."""
        factors = (self.totals.sum() * per_domain / self.totals).astype(np.float32)
        scratch = np.empty(BLOCK, np.float32)
        for block in blocks(len(values)):
            of_rows = scratch[: block.stop - block.start]
            np.take(factors, self.groups.ids[block], out=of_rows, mode="clip")
            if self._row_weight is not None:
                of_rows *= self._row_weight[block]
            values[block] *= of_rows if values.ndim == 1 else of_rows[:, None]

    def _shaped(self, margins: NDArray[Any]) -> NDArray[Any]:
        rows, outputs = len(self.groups.ids), self.loss.outputs
        expected = (rows,) if outputs == 1 else (rows, outputs)
        if margins.shape != expected:
            raise DomainDataError(
                f"Margins must have shape {expected}, one row per example, got {margins.shape}. "
                "Set the same num_class in the booster's parameters and in the objective."
            )
        return margins


class BoostingObjective:
    """EQRM as a custom objective for the training call of a library, and metrics of it.

    Call it with margins and the dataset they belong to for gradient and Hessian. ``last`` is what
    the latest round saw: value, risks and weights of the domains, and ``rounds`` counts them. The
    parameters are described in :class:`eqrm.estimators.xgboost_objective`.
    """

    package: ClassVar[str]
    after_value: ClassVar[tuple[Any, ...]] = ()
    """What the library expects of a metric after its name and value."""

    def __init__(
        self,
        domains: Mapping[Any, Any],
        alpha: Level | float | str | Aim | None = 0.9,
        *,
        metric: str = "log-loss",
        num_class: int | None = None,
        measure: str = "quantile",
        distribution: Any = None,
        bandwidth: Any = "gaussian-optimal",
        erm_rounds: int = 0,
    ) -> None:
        import_library(self.package, type(self).__name__)
        self._measured = {"measure": measure, "distribution": distribution, "bandwidth": bandwidth}
        self.objective = self._objective_at(alpha)
        self.erm_rounds = NON_NEGATIVE_INTEGER.check(erm_rounds, "erm_rounds")
        self.rounds = 0
        self.last: Round | None = None
        self._domains = dict(domains)
        self._metric, self._num_class = one_of(metric, LOSSES, "metric"), num_class
        self._tables: dict[Any, DomainTable] = {}

    def _objective_at(self, alpha: Level | float | str | Aim | None) -> Aim:
        given: Any = alpha
        return given if hasattr(alpha, "value_and_slope") else Goal.of(given, **self._measured)

    def __call__(self, margins: NDArray[Any], data: Any) -> tuple[Floats, Floats]:
        """Gradient and Hessian of every row, as both libraries ask for them."""
        objective = ERM if self.rounds < self.erm_rounds else self.objective
        found = self.table(data).gradient(margins, objective)
        gradient, hessian, self.last = found
        self.rounds += 1
        return gradient, hessian

    def table(self, data: Any) -> DomainTable:
        """Labels, domains and weights of a dataset; read from it when it is first seen."""
        if data not in self._tables:
            if data not in self._domains:
                raise DomainDataError(
                    "The domains of a dataset are unknown. List every dataset that is trained on "
                    "or evaluated: {dtrain: …, dvalid: …}."
                )
            self._tables[data] = DomainTable(
                self._metric,
                data.get_label(),
                self._domains[data],
                data.get_weight(),
                self._num_class,
            )
        return self._tables[data]

    def metric(self, margins: NDArray[Any], data: Any) -> tuple[Any, ...]:
        """The objective of the domains of any dataset in ``domains``, with its name."""
        return self._shown(margins, data, self.objective)

    def metric_at(
        self, alpha: Level | float | str | Aim | None
    ) -> Callable[[NDArray[Any], Any], tuple[Any, ...]]:
        """A metric for another level; ``None`` is the mean of domain risks."""
        objective = self._objective_at(alpha)
        return lambda margins, data: self._shown(margins, data, objective)

    def _shown(self, margins: NDArray[Any], data: Any, objective: Aim) -> tuple[Any, ...]:
        table = self.table(data)
        value, _ = table.weigh(table.risks(margins), objective)
        return (metric_name(self._metric, objective), value, *self.after_value)


def metric_name(loss: str, objective: Aim) -> str:
    """What a curve of risks is called in the libraries' logs."""
    name, level = objective.name, getattr(objective, "level", "")
    if name == "superquantile" and level == Level(1.0):
        return f"{loss}-worst"
    return f"{loss}-mean" if name == "erm" else f"{loss}-{'q' if name == 'eqrm' else name}{level}"


def import_library(package: str, purpose: str) -> Any:
    """The package of a boosting library, or an error that names the extra."""
    try:
        return import_module(package)
    except ImportError:
        raise MissingExtraError(package, "boosting", purpose) from None
