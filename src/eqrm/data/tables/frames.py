"""Columns of a table in memory: pandas, polars, Arrow, or anything with columns by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.domains import joined_name
from eqrm.errors import DomainDataError, near_names


def in_memory(values: Any) -> NDArray[Any]:
    """A numpy array of a tensor, a column of a frame, or a list."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    try:
        return np.asarray(values)
    except ValueError:
        raise DomainDataError(
            "The rows have different lengths. Give one number per example, or as many "
            "probabilities in each row as there are classes."
        ) from None


def column(table: Any, name: Any) -> Any:
    """A column as an array; several columns together make one of joined texts.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"city": ["Oslo", "Rome"], "year": [1, 2]})
    >>> column(table, "city").tolist(), column(table, ["city", "year"]).tolist()
    (['Oslo', 'Rome'], ['Oslo | 1', 'Rome | 2'])
    >>> column(table, "cty")
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: There is no column 'cty' in the table. Did you mean 'city'? ...
    """
    if isinstance(name, (list, tuple)):
        parts = [in_memory(column(table, part)).tolist() for part in name]
        if len(parts) == 1:
            return column(table, name[0])
        return np.array([joined_name(row) for row in zip(*parts, strict=True)], dtype=object)
    names = _names(table)
    if name not in names:
        raise DomainDataError(
            f"There is no column {name!r} in the table. {near_names(name, names)}"
        )
    if names.count(name) > 1:
        raise DomainDataError(
            f"There are {names.count(name)} columns {name!r} in the table. Rename them apart."
        )
    values = table[name]
    if hasattr(values, "cat") and hasattr(values.cat, "codes"):
        return values  # a pandas categorical keeps its categories
    return in_memory(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _names(table: Any) -> list[str]:
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None and all(isinstance(name, (str, int)) for name in names):
            return list(names)
    if isinstance(table, Mapping):
        return list(table)
    raise DomainDataError(
        "Data must be a file, a pattern of files, or a table with named columns "
        f"(pandas, polars, Arrow), not {type(table).__name__}."
    )
