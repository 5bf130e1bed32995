"""Scores of any predictor: logits of classes, or numbers.

A predictor is an estimator, a function from X to probabilities or numbers, or None where X holds
the predictions themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.frames import in_memory
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.tasks import Classification
from eqrm.evaluation.measuring.metrics import SLACK_OF_SUM
from eqrm.linear.scored_rows import CLIP, logits_of
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import counted, listed


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
        return _array(predictor.decision_function(X))
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
    """Numbers (n,), or probabilities (n, K) or (n,) of the second of two; all problems at once.

    ``first_row`` is the number of the first row, in errors.
    """
    shape = values.shape
    if classes == 0:
        if values.ndim == 2 and shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise DomainDataError(f"Predictions must be one number per row, got shape {shape}.")
        problems = _rows_that("are missing or not finite", ~np.isfinite(values), first_row)
    else:
        widths = (1, 2) if classes == 2 else (classes,)
        if not (values.ndim == 1 and classes == 2) and not (
            values.ndim == 2 and shape[1] in widths
        ):
            needed = "(n,) or (n, 2)" if classes == 2 else f"(n, {classes})"
            raise DomainDataError(
                f"y has {classes} classes, so probabilities must have shape {needed}, with the "
                f"classes in sorted order; got {shape}. For predicted numbers, set "
                "task='regression'."
            )
        table = values.reshape(len(values), -1)
        absent = ~np.isfinite(table).all(axis=1)
        outside = ~absent & ((table < 0.0) | (table > 1.0)).any(axis=1)
        uneven = ~absent & ~outside & (np.abs(table.sum(axis=1) - 1.0) > SLACK_OF_SUM)
        problems = _rows_that("are missing or not finite", absent, first_row)
        problems += _rows_that(
            "are not between 0 and 1 (if they are logits, apply the sigmoid or softmax; if they "
            "are numbers, set task='regression')",
            outside,
            first_row,
        )
        if table.shape[1] > 1:
            problems += _rows_that("do not add up to 1 within 1%", uneven, first_row)
    if problems:
        raise DomainDataError(f"Predictions cannot be used: {'; '.join(problems)}.")
    return values


def _rows_that(fault: str, bad: Any, first_row: int) -> list[str]:
    places = np.flatnonzero(bad) + first_row
    if not places.size:
        return []
    return [f"in {counted(places.size, 'row')} (row {listed(places.tolist())}) they {fault}"]
