"""The models that compete: kinds of models, and ways to train each of them for a level.

A candidate is a family (linear, boosted trees, an estimator of the user's) and a way: plain
training (ERM), plain training whose scores are recalibrated for the level, or training for the
level, by EQRM or a superquantile at one of several levels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from eqrm.data.tables.preprocessor import Task
from eqrm.errors import EqrmWarning, SettingError
from eqrm.estimators.fit_inputs import is_fitted
from eqrm.estimators.selection.surrogates import (
    ERM,
    RECALIBRATED,
    SHIFT,
    Surrogate,
    trained_candidates,
)
from eqrm.estimators.tasks import Classification, Regression, predicted_scores
from eqrm.level import Level
from eqrm.linear.scored_rows import Correction, probabilities_of
from eqrm.linear.solving.risk_functions import Array
from eqrm.tabular.model import new_estimator
from eqrm.tabular.plan import AUTO, TrainingPlan


@dataclass(frozen=True)
class Candidate:
    """A way to train a family for a level; plain training has no level."""

    family: str
    way: Surrogate
    level: Level | None = None

    @property
    def plain(self) -> bool:
        """Whether it is plain training: the mean risk is minimised."""
        return self.way == ERM

    @property
    def name(self) -> str:
        """What tables call it; ways of one kind share a name, of which one is shown."""
        if self.level is None:
            return f"{self.family}, plain"
        share = self.level.share_in_words
        if self.way.measure == "worst":
            return f"{self.family}, trained for the worst"
        kind = "trained" if self.way.correction is None else "recalibrated"
        return f"{self.family}, {kind} for {share}"

    @property
    def effort(self) -> int:
        """How far it is from plain training: of equally good ones the simplest is taken."""
        if self.way.correction is not None:
            return 1 if self.way.correction == SHIFT else 2
        return 0 if self.plain else 3


@dataclass(frozen=True, eq=False)
class Family:
    """A kind of model: its name, an estimator that is not fitted, and whether it knows levels."""

    name: str
    template: Any
    takes_levels: bool = True

    def candidates(self, plan: TrainingPlan, level: Level) -> list[Candidate]:
        """Plain training and all ways to train for a level, the simplest first."""
        ways = [*RECALIBRATED] if plan.measure == "quantile" else []
        if self.takes_levels and plan.measure == "quantile" and plan.surrogate == "auto":
            ways += trained_candidates(level, self.template._takes_long)
        elif self.takes_levels:
            ways.append(Surrogate(plan.measure, level))
        return [Candidate(self.name, ERM), *(Candidate(self.name, way, level) for way in ways)]


def families(
    plan: TrainingPlan,
    task: Task,
    settings: Mapping[str, Any],
    trees: Callable[[str], Mapping[str, Any]],
) -> list[Family]:
    """The families of a plan, the simplest first, and estimators of the user's after them.

    ``trees`` gives the sizes of the trees of a library.
    """
    models = ["linear", "lightgbm"] if plan.model == AUTO else [plan.model]
    found, classes = [], bool(task.classes)
    for model in models:
        given = {**trees(model), **settings}
        template = new_estimator(model, task, None, plan.seed, given, plan.measure)
        found.append(Family(family_name(model, task), template))
    for name, each in (plan.candidates or {}).items():
        if classes and not any(hasattr(each, m) for m in ("predict_proba", "decision_function")):
            raise SettingError(
                f"The candidate {name!r}, {type(each).__name__}, has no predict_proba, which the "
                "prediction of classes needs. Use a classifier."
            )
        if is_fitted(clone(each)):
            raise SettingError(
                f"The candidate {name!r}, {type(each).__name__}, stays fitted when it is cloned, "
                "so that no domain would be new to it. Pass an estimator that is not fitted."
            )
        found.append(Family(name, ForeignModel(each, classes), takes_levels=False))
    return found


def family_name(model: str, task: Task) -> str:
    """What users call a kind of model."""
    if model == "linear":
        return "logistic" if task.classes else "linear"
    return "network" if model == "mlp" else "boosted trees"


class ForeignModel(BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn estimator behind the few methods that a training on a table needs."""

    _takes_long = True
    distribution = None
    bandwidth = "gaussian-optimal"
    correction_: Correction | None = None

    def __init__(self, estimator: Any, classes: bool) -> None:
        self.estimator = estimator
        self.classes = classes

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a fitted estimator inside."""
        return hasattr(self, "estimator_")

    def set_params(self, **parameters: Any) -> Any:
        """Levels and measures are not for it: it is trained plainly."""
        return self

    def fit_levels(
        self, levels: Any, X: Any, y: Any, groups: Any = None, sample_weight: Any = None
    ) -> list[ForeignModel]:
        """One fit, for plain training."""
        given = {"groups": groups, "sample_weight": sample_weight}
        taken = {
            name: value
            for name, value in given.items()
            if value is not None and has_fit_parameter(self.estimator, name)
        }
        steps = getattr(self.estimator, "steps", None)
        if sample_weight is not None and steps and has_fit_parameter(steps[-1][1], "sample_weight"):
            taken[f"{steps[-1][0]}__sample_weight"] = sample_weight
        elif sample_weight is not None and "sample_weight" not in taken:
            warnings.warn(
                f"{type(self.estimator).__name__} takes no weights: it is fitted to rows that "
                "count alike, and judged with their weights.",
                EqrmWarning,
                stacklevel=2,
            )
        self.estimator_ = clone(self.estimator).fit(X, y, **taken)
        self.classes_ = np.unique(y) if self.classes else None
        self.n_features_in_ = np.shape(X)[1]
        self.level_: Level | None = None
        return [self for _ in levels]

    def _checked_scores(self, X: Any) -> Array:
        scores = predicted_scores(self.estimator_, X, self.classes_)
        return scores if self.correction_ is None else self.correction_(scores)

    def _losses_of(self, scores: Array, target: NDArray[Any]) -> Array:
        return (Classification if self.classes else Regression)._losses_of(scores, target)

    def _correct(self, correction: Correction) -> None:
        self.correction_ = correction

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class, or a number, of each row."""
        if self.classes_ is None:
            return self._checked_scores(X)
        found: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found

    @available_if(lambda self: self.classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, with the correction."""
        found = probabilities_of(self._checked_scores(X))
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found
