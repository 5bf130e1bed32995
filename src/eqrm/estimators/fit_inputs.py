"""What ``fit`` and ``predict`` are given, checked once, with errors that name rows and columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from eqrm.checks import is_missing
from eqrm.data.tables.frames import frame_columns, is_frame, number_matrix
from eqrm.errors import DomainDataError
from eqrm.estimators.groups import Groups, as_groups
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import listed


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows of X (n, d), y (n,), their domains, and weights where given."""

    X: Any
    y: NDArray[Any]
    groups: Groups
    sample_weight: Array | None

    def weighted(self) -> TrainingRows:
        """Those with a positive weight."""
        if self.sample_weight is None or (self.sample_weight > 0.0).all():
            return self
        return self.only(self.sample_weight > 0.0)

    def only(self, kept: NDArray[np.bool_]) -> TrainingRows:
        """Some of the rows; a domain without any of them is left out."""
        weights = None if self.sample_weight is None else self.sample_weight[kept]
        return TrainingRows(
            _safe_indexing(self.X, kept), self.y[kept], self.groups.only(kept), weights
        )


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator has learned something; those that learn nothing have not."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return bool(get_tags(estimator).requires_fit)


def training_rows(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    sample_weight: Any,
    *,
    level_asked: bool,
    reset: bool = True,
) -> TrainingRows:
    """Check and align everything that ``fit`` was given, with targets as numbers.

    Rows of weight 0 are left out, and so are domains without any other row. ``reset=False`` is
    for further rows, whose features and classes must be those of the first.
    """
    y = _checked_target(estimator, y)
    X = checked_features(estimator, X, y, reset=reset)
    rows = _aligned(X, y[:, 0] if y.ndim == 2 else y, groups, sample_weight, level_asked)
    rows = rows.weighted()
    numbers = estimator._learned_target if reset else estimator._known_target
    return replace(rows, y=numbers(rows.y))


def unchecked_rows(
    estimator: Any, X: Any, y: Any, groups: Any, sample_weight: Any, *, level_asked: bool
) -> TrainingRows:
    """All rows, for an X that another predictor takes, whatever it is, and y as it was given."""
    X, y = indexable(X, column_or_1d(_checked_target(estimator, y), warn=True))
    return _aligned(X, y, groups, sample_weight, level_asked)


def _aligned(
    X: Any, y: NDArray[Any], groups: Any, sample_weight: Any, level_asked: bool
) -> TrainingRows:
    rows = TrainingRows(X, y, as_groups(groups, len(y), level_asked=level_asked), None)
    if sample_weight is None:
        return rows
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not (weights > 0.0).any():
        raise DomainDataError(
            "sample_weight is 0 in every row: at least one weight must be positive."
        )
    return replace(rows, sample_weight=weights)


def checked_features(estimator: Any, X: Any, y: Any = None, *, reset: bool = False) -> Array:
    """X as float64 (n, d); sparse matrices become dense ones.

    NaN is allowed where the estimator's tags say so.
    """
    options: dict[str, Any] = {
        "ensure_all_finite": "allow-nan" if get_tags(estimator).input_tags.allow_nan else True,
        "reset": reset,
        "accept_sparse": "csr",
        "dtype": np.float64,
        "order": "C",
    }
    X = estimator._coded(X, reset)
    if y is not None:
        options |= {"y": y, "multi_output": False, "y_numeric": y.dtype.kind in "fiub"}
    try:
        checked = validate_data(estimator, X, **options)
    except ValueError as error:
        if is_frame(X):
            number_matrix(X, frame_columns(X))  # names the column that does not hold numbers
        first, *more = str(error).splitlines()
        if "NaN" in first:
            kind = "Classifier" if is_classifier(estimator) else "Regressor"
            more = [f"Fill in missing values, or use LGBMQRM{kind}, which takes them as they are."]
        raise DomainDataError(" ".join([first, *more])) from None
    found = checked if y is None else checked[0]
    return np.asarray(found.toarray() if issparse(found) else found)


def target_values(values: Any) -> NDArray[Any]:
    """A list, an array, or a column of a frame as an array."""
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _checked_target(estimator: Any, y: Any) -> NDArray[Any]:
    """y as an array, of numbers for a regression."""
    if y is None:
        raise DomainDataError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    found = target_values(y)
    if found.dtype.kind == "O":
        unusable = np.array([is_missing(value) for value in found.ravel().tolist()], dtype=bool)
    else:
        unusable = ~np.isfinite(found.ravel()) if found.dtype.kind == "f" else np.zeros(0, bool)
    if unusable.any():
        rows = np.flatnonzero(unusable).tolist()
        raise DomainDataError(
            "Input y contains NaN or infinity: the target is missing or not finite in "
            f"{len(rows)} of {len(found)} rows (row {listed(rows)}). Drop those rows or fill them "
            "in."
        )
    if is_classifier(estimator):
        check_classification_targets(found)
        return found
    try:
        return found.astype(np.float64) if found.dtype.kind in "OUS" else found
    except ValueError as error:
        raise DomainDataError(
            f"y must hold numbers for a regression: {error}. For classes, use a classifier."
        ) from None
