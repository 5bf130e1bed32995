"""XGBoost that minimises the α-quantile of the risk over domains, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.estimators.boosting.estimators import (
    Boosted,
    BoostedClassifier,
    BoostedQRM,
    BoostedRegressor,
    given_parameters,
    naming_settings,
    refuse_own_parameters,
    seed_of,
)
from eqrm.estimators.boosting.xgboost_objective import XGBoostObjective, import_xgboost
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.level import Level
from eqrm.objectives.base import RiskObjective


class XGBQRM(BoostedQRM):
    """What the classifier and the regressor share; the parameters are those of XGBoost."""

    _library = "xgboost"

    def __init__(
        self,
        alpha: Level | float | str | None = 0.9,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int | None = None,
        min_child_weight: float | None = None,
        subsample: float | None = None,
        colsample_bytree: float | None = None,
        gamma: float | None = None,
        reg_alpha: float | None = None,
        reg_lambda: float | None = None,
        distribution: Any = "kde",
        measure: str = "quantile",
        bandwidth: Any = "gaussian-optimal",
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.2,
        booster_params: Mapping[str, Any] | None = None,
        callbacks: Sequence[Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.gamma = gamma
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.distribution = distribution
        self.measure = measure
        self.bandwidth = bandwidth
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.booster_params = booster_params
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _parameters(self) -> dict[str, Any]:
        names = "learning_rate max_depth min_child_weight subsample colsample_bytree gamma"
        named = {name: getattr(self, name) for name in f"{names} reg_alpha reg_lambda".split()}
        named |= {"nthread": self.n_jobs, "seed": seed_of(self.random_state)}
        extra = dict(self.booster_params or {})
        refuse_own_parameters(extra, ("objective", "num_class", "base_score"))
        return {
            **given_parameters(named),
            **extra,
            **given_parameters({"num_class": self._num_class()}),
            "base_score": 0.0,
            "disable_default_eval_metric": True,
        }

    def _dataset(self, rows: TrainingRows) -> Any:
        xgboost = import_xgboost(f"{type(self).__name__}")
        return xgboost.DMatrix(
            rows.X,
            rows.y,
            weight=rows.sample_weight,
            base_margin=self._start_margins(len(rows.X)).astype(np.float32),
            nthread=self.n_jobs,
        )

    def _boost(
        self, train: TrainingRows, validation: TrainingRows | None, objective: RiskObjective
    ) -> Boosted:
        xgboost = import_xgboost(f"{type(self).__name__}")
        dtrain = self._dataset(train)
        domains, watched = {dtrain: train.groups}, []
        callbacks = list(self.callbacks or [])
        curve: list[float] = []
        if validation is not None:
            dvalid = self._dataset(validation)
            domains[dvalid] = validation.groups
            watched = [(dvalid, "validation")]
            if self.early_stopping_rounds is not None:
                callbacks.append(_stopping(xgboost, curve, self.early_stopping_rounds))
        boosting = XGBoostObjective(
            domains, objective, loss=self._loss, num_class=self._num_class()
        )

        def metric(margins: NDArray[Any], data: Any) -> tuple[str, float]:
            name, value = boosting.metric(margins, data)
            curve.append(value)
            return name, value

        with naming_settings("XGBoost", xgboost.core.XGBoostError):
            booster = xgboost.train(
                self._parameters(),
                dtrain,
                num_boost_round=self.n_estimators,
                evals=watched,
                obj=boosting,
                custom_metric=metric if watched else None,
                verbose_eval=self.verbose or False,
                callbacks=callbacks,
            )
        if self.early_stopping_rounds is not None:
            booster = booster[: int(np.argmin(curve)) + 1]
        return Boosted(booster, booster.num_boosted_rounds(), curve)

    def _margins_of(self, X: NDArray[Any]) -> NDArray[Any]:
        margins = self.booster_.inplace_predict(X, predict_type="margin", missing=np.nan)
        return np.asarray(margins)

    def _booster_bytes(self) -> bytes:
        return bytes(self.booster_.save_raw("ubj"))

    def _booster_of(self, content: bytes) -> Any:
        xgboost = import_xgboost(f"{type(self).__name__}")
        return xgboost.Booster(model_file=bytearray(content))


def _stopping(xgboost: Any, curve: list[float], rounds: int) -> Any:
    """Stop when the curve has not fallen for so many rounds.

    XGBoost's own early stopping reads metrics from texts with six decimals, which is nothing
    where squared errors are small.
    """

    class Stopping(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return len(curve) - (int(np.argmin(curve)) + 1) >= rounds

    return Stopping()


class XGBQRMClassifier(BoostedClassifier, XGBQRM):
    """XGBoost for two or more classes; minimises the α-quantile of the log-loss over domains.

    Args:
        alpha: the level; ``None`` is ERM, the mean of domain risks, with the same machinery.
        n_estimators: rounds of boosting.
        learning_rate, max_depth, min_child_weight, subsample, colsample_bytree, gamma, reg_alpha,
            reg_lambda: XGBoost's own; ``None`` leaves its default. The scale of gradient and
            Hessian is that of the built-in objective, so they mean what they mean there.
        distribution, bandwidth: how the law of the risk is estimated, see :class:`eqrm.EQRM`.
        measure: ``"quantile"``, or ``"superquantile"``, the mean risk beyond it.
        early_stopping_rounds: stop when the quantile of the validation domains has not fallen
            for so many rounds, and keep the best.
        validation_fraction: the share of training domains held out for that, where ``fit`` is
            given no ``eval_set``.
        booster_params: any other parameter of XGBoost, by name.
        callbacks, n_jobs, random_state, verbose: as in XGBoost.

    After fitting: ``domains_``, ``domain_counts_`` and ``domain_risks_`` of the training domains,
    ``quantile_risk_`` (what was minimised), ``level_``, ``n_estimators_`` (rounds kept),
    ``validation_curve_``, ``booster_`` (its margins do not include ``start_``, the constant that
    boosting begins from).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, days = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = rng.random(1200) < 1 / (1 + np.exp(-X[:, 0] - rng.normal(size=30)[days]))
    >>> model = XGBQRMClassifier(alpha=0.9, n_estimators=20, max_depth=2).fit(X, y, groups=days)
    >>> model.predict_proba(X[:1]).shape, len(model.domain_risks_), model.quantile_risk_ < 0.72
    ((1, 2), 30, True)
    """


class XGBQRMRegressor(BoostedRegressor, XGBQRM):
    """XGBoost for numbers; minimises the α-quantile of the squared error over domains.

    Parameters and attributes are those of :class:`eqrm.XGBQRMClassifier`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, schools = rng.normal(size=(600, 2)), np.repeat(np.arange(30), 20)
    >>> y = X[:, 0] + rng.normal(size=30)[schools]
    >>> model = XGBQRMRegressor(alpha=0.9, n_estimators=20, max_depth=2).fit(X, y, groups=schools)
    >>> model.predict(X).shape, model.level_
    ((600,), Level(0.9))
    """
