"""The loss of every row under any fitted estimator: log-loss, or squared error."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from eqrm.errors import DomainDataError, SettingError
from eqrm.linear.solving.risk_functions import Array

TINY = np.finfo(np.float64).tiny
"""Probabilities of 0 cost as much as this one: a large loss, not an infinite one."""


def row_losses(estimator: Any, X: Any, y: Any) -> Array:
    """(n,): the estimator's own ``losses``, or from its probabilities or predictions.

    >>> from sklearn.dummy import DummyRegressor
    >>> row_losses(DummyRegressor().fit([[0], [0]], [1.0, 3.0]), [[0], [0]], [1.0, 4.0])
    array([1., 4.])
    """
    if hasattr(estimator, "losses"):
        found: Array = estimator.losses(X, y)
        return found
    check_is_fitted(estimator)
    if not is_classifier(estimator):
        targets = np.asarray(y, dtype=np.float64)
        predictions = np.asarray(estimator.predict(X), dtype=np.float64)
        return (predictions.reshape(len(targets)) - targets) ** 2
    if not hasattr(estimator, "predict_proba"):
        raise SettingError(
            f"The risk of {type(estimator).__name__} needs probabilities, and it has no "
            "predict_proba."
        )
    return _log_losses(np.asarray(estimator.predict_proba(X)), estimator.classes_, y)


def _log_losses(probabilities: Array, classes: Any, y: Any) -> Array:
    labels = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    wrong = np.flatnonzero(classes[places] != labels)
    if wrong.size:
        raise DomainDataError(
            f"The label {labels[wrong[0]]!r} (row {wrong[0]}) is none of the classes seen in "
            f"training: {classes.tolist()}."
        )
    own = np.take_along_axis(probabilities, places[:, None], axis=1)[:, 0]
    found: Array = -np.log(np.maximum(own, TINY))
    return found
