"""What ``fit`` and ``predict`` are given, checked once, with errors that name rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    """Whether an estimator has learned something; those that learn nothing have not.

    >>> from sklearn.linear_model import LogisticRegression
    >>> is_fitted(LogisticRegression()), is_fitted(LogisticRegression().fit([[0], [1]], [0, 1]))
    (False, True)
    """
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
    with naming_cells(X):
        if y is None:
            found = validate_data(estimator, X, **options)
        else:
            numeric = y.dtype.kind in "fiub"
            found, _ = validate_data(
                estimator, X, y, multi_output=False, y_numeric=numeric, **options
            )
    dense: Array = found.toarray() if issparse(found) else found
    return dense


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
        raise DomainDataError(
            "Input y contains NaN or infinity: the target is missing or not finite in "
            f"{_rows(np.flatnonzero(unusable).tolist(), len(found))}. Drop those rows or fill "
            "them in."
        )
    if is_classifier(estimator):
        check_classification_targets(found)
        return found
    try:
        return found.astype(np.float64) if found.dtype.kind in "OUS" else found
    except (TypeError, ValueError):
        raise DomainDataError(
            "Unknown label type: the target of a regression must be numeric, but y contains "
            f"{found.ravel()[:1].tolist()[0]!r}. For classes, use a classifier."
        ) from None


@contextmanager
def naming_cells(X: Any) -> Iterator[None]:
    """Name the column and row of the value that scikit-learn refuses.

    >>> with naming_cells([[1.0, float("nan")]]):
    ...     raise ValueError("Input contains NaN.")
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: Input contains NaN. Values are missing in 1 of 1 rows (row 0), ...
    """
    try:
        yield
    except ValueError as error:
        where = _where(X)
        told = f"{str(error).splitlines()[0].rstrip('.')}. {where}" if where else str(error)
        raise DomainDataError(told) from None


def _where(X: Any) -> str:
    if issparse(X) or getattr(X, "ndim", 2) != 2:
        return ""
    try:
        table = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=object)
    except ValueError:
        return ""
    if table.ndim != 2 or table.size == 0:
        return ""
    names = list(getattr(X, "columns", range(table.shape[1])))
    for name, column in zip(names, table.T.tolist(), strict=True):
        row = _first_text(column)
        if row is not None:
            return (
                f"Column {name!r} of X contains strings such as {column[row]!r} (row {row}). "
                "Encode strings as numbers first, for example with sklearn's OneHotEncoder."
            )
    gone = np.array([[is_missing(value) for value in row] for row in table.tolist()])
    if not gone.any():
        return ""
    columns = listed([names[j] for j in np.flatnonzero(gone.any(axis=0)).tolist()])
    return (
        f"Values are missing in {_rows(np.flatnonzero(gone.any(axis=1)).tolist(), len(table))}, "
        f"column {columns}. Fill them in, for example with sklearn's SimpleImputer, or drop the "
        "rows."
    )


def _first_text(column: Sequence[Any]) -> int | None:
    """The first row with a string that is not a number."""
    for row, value in enumerate(column):
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return row
    return None


def _rows(rows: list[int], total: int) -> str:
    return f"{len(rows)} of {total} rows (row{'s' if len(rows) > 1 else ''} {listed(rows)})"
