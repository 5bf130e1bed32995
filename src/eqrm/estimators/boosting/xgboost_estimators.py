"""XGBoost: EQRM as an objective for its training call, and as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eqrm.estimators.boosting.estimators import BoostedQRM
from eqrm.estimators.boosting.objective import BoostingObjective
from eqrm.estimators.boosting.rounds import Boosting
from eqrm.estimators.boosting.xgboost_trees import checked_xgboost
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.tasks import Classification, Regression
from eqrm.linear.solving.risk_functions import Array


class XGBoostObjective(BoostingObjective):
    """EQRM as a custom objective for ``xgboost.train``.

    Pass it as ``obj`` and its :meth:`metric` as ``custom_metric``. ``domains`` maps every
    ``DMatrix`` that is trained on or evaluated to the domain of each of its rows. Labels and
    weights are the matrix's own. ``alpha`` is the level; ``None`` is ERM with the same machinery,
    and any :class:`eqrm.objectives.RiskObjective` can be passed in its place. ``loss`` is
    ``"log-loss"`` (with ``num_class`` for more than two classes, labels 0 … K−1) or ``"squared"``.
    ``measure``, ``distribution`` and ``bandwidth`` are those of :class:`eqrm.XGBQRMClassifier`, and
    ``hessian_weight`` is how a domain counts in the Hessian (docs/boosting.md). The first
    ``erm_rounds`` minimise the mean risk. Set ``base_score`` to 0, so that margins start at 0 and
    all risks at ln 2.

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

    package = "xgboost"


xgboost_objective = XGBoostObjective
"""Its public name: it is called like a function."""


@dataclass(eq=False, repr=False, kw_only=True)
class XGBQRM(BoostedQRM):
    """The adapter of XGBoost."""

    gamma: float | None = None

    _objective: ClassVar[type[BoostingObjective]] = XGBoostObjective
    _refusal: ClassVar[str] = "core.XGBoostError"
    _passed_on: ClassVar[tuple[str, ...]] = (*BoostedQRM._passed_on, "gamma")
    _defaults: ClassVar[Mapping[str, Any]] = {"disable_default_eval_metric": True}
    _fixed: ClassVar[Mapping[str, Any]] = {"base_score": 0.0}

    def _dataset(self, library: Any, rows: TrainingRows, start: Array, reference: Any) -> Any:
        kinds: dict[str, Any] = {}
        if self.categories_:
            kinds["feature_types"] = ["c" if count else "q" for count in self._category_counts]
            kinds["enable_categorical"] = True
        matrix = library.DMatrix(
            rows.X, rows.y, weight=rows.sample_weight, nthread=self.n_jobs, **kinds
        )
        matrix.set_base_margin(start.astype(np.float32))
        return matrix

    def _train(self, library: Any, boosting: Boosting, first: Any = None) -> Any:
        class Stopping(library.callback.TrainingCallback):  # type: ignore[misc]
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return boosting.over()

        watched = boosting.validation is not None
        return library.train(
            self._parameters(),
            boosting.train,
            num_boost_round=boosting.rounds,
            evals=[(boosting.validation, "validation")] if watched else [],
            obj=boosting.objective,
            custom_metric=boosting.metric if watched else None,
            verbose_eval=self.verbose or False,
            callbacks=[*(self.callbacks or []), Stopping()],
            xgb_model=first,
        )

    def _train_after(
        self, library: Any, boosting: Boosting, first: Any, margins: Array | None
    ) -> Any:
        return self._train(library, boosting, first)

    def _kept(self, library: Any, booster: Any, rounds: int | None) -> tuple[Any, int]:
        kept = booster if rounds is None else booster[:rounds]
        return kept, kept.num_boosted_rounds()

    def _margins_of(self, X: Array) -> NDArray[Any]:
        margins = self.booster_.inplace_predict(X, predict_type="margin", missing=np.nan)
        return np.asarray(margins)

    def _booster_bytes(self) -> bytes:
        return bytes(self.booster_.save_raw("ubj"))

    def _checked_booster(self, content: bytes, outputs: int) -> bytes:
        return checked_xgboost(content, self._category_counts, outputs)

    def _booster_of(self, library: Any, content: bytes) -> Any:
        return library.Booster(model_file=bytearray(content))


class XGBQRMClassifier(Classification, XGBQRM):
    """XGBoost for two or more classes; minimises the α-quantile of the log-loss over domains.

    Args:
        alpha: the level; ``None`` is ERM, the mean of domain risks, with the same machinery.
        measure, distribution, bandwidth: what is minimised, and of which distribution of the
            risk; as in :class:`eqrm.QRMClassifier`.
        random_state: seed of subsampling and of the domains held out.
        n_estimators: rounds of boosting.
        erm_rounds: how many of them minimise the mean risk, before the others train for the level:
            a number, or a share of ``n_estimators``. From nothing, boosting for a level is worse
            than ERM at its own level where much is to be learned (docs/boosting.md).
        learning_rate, max_depth, min_child_weight, subsample, colsample_bytree, reg_alpha,
            reg_lambda, gamma: XGBoost's own; ``None`` leaves its default. The scale of gradient
            and Hessian is that of the built-in objective, so they mean what they mean there.
        early_stopping_rounds: stop when the measure of the validation domains has not fallen
            for this many rounds, and keep the best. The rounds of ERM also end when the mean risk
            of the validation domains has not fallen for so many.
        validation_fraction: the share of training domains held out for that, where ``fit`` is
            given no ``eval_set``.
        booster_params: any other parameter of XGBoost, by name.
        callbacks, n_jobs, verbose: as in XGBoost.

    After ``fit``: ``domains_``, ``domain_counts_`` and ``domain_risks_`` of the training domains,
    ``quantile_risk_`` (what was minimised), ``level_``, ``n_estimators_`` (rounds kept) and
    ``erm_rounds_`` of them, ``validation_curve_``, ``booster_`` (its margins do not include
    ``start_``, the constant that boosting begins from).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, days = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = rng.random(1200) < 1 / (1 + np.exp(-X[:, 0] - rng.normal(size=30)[days]))
    >>> model = XGBQRMClassifier(alpha=0.9, n_estimators=20, max_depth=2).fit(X, y, groups=days)
    >>> model.predict_proba(X[:1]).shape, len(model.domain_risks_), model.quantile_risk_ < 0.72
    ((1, 2), 30, True)
    """


class XGBQRMRegressor(Regression, XGBQRM):
    """XGBoost for regression; minimises the α-quantile of the squared error over domains.

    Parameters and attributes are those of :class:`eqrm.XGBQRMClassifier`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, schools = rng.normal(size=(600, 2)), np.repeat(np.arange(30), 20)
    >>> y = X[:, 0] + rng.normal(size=30)[schools]
    >>> model = XGBQRMRegressor(alpha=0.9, n_estimators=20, max_depth=2).fit(X, y, groups=schools)
    >>> model.predict(X).shape, model.level_
    ((600,), Level(0.9))
    """
