"""LightGBM: EQRM as an objective for its training call, and as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eqrm.estimators.boosting.estimators import BoostedQRM
from eqrm.estimators.boosting.lightgbm_trees import checked_lightgbm, joined_lightgbm
from eqrm.estimators.boosting.objective import BoostingObjective
from eqrm.estimators.boosting.rounds import Boosting
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.tasks import Classification, Regression
from eqrm.linear.solving.risk_functions import Array


class LightGBMObjective(BoostingObjective):
    """EQRM as a custom objective for ``lightgbm.train``.

    Pass it as the parameter ``objective`` and its :meth:`metric` as ``feval``. ``domains`` maps
    every ``Dataset`` that is trained on or evaluated to the domain of each of its rows; the other
    parameters are those of :class:`eqrm.estimators.xgboost_objective`. Margins start at 0 unless
    the datasets have an ``init_score``.

    >>> import lightgbm, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, day = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = X[:, 0] + rng.normal(size=30)[day] > 0
    >>> dtrain = lightgbm.Dataset(X[:800], y[:800])
    >>> dvalid = lightgbm.Dataset(X[800:], y[800:], reference=dtrain)
    >>> objective = lightgbm_objective({dtrain: day[:800], dvalid: day[800:]}, alpha=0.9)
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
    >>> len(curve["valid"]["log-loss-q0.9"])
    10
    """

    package = "lightgbm"
    after_value = (False,)  # not the higher the better

    def __deepcopy__(self, memo: dict[int, Any]) -> LightGBMObjective:
        """LightGBM copies its parameters; a copy of this would not know the datasets."""
        return self


lightgbm_objective = LightGBMObjective
"""Its public name: it is called like a function."""


@dataclass(eq=False, repr=False, kw_only=True)
class LGBMQRM(BoostedQRM):
    """The adapter of LightGBM."""

    num_leaves: int | None = None
    min_child_samples: int | None = None
    subsample_freq: int | None = None

    _objective: ClassVar[type[BoostingObjective]] = LightGBMObjective
    _refusal: ClassVar[str] = "basic.LightGBMError"
    _passed_on: ClassVar[tuple[str, ...]] = (
        *BoostedQRM._passed_on,
        "num_leaves",
        "min_child_samples",
        "subsample_freq",
    )
    _defaults: ClassVar[Mapping[str, Any]] = {"verbosity": -1}
    _fixed: ClassVar[Mapping[str, Any]] = {"metric": "none"}

    def _dataset(self, library: Any, rows: TrainingRows, start: Array, reference: Any) -> Any:
        categories = np.flatnonzero(self._category_counts).tolist()
        return library.Dataset(
            rows.X,
            rows.y,
            weight=rows.sample_weight,
            init_score=start.astype(np.float64),
            reference=reference,
            categorical_feature=categories if self.categories_ else "auto",
            params={"verbosity": -1, "feature_pre_filter": False},
        )

    def _train(self, library: Any, boosting: Boosting) -> Any:
        def stop(now: Any) -> None:
            if boosting.over():
                raise library.callback.EarlyStopException(now.iteration, now.evaluation_result_list)

        callbacks = [*(self.callbacks or []), stop]
        if self.verbose:
            callbacks.append(library.log_evaluation(self.verbose))
        watched = boosting.validation is not None
        booster = library.train(
            {**self._parameters(), "objective": boosting.objective},
            boosting.train,
            num_boost_round=boosting.rounds,
            valid_sets=[boosting.validation] if watched else [],
            valid_names=["validation"] if watched else None,
            feval=boosting.metric if watched else None,
            callbacks=callbacks,
            keep_training_booster=True,
        )

        def keep(margins: NDArray[Any], data: Any) -> tuple[str, float, bool]:
            boosting.margins = margins
            return "kept", 0.0, False

        booster.eval_train(keep)  # they are known, and a prediction takes long
        return booster

    def _train_after(
        self, library: Any, boosting: Boosting, first: Any, margins: Array | None
    ) -> Any:
        boosting.train.set_init_score(margins)
        booster = self._train(library, boosting)
        text = joined_lightgbm(first.model_to_string(), booster.model_to_string())
        return self._booster_of(library, text.encode())

    def _kept(self, library: Any, booster: Any, rounds: int | None) -> tuple[Any, int]:
        if rounds is None and booster.best_iteration > 0:  # by a callback
            rounds = booster.best_iteration
        kept = library.Booster(model_str=booster.model_to_string(num_iteration=rounds))
        return kept, kept.current_iteration()

    def _margins_of(self, X: Array) -> NDArray[Any]:
        return np.asarray(self.booster_.predict(X, raw_score=True))

    def _booster_bytes(self) -> bytes:
        return str(self.booster_.model_to_string()).encode()

    def _checked_booster(self, content: bytes, outputs: int) -> bytes:
        return checked_lightgbm(content, self.n_features_in_, outputs).encode()

    def _booster_of(self, library: Any, content: bytes) -> Any:
        return library.Booster(model_str=content.decode())


class LGBMQRMClassifier(Classification, LGBMQRM):
    """LightGBM for two or more classes; minimises the α-quantile of the log-loss over domains.

    Args:
        num_leaves, min_child_samples, subsample_freq: LightGBM's own, and so are learning_rate,
            max_depth, min_child_weight, subsample, colsample_bytree, reg_alpha and reg_lambda;
            ``None`` leaves its default.
        booster_params: any other parameter of LightGBM, by name.
        callbacks, n_jobs, verbose: as in LightGBM.

    All other parameters, and the attributes after ``fit``, are those of
    :class:`eqrm.XGBQRMClassifier`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, day = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = X[:, 0] + rng.normal(size=30)[day] > 0
    >>> model = LGBMQRMClassifier(alpha=0.9, n_estimators=20, num_leaves=4).fit(X, y, groups=day)
    >>> model.predict_proba(X[:1]).shape, len(model.domain_risks_)
    ((1, 2), 30)
    """


class LGBMQRMRegressor(Regression, LGBMQRM):
    """LightGBM for regression; minimises the α-quantile of the squared error over domains.

    Parameters and attributes are those of :class:`eqrm.LGBMQRMClassifier`.

    >>> import numpy as np
    >>> X, school = np.random.default_rng(0).normal(size=(600, 2)), np.arange(600) % 30
    >>> model = LGBMQRMRegressor(alpha=0.9, n_estimators=20)
    >>> model.fit(X, X[:, 0] * (1 + school % 2), groups=school).predict(X).shape
    (600,)
    """
