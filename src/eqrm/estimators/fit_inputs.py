"""What comes into ``fit`` and ``predict``, checked once, with errors that name rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from eqrm.checks import is_missing
from eqrm.errors import DomainDataError
from eqrm.estimators.groups import Groups, as_groups
from eqrm.linear.solving.risk_functions import Array

SHOWN = 5
LARGEST_DENSE = 4e9
"""Bytes that a sparse X may take as a dense one."""


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows with a positive weight: X (n, d), y (n,), their domains, and weights where given."""

    X: Array
    y: NDArray[Any]
    groups: Groups
    sample_weight: Array | None

    def only(self, kept: NDArray[np.bool_]) -> TrainingRows:
        """Some of the rows; a domain without any of them is left out."""
        weights = None if self.sample_weight is None else self.sample_weight[kept]
        return TrainingRows(self.X[kept], self.y[kept], self.groups.only(kept), weights)


def training_rows(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    sample_weight: Any,
    *,
    classification: bool,
    level_asked: bool,
    reset: bool = True,
) -> TrainingRows:
    """Check and align everything that ``fit`` was given.

    Rows of weight 0 are left out, as their weight says, and so are domains without any other.
    ``reset=False`` is for further rows, whose features must be those of the first.
    """
    y = _checked_target(estimator, y, classification)
    X = checked_features(estimator, X, y, reset=reset)
    target = np.asarray(y) if classification else np.asarray(y, dtype=np.float64)
    if target.ndim == 2:
        target = target[:, 0]
    domains = as_groups(groups, len(X), level_asked=level_asked, stacklevel=4)
    if sample_weight is None:
        return TrainingRows(X, target, domains, None)
    weights = _checked_weights(sample_weight, X)
    rows = TrainingRows(X, target, domains, weights)
    return rows if (weights > 0.0).all() else rows.only(weights > 0.0)


def checked_features(estimator: Any, X: Any, y: Any = None, *, reset: bool = False) -> Array:
    """X as float64 (n, d); sparse matrices become dense ones.

    NaN is let through where the estimator's tags say that it knows what to do with it.
    """
    options: dict[str, Any] = {
        "ensure_all_finite": "allow-nan" if get_tags(estimator).input_tags.allow_nan else True,
        "reset": reset,
        "accept_sparse": "csr",
        "dtype": np.float64,
        "order": "C",
    }
    with naming_cells(X):
        if y is None:
            found = validate_data(estimator, X, **options)
        else:
            numeric = getattr(y, "dtype", np.dtype(object)).kind in "fiub"
            found, _ = validate_data(
                estimator, X, y, multi_output=False, y_numeric=numeric, **options
            )
    return _dense(found)


def _dense(X: Any) -> Array:
    if not issparse(X):
        found: Array = X
        return found
    size = 8.0 * X.shape[0] * X.shape[1]
    if size > LARGEST_DENSE:
        raise DomainDataError(
            f"X is sparse, and as a dense array it would take {size / 1e9:.1f} GB. Use fewer "
            "columns or rows."
        )
    return np.ascontiguousarray(X.toarray(), dtype=np.float64)


def _checked_target(estimator: Any, y: Any, classification: bool) -> NDArray[Any]:
    if y is None:
        raise DomainDataError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    column = y.to_numpy() if hasattr(y, "to_numpy") else y
    found = np.asarray(column)
    if found.dtype.kind == "O":
        rows = [i for i, value in enumerate(found.ravel().tolist()) if is_missing(value)]
        if rows:
            raise DomainDataError(
                f"Input y contains NaN: the target is missing in {_rows(rows, len(found))}. Drop "
                "those rows or fill them in."
            )
    elif found.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~np.isfinite(found.ravel()))
        if bad.size:
            raise DomainDataError(
                f"Input y contains NaN or infinity: the target is not finite in "
                f"{_rows(bad.tolist(), len(found))}. Drop those rows or fill them in."
            )
    if classification:
        check_classification_targets(found)
        return found
    return _numeric_target(found)


def _numeric_target(y: NDArray[Any]) -> NDArray[Any]:
    if y.dtype.kind in "OUS":
        try:
            return y.astype(np.float64)
        except (TypeError, ValueError):
            raise DomainDataError(
                f"Unknown label type: the target of a regression must be numbers, but y holds "
                f"{y.ravel()[:1].tolist()[0]!r}. For classes, use QRMClassifier."
            ) from None
    return y


def _checked_weights(sample_weight: Any, X: Array) -> Array:
    weights: Array = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not (weights > 0.0).any():
        raise DomainDataError("sample_weight is 0 in every row: nothing is left to fit to.")
    return weights


@contextmanager
def naming_cells(X: Any) -> Iterator[None]:
    """Say in which column and row the value is that scikit-learn refuses.

    >>> with naming_cells([[1.0, float("nan")]]):
    ...     raise ValueError("Input contains NaN.")
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: Input contains NaN. It is missing in 1 of 1 rows (row 0), ...
    """
    try:
        yield
    except ValueError as error:
        where = _where(X)
        if isinstance(error, DomainDataError) or not where:
            raise
        raise DomainDataError(f"{str(error).splitlines()[0].rstrip('.')}. {where}") from None


def _where(X: Any) -> str:
    if issparse(X) or getattr(X, "ndim", 2) != 2:
        return ""
    try:
        table = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=object)
    except ValueError:
        return ""
    if table.ndim != 2 or table.size == 0:
        return ""
    names = [repr(name) for name in getattr(X, "columns", range(table.shape[1]))]
    for place, name in enumerate(names):
        column = table[:, place].tolist()
        texts = [
            i for i, value in enumerate(column) if isinstance(value, str) and not _reads(value)
        ]
        if texts:
            return (
                f"Column {name} of X holds texts such as {column[texts[0]]!r} (row {texts[0]}). "
                "Turn texts into numbers first, for example by sklearn's OneHotEncoder."
            )
    gone = np.array([[is_missing(value) for value in row] for row in table.tolist()])
    if not gone.any():
        return ""
    rows = np.flatnonzero(gone.any(axis=1)).tolist()
    columns = ", ".join(names[j] for j in np.flatnonzero(gone.any(axis=0))[:SHOWN].tolist())
    return (
        f"It is missing in {_rows(rows, len(table))}, column {columns}. Fill such values in, for "
        "example by sklearn's SimpleImputer, or drop the rows."
    )


def _reads(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _rows(rows: list[int], total: int) -> str:
    shown = ", ".join(map(str, rows[:SHOWN]))
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"{len(rows)} of {total} rows (row{'s' if len(rows) > 1 else ''} {shown}{more})"
