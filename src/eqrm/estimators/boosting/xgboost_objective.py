"""EQRM for ``xgboost.train``: the objective, and a metric that shows the quantile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from eqrm.errors import MissingExtraError
from eqrm.estimators.boosting.objective import BoostingObjective, objective_of
from eqrm.level import Level
from eqrm.objectives.base import RiskObjective

Metric = Callable[[NDArray[Any], Any], tuple[str, float]]


def import_xgboost(purpose: str) -> Any:
    """The package ``xgboost``, or an error that names the extra."""
    try:
        import xgboost
    except ImportError:
        raise MissingExtraError("xgboost", "boosting", purpose) from None
    return xgboost


class XGBoostObjective(BoostingObjective):
    """Pass it as ``obj`` and its :attr:`metric` as ``custom_metric`` to ``xgboost.train``."""

    def metric(self, margins: NDArray[Any], data: Any) -> tuple[str, float]:
        """The objective of the domains of any dataset named in ``domains``."""
        return self.value(margins, data)

    def metric_at(self, alpha: Level | float | str | RiskObjective | None) -> Metric:
        """A metric for another level; ``None`` is the mean of domain risks."""
        objective = objective_of(alpha)
        return lambda margins, data: self.value(margins, data, objective)


def xgboost_objective(
    domains: Mapping[Any, Any],
    alpha: Level | float | str | RiskObjective | None = 0.9,
    *,
    loss: str = "log-loss",
    num_class: int | None = None,
    distribution: Any = "kde",
    bandwidth: Any = "gaussian-optimal",
    hessian_weight: str = "largest",
) -> XGBoostObjective:
    """EQRM as a custom objective for ``xgboost.train``.

    ``domains`` maps every ``DMatrix`` that is trained on or evaluated to the domain of each of
    its rows. Labels and weights are the matrix's own. ``alpha`` is the level; ``None`` is ERM
    with the same machinery, and any :class:`eqrm.objectives.RiskObjective` may stand in its place.
    ``loss`` is ``"log-loss"`` (with ``num_class`` for more than two classes, labels 0 … K−1) or
    ``"squared"``. Set ``base_score`` to 0: margins then start at 0, and so do all risks at ln 2.

    >>> import numpy as np, xgboost
    >>> rng = np.random.default_rng(0)
    >>> X, days = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = rng.random(1200) < 1 / (1 + np.exp(-X[:, 0] - rng.normal(size=30)[days]))
    >>> dtrain, dvalid = xgboost.DMatrix(X[:800], y[:800]), xgboost.DMatrix(X[800:], y[800:])
    >>> objective = xgboost_objective({dtrain: days[:800], dvalid: days[800:]}, alpha=0.9)
    >>> curve = {}
    >>> booster = xgboost.train(
    ...     {"base_score": 0.0, "max_depth": 2, "disable_default_eval_metric": True},
    ...     dtrain,
    ...     num_boost_round=10,
    ...     obj=objective,
    ...     custom_metric=objective.metric,
    ...     evals=[(dvalid, "valid")],
    ...     evals_result=curve,
    ...     verbose_eval=False,
    ... )
    >>> quantiles = curve["valid"]["log-loss-q0.9"]
    >>> len(quantiles), quantiles[-1] < quantiles[0]
    (10, True)
    """
    import_xgboost("Boosting with XGBoost")
    return XGBoostObjective(
        domains,
        objective_of(alpha, distribution, bandwidth),
        loss=loss,
        num_class=num_class,
        hessian_weight=hessian_weight,
    )
