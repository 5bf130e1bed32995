"""Classification and regression, whatever predicts: labels, predictions and losses of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.fit_inputs import checked_features, target_values
from eqrm.linear.scored_rows import Correction
from eqrm.linear.solving.risk_functions import Array

TINY = np.finfo(np.float64).tiny
"""A probability of 0 costs as much as this one: a large loss, not an infinite one."""


class PredictsScores(ABC):
    """An estimator whose predictions and losses are functions of scores of checked features."""

    loss_name: ClassVar[str]
    correction_: Correction | None = None
    """Of the scores, where the estimator was recalibrated and has no intercept to absorb it."""

    @abstractmethod
    def _scores(self, X: Array) -> Array:
        """Logits or predicted numbers of checked features (n, d)."""

    @abstractmethod
    def _learned_target(self, y: NDArray[Any]) -> NDArray[Any]:
        """The targets of ``fit`` as numbers; a classifier learns its classes from them."""

    @abstractmethod
    def _known_target(self, y: NDArray[Any]) -> NDArray[Any]:
        """Targets as numbers, after ``fit``."""

    @staticmethod
    @abstractmethod
    def _losses_of(scores: Array, target: NDArray[Any]) -> Array:
        """The loss of each row (n,)."""

    def _checked_scores(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._corrected_scores(checked_features(self, X))

    def _corrected_scores(self, X: Array) -> Array:
        scores = self._scores(X)
        return scores if self.correction_ is None else self.correction_(scores)

    @property
    def _num_class(self) -> int | None:
        """K where there are more than two classes."""
        classes = len(getattr(self, "classes_", ()))
        return classes if classes > 2 else None

    def losses(self, X: Any, y: Any) -> Array:
        """The loss of each row (n,): log-loss, or squared error."""
        scores, target = self._checked_scores(X), target_values(y)
        if target.shape != scores.shape[:1]:
            raise DomainDataError(
                f"y must have one value per row: X has {len(scores)} rows, and y has shape "
                f"{target.shape}."
            )
        return self._losses_of(scores, self._known_target(target))


class Classification(ClassifierMixin, PredictsScores):  # type: ignore[misc]
    """Classes from logits: (n,) of the second of two classes, or (n, K). The loss is log-loss."""

    loss_name = "log-loss"
    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> Array:
        """The logit of the second of two classes (n,), or of each class (n, K)."""
        return self._checked_scores(X)

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class (n, K), in the order of ``classes_``."""
        logits = self._checked_scores(X)
        if logits.ndim == 1:
            return np.column_stack([expit(-logits), expit(logits)])
        found: Array = softmax(logits, axis=1)
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row (n,)."""
        logits = self._checked_scores(X)
        places = (logits > 0.0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)
        found: NDArray[Any] = self.classes_[places]
        return found

    def _learned_target(self, y: NDArray[Any]) -> NDArray[np.int64]:
        self.classes_, places = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DomainDataError(
                "A classifier needs at least two classes, but y contains only one class: "
                f"{self.classes_.tolist()}."
            )
        return places

    def _known_target(self, y: NDArray[Any]) -> NDArray[np.int64]:
        return class_positions(y, self.classes_)

    @staticmethod
    def _losses_of(scores: Array, target: NDArray[Any]) -> Array:
        if scores.ndim == 1:
            found: Array = np.logaddexp(0.0, np.where(target == 1, -1.0, 1.0) * scores)
        else:
            found = -np.take_along_axis(log_softmax(scores, axis=1), target[:, None], axis=1)[:, 0]
        return found


class Regression(RegressorMixin, PredictsScores):  # type: ignore[misc]
    """Numbers. The loss is the squared error."""

    loss_name = "squared"

    def predict(self, X: Any) -> Array:
        """The prediction for each row (n,)."""
        return self._checked_scores(X)

    def _learned_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return self._known_target(y)

    def _known_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(y, dtype=np.float64)

    @staticmethod
    def _losses_of(scores: Array, target: NDArray[Any]) -> Array:
        found: Array = (scores - target) ** 2
        return found


def class_positions(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Where each label (n,) stands among the sorted classes.

    >>> class_positions(np.array(["b", "a"]), np.array(["a", "b"]))
    array([1, 0])
    """
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    wrong = np.flatnonzero(classes[places] != labels)
    if wrong.size:
        raise DomainDataError(
            f"The label {labels[wrong[0]]!r} (row {wrong[0]}) is not among the classes seen in "
            f"training: {classes.tolist()}."
        )
    return np.asarray(places, dtype=np.int64)


def row_losses(estimator: Any, X: Any, y: Any) -> Array:
    """The loss of each row (n,) under any fitted estimator: its own, log-loss or squared error.

    >>> from sklearn.dummy import DummyRegressor
    >>> row_losses(DummyRegressor().fit([[0], [0]], [1.0, 3.0]), [[0], [0]], [1.0, 4.0])
    array([1., 4.])
    """
    if hasattr(estimator, "losses"):
        found: Array = estimator.losses(X, y)
        return found
    check_is_fitted(estimator)
    target = target_values(y)
    if not is_classifier(estimator):
        predictions = np.asarray(estimator.predict(X), dtype=np.float64)
        return (predictions.reshape(len(target)) - target.astype(np.float64)) ** 2
    if not hasattr(estimator, "predict_proba"):
        raise SettingError(
            f"The log-loss of {type(estimator).__name__} needs probabilities, but it has no "
            "predict_proba."
        )
    probabilities = np.asarray(estimator.predict_proba(X))
    places = class_positions(target, estimator.classes_)
    own = np.take_along_axis(probabilities, places[:, None], axis=1)[:, 0]
    return np.asarray(-np.log(np.maximum(own, TINY)))
