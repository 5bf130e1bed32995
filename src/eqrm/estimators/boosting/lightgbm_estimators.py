"""LightGBM that minimises the α-quantile of the risk over domains, as scikit-learn estimators."""

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
from eqrm.estimators.boosting.lightgbm_objective import LightGBMObjective, import_lightgbm
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.level import Level
from eqrm.objectives.base import RiskObjective


class LGBMQRM(BoostedQRM):
    """What the classifier and the regressor share; the parameters are those of LightGBM."""

    _library = "lightgbm"

    def __init__(
        self,
        alpha: Level | float | str | None = 0.9,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        num_leaves: int | None = None,
        max_depth: int | None = None,
        min_child_samples: int | None = None,
        min_child_weight: float | None = None,
        subsample: float | None = None,
        subsample_freq: int | None = None,
        colsample_bytree: float | None = None,
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
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_child_samples = min_child_samples
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.subsample_freq = subsample_freq
        self.colsample_bytree = colsample_bytree
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
        names = "learning_rate num_leaves max_depth min_child_samples min_child_weight subsample"
        names += " subsample_freq colsample_bytree reg_alpha reg_lambda"
        named = {name: getattr(self, name) for name in names.split()}
        named |= {"num_threads": self.n_jobs, "seed": seed_of(self.random_state)}
        extra = dict(self.booster_params or {})
        refuse_own_parameters(extra, ("objective", "num_class", "metric"))
        return {
            "verbosity": -1,
            **given_parameters(named),
            **extra,
            **given_parameters({"num_class": self._num_class()}),
            "metric": "none",
        }

    def _dataset(self, rows: TrainingRows, reference: Any = None) -> Any:
        lightgbm = import_lightgbm(f"{type(self).__name__}")
        return lightgbm.Dataset(
            rows.X,
            rows.y,
            weight=rows.sample_weight,
            init_score=self._start_margins(len(rows.X)).astype(np.float64),
            reference=reference,
            params={"verbosity": -1, "feature_pre_filter": False},
        )

    def _boost(
        self, train: TrainingRows, validation: TrainingRows | None, objective: RiskObjective
    ) -> Boosted:
        lightgbm = import_lightgbm(f"{type(self).__name__}")
        dtrain = self._dataset(train)
        domains, watched = {dtrain: train.groups}, []
        callbacks = list(self.callbacks or [])
        curves: dict[str, dict[str, list[float]]] = {}
        if validation is not None:
            dvalid = self._dataset(validation, reference=dtrain)
            domains[dvalid] = validation.groups
            watched = [dvalid]
            callbacks.append(lightgbm.record_evaluation(curves))
            if self.early_stopping_rounds is not None:
                stop = lightgbm.early_stopping(self.early_stopping_rounds, verbose=False)
                callbacks.append(stop)
        if self.verbose:
            callbacks.append(lightgbm.log_evaluation(self.verbose))
        boosting = LightGBMObjective(
            domains, objective, loss=self._loss, num_class=self._num_class()
        )
        with naming_settings("LightGBM", lightgbm.basic.LightGBMError):
            booster = lightgbm.train(
                {**self._parameters(), "objective": boosting},
                dtrain,
                num_boost_round=self.n_estimators,
                valid_sets=watched,
                valid_names=["validation"] if watched else None,
                feval=boosting.metric if watched else None,
                callbacks=callbacks,
            )
        curve = list(next(iter(curves.get("validation", {"": []}).values())))
        rounds = booster.best_iteration if booster.best_iteration > 0 else self.n_estimators
        return Boosted(booster, rounds, curve)

    def _margins_of(self, X: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.booster_.predict(X, raw_score=True))

    def _booster_bytes(self) -> bytes:
        return str(self.booster_.model_to_string()).encode()

    def _booster_of(self, content: bytes) -> Any:
        lightgbm = import_lightgbm(f"{type(self).__name__}")
        return lightgbm.Booster(model_str=content.decode())


class LGBMQRMClassifier(BoostedClassifier, LGBMQRM):
    """LightGBM for two or more classes; minimises the α-quantile of the log-loss over domains.

    Args:
        alpha: the level; ``None`` is ERM, the mean of domain risks, with the same machinery.
        n_estimators: rounds of boosting.
        learning_rate, num_leaves, max_depth, min_child_samples, min_child_weight, subsample,
            subsample_freq, colsample_bytree, reg_alpha, reg_lambda: LightGBM's own; ``None``
            leaves its default. The scale of gradient and Hessian is that of the built-in
            objective, so they mean what they mean there.
        distribution, bandwidth: how the law of the risk is estimated, see :class:`eqrm.EQRM`.
        measure: ``"quantile"``, or ``"superquantile"``, the mean risk beyond it.
        early_stopping_rounds: stop when the quantile of the validation domains has not fallen
            for so many rounds, and keep the best.
        validation_fraction: the share of training domains held out for that, where ``fit`` is
            given no ``eval_set``.
        booster_params: any other parameter of LightGBM, by name.
        callbacks, n_jobs, random_state, verbose: as in LightGBM.

    After fitting: ``domains_``, ``domain_counts_`` and ``domain_risks_`` of the training domains,
    ``quantile_risk_`` (what was minimised), ``level_``, ``n_estimators_`` (rounds kept),
    ``validation_curve_``, ``booster_`` (its margins do not include ``start_``, the constant that
    boosting begins from).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, days = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = rng.random(1200) < 1 / (1 + np.exp(-X[:, 0] - rng.normal(size=30)[days]))
    >>> model = LGBMQRMClassifier(alpha=0.9, n_estimators=20, num_leaves=4).fit(X, y, groups=days)
    >>> model.predict_proba(X[:1]).shape, len(model.domain_risks_), model.quantile_risk_ < 0.72
    ((1, 2), 30, True)
    """


class LGBMQRMRegressor(BoostedRegressor, LGBMQRM):
    """LightGBM for numbers; minimises the α-quantile of the squared error over domains.

    Parameters and attributes are those of :class:`eqrm.LGBMQRMClassifier`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, schools = rng.normal(size=(600, 2)), np.repeat(np.arange(30), 20)
    >>> y = X[:, 0] + rng.normal(size=30)[schools]
    >>> model = LGBMQRMRegressor(alpha=0.9, n_estimators=20).fit(X, y, groups=schools)
    >>> model.predict(X).shape, model.level_
    ((600,), Level(0.9))
    """
