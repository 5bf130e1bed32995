"""Classification and regression, whatever predicts: labels, scores and losses of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from eqrm.data.tables.frames import in_memory
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.fit_inputs import checked_features, target_values
from eqrm.evaluation.measuring.metrics import SLACK_OF_SUM
from eqrm.linear.scored_rows import CLIP, Correction, log_losses, logits_of
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import counted, listed

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
        return np.asarray(softmax(logits, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row (n,)."""
        logits = self._checked_scores(X)
        places = (logits > 0.0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)
        return np.asarray(self.classes_[places])

    def _learned_target(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The targets of ``fit`` as numbers; its classes are learned from them."""
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
        return log_losses(scores, target)


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
        return np.asarray((scores - target) ** 2)


def class_positions(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Where each label (n,) stands among the sorted classes."""
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    wrong = np.flatnonzero(classes[places] != labels)
    if wrong.size:
        raise DomainDataError(
            f"The label {labels[wrong[0]]!r} (row {wrong[0]}) is not among the classes seen in "
            f"training: {classes.tolist()}."
        )
    return np.asarray(places, dtype=np.int64)


def row_losses(estimator: Any, X: Any, y: Any) -> Array:
    """The loss of each row (n,) under any fitted estimator: its own, log-loss or squared error."""
    if hasattr(estimator, "losses"):
        return np.asarray(estimator.losses(X, y))
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


def predicted_scores(
    predictor: Any, X: Any, classes: NDArray[Any] | None, clip: float = CLIP
) -> Array:
    """The scores of rows X: of the ``classes``, in their order, or of numbers where it is None."""
    if classes is None:
        values = _outputs(predictor, X, "predict")
        return checked_predictions(_array(values), 0)
    known = getattr(predictor, "classes_", None)
    if known is not None and hasattr(predictor, "predict_proba"):
        if isinstance(predictor, Classification):  # its logits are exact, however sure they are
            return predictor.decision_function(X)
        given = checked_predictions(_array(predictor.predict_proba(X)), len(known))
        return logits_of(_in_order(given, np.asarray(known), classes), clip)
    if known is not None and hasattr(predictor, "decision_function"):
        scores = _array(predictor.decision_function(X))
        pairs = getattr(predictor, "decision_function_shape", "") == "ovo"
        if pairs or scores.shape[1:] not in ((), (len(known),)):
            raise SettingError(
                "decision_function needs a column per class, not per pair of classes: use "
                "decision_function_shape='ovr'."
            )
        return scores
    values = _outputs(predictor, X, "predict_proba")
    return logits_of(checked_predictions(_array(values), len(classes)), clip)


def _outputs(predictor: Any, X: Any, method: str) -> Any:
    if predictor is None:
        return X
    if hasattr(predictor, method):
        return getattr(predictor, method)(X)
    if callable(predictor):
        return predictor(X)
    raise SettingError(
        f"A {type(predictor).__name__} cannot be recalibrated: it has no {method} and is not a "
        "function of X. Pass a function that maps X to "
        f"{'numbers' if method == 'predict' else 'the probability of each class'}."
    )


def _array(values: Any) -> Array:
    try:
        return np.asarray(in_memory(values), dtype=np.float64)
    except (TypeError, ValueError):
        raise DomainDataError(
            f"Predictions must be numbers, got {type(values).__name__}. If X holds features, pass "
            "the estimator or function that predicts from them."
        ) from None


def _in_order(given: Array, known: NDArray[Any], classes: NDArray[Any]) -> Array:
    """Columns by class; a class that a fold has not seen has probability 0."""
    columns = {label: place for place, label in enumerate(known.tolist())}
    if len(known) == len(classes) and known.tolist() == classes.tolist():
        return given
    found = np.zeros((len(given), len(classes)))
    for place, label in enumerate(classes.tolist()):
        if label in columns:
            found[:, place] = given[:, columns[label]]
    return found


def checked_predictions(values: Array, classes: int, first_row: int = 0) -> Array:
    """Numbers (n,), or probabilities (n, K) or (n,) of the second of two.

    ``first_row`` is the number of the first row, in errors.
    """
    shape = values.shape
    if not classes:
        values = values[:, 0] if values.ndim == 2 and shape[1] == 1 else values
        fits, needed = values.ndim == 1, "one finite number per row"
    else:
        fits = shape[1:] in {(classes,)} | ({(), (1,)} if classes == 2 else set())
        needed = (
            f"probabilities of {classes} classes in sorted order, of shape (n, {classes})"
            f"{' or (n,)' if classes == 2 else ''}"
        )
    if not fits:
        raise DomainDataError(
            f"Predictions must be {needed}, got shape {shape}. For numbers, set task='regression'."
        )
    table = values.reshape(len(values), -1)
    good = np.isfinite(table).all(axis=1)
    if classes:
        good &= ((table >= 0.0) & (table <= 1.0)).all(axis=1)
    if table.shape[1] > 1:
        good &= np.abs(table.sum(axis=1) - 1.0) <= SLACK_OF_SUM
    if not good.all():
        wrong = (np.flatnonzero(~good) + first_row).tolist()
        raise DomainDataError(
            f"Predictions must be {needed}: in {counted(len(wrong), 'row')} (row {listed(wrong)}) "
            "they are missing, not between 0 and 1, or do not add up to 1. If they are logits, "
            "apply the sigmoid or softmax; if they are numbers, set task='regression'."
            if classes
            else f"Predictions must be {needed}: they are not in row {listed(wrong)}."
        )
    return values
