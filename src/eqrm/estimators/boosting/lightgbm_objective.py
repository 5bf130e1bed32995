"""EQRM for ``lightgbm.train``: the objective, and a metric that shows the quantile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from eqrm.errors import MissingExtraError
from eqrm.estimators.boosting.objective import BoostingObjective, objective_of
from eqrm.level import Level
from eqrm.objectives.base import RiskObjective

Metric = Callable[[NDArray[Any], Any], tuple[str, float, bool]]


def import_lightgbm(purpose: str) -> Any:
    """The package ``lightgbm``, or an error that names the extra."""
    try:
        import lightgbm
    except ImportError:
        raise MissingExtraError("lightgbm", "boosting", purpose) from None
    return lightgbm


class LightGBMObjective(BoostingObjective):
    """Pass it as the parameter ``objective`` and its :attr:`metric` as ``feval``."""

    def __deepcopy__(self, memo: dict[int, Any]) -> LightGBMObjective:
        """LightGBM copies its parameters; a copy of this would not know the datasets."""
        return self

    def metric(self, margins: NDArray[Any], data: Any) -> tuple[str, float, bool]:
        """The objective of the domains of any dataset named in ``domains``; lower is better."""
        return (*self.value(margins, data), False)

    def metric_at(self, alpha: Level | float | str | RiskObjective | None) -> Metric:
        """A metric for another level; ``None`` is the mean of domain risks."""
        objective = objective_of(alpha)
        return lambda margins, data: (*self.value(margins, data, objective), False)


def lightgbm_objective(
    domains: Mapping[Any, Any],
    alpha: Level | float | str | RiskObjective | None = 0.9,
    *,
    loss: str = "log-loss",
    num_class: int | None = None,
    distribution: Any = "kde",
    bandwidth: Any = "gaussian-optimal",
    hessian_weight: str = "largest",
) -> LightGBMObjective:
    """EQRM as a custom objective for ``lightgbm.train``.

    ``domains`` maps every ``Dataset`` that is trained on or evaluated to the domain of each of
    its rows. Everything else is as in :func:`eqrm.estimators.xgboost_objective`. Margins start
    at 0 unless the datasets have an ``init_score``.

    >>> import lightgbm, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, days = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = rng.random(1200) < 1 / (1 + np.exp(-X[:, 0] - rng.normal(size=30)[days]))
    >>> dtrain = lightgbm.Dataset(X[:800], y[:800])
    >>> dvalid = lightgbm.Dataset(X[800:], y[800:], reference=dtrain)
    >>> objective = lightgbm_objective({dtrain: days[:800], dvalid: days[800:]}, alpha=0.9)
    >>> curve = {}
    >>> booster = lightgbm.train(
    ...     {"objective": objective, "num_leaves": 4, "verbosity": -1},
    ...     dtrain,
    ...     num_boost_round=10,
    ...     feval=objective.metric,
    ...     valid_sets=[dvalid],
    ...     valid_names=["valid"],
    ...     callbacks=[lightgbm.record_evaluation(curve)],
    ... )
    >>> quantiles = curve["valid"]["log-loss-q0.9"]
    >>> len(quantiles), quantiles[-1] < quantiles[0]
    (10, True)
    """
    import_lightgbm("Boosting with LightGBM")
    return LightGBMObjective(
        domains,
        objective_of(alpha, distribution, bandwidth),
        loss=loss,
        num_class=num_class,
        hessian_weight=hessian_weight,
    )
