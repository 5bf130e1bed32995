"""Category columns of pandas and polars frames, by whose values trees split.

The libraries are given codes: places in the list of categories that was learned. Columns and
categories are found by name, so that a frame whose categories are in another order, or that has
plain strings, is read alike. Missing values and categories that were not learned are missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from eqrm.checks import is_missing
from eqrm.errors import DomainDataError, EqrmWarning
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import listed

Categories = dict[str, tuple[str, ...]]
"""The categories of each column that has any, as text."""


def learned_categories(X: Any) -> Categories:
    """The columns of dtype category (in polars Categorical and Enum) and their categories."""
    found = {}
    for name in _columns(X):
        values = _categories_of(X[name])
        if values is not None:
            found[name] = tuple(_text(value) for value in values)
    unusable = [name for name in found if not isinstance(name, str)]
    if unusable:
        raise DomainDataError(
            f"Category columns must be named by strings, got {listed(unusable)}. Rename the "
            "columns, for example X.columns = X.columns.astype(str)."
        )
    return found


def coded(X: Any, categories: Mapping[str, tuple[str, ...]]) -> Any:
    """The frame with codes in place of the categories; X itself where there are none."""
    if not categories:
        return X
    names = _columns(X)
    absent = [name for name in categories if name not in names]
    if absent:
        raise DomainDataError(
            f"X has no column {listed(absent)}, by whose categories the model splits. Pass a frame "
            "of pandas or polars with the columns of training."
        )
    codes = {name: _codes(X[name], texts) for name, texts in categories.items()}
    for name, found in codes.items():
        missing = X[name].is_null() if hasattr(X, "with_columns") else X[name].isna()
        if len(found) and np.isnan(found).all() and not missing.all():
            warnings.warn(
                f"No value of column {name!r} is one of its {len(categories[name]):,} categories "
                f"in training, such as {categories[name][0]!r}: all are read as missing.",
                EqrmWarning,
                stacklevel=6,
            )
    if hasattr(X, "with_columns"):  # polars
        return X.with_columns([type(X[name])(name, array) for name, array in codes.items()])
    X = X.copy(deep=False)
    for name, array in codes.items():
        X[name] = array
    return X


def _columns(X: Any) -> list[Any]:
    """The names of a frame's columns; none where two are the same, which scikit-learn refuses."""
    frame = hasattr(X, "columns") and hasattr(X, "shape")
    named = frame and (hasattr(X, "with_columns") or hasattr(X, "assign"))
    names = list(X.columns) if named else []
    return names if len(set(names)) == len(names) else []


def _categories_of(column: Any) -> list[Any] | None:
    kind = str(column.dtype)
    if kind == "category":  # pandas
        return list(column.cat.categories)
    if kind.startswith("Enum"):
        return list(column.dtype.categories)
    return sorted(column.drop_nulls().unique().to_list()) if kind.startswith("Categ") else None


def _codes(column: Any, texts: tuple[str, ...]) -> Array:
    """The place of each value among the learned categories, NaN where it is not among them."""
    places = {text: float(place) for place, text in enumerate(texts)}
    if str(column.dtype) == "category":
        own = [places.get(_text(value), np.nan) for value in column.cat.categories]
        return np.array([*own, np.nan]).take(np.asarray(column.cat.codes))
    values = column.to_list() if hasattr(column, "to_list") else list(column)
    absent = [not isinstance(value, str) and is_missing(value) for value in values]
    numbers = [
        np.nan if gone else places.get(_text(value), np.nan)
        for value, gone in zip(values, absent, strict=True)
    ]
    return np.array(numbers, np.float64)


def _text(value: Any) -> str:
    """A category as text; numbers without a fraction as integers, days without a time."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value).removesuffix(" 00:00:00") if hasattr(value, "isoformat") else str(value)


def checked_categories(found: Any, columns: Any) -> Categories:
    """What a model file says of its categories; else ``ValueError``."""
    names = set(map(str, columns))
    kept = {}
    for name, texts in dict(found).items():
        texts = tuple(texts)
        fits = all(isinstance(text, str) for text in texts) and len(set(texts)) == len(texts)
        if name not in names or not fits:
            raise ValueError(f"its categories of {name!r} are not a list of different names")
        kept[str(name)] = texts
    return kept
