"""Estimators of the user's own that compete with ours: trained plainly, judged the same way."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from eqrm.errors import EqrmWarning
from eqrm.estimators.tasks import Classification, Regression, predicted_scores
from eqrm.level import Level
from eqrm.linear.scored_rows import Correction, probabilities_of
from eqrm.linear.solving.risk_functions import Array


class ForeignModel(BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn estimator behind the few methods that a training on a table needs.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> model = ForeignModel(DecisionTreeClassifier(random_state=0), True).fit_levels([None], X, y)
    >>> model[0].predict(X)
    array([0, 0, 1, 1])
    """

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
