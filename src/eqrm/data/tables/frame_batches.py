"""Batches (X, y, domains) of a table: pandas, Arrow, or anything that gives one of them in parts.

No package is imported here: a table is known by its methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import DomainDataError, did_you_mean

ROWS_AT_ONCE = 1 << 18


def parts_of(table: Any) -> Iterator[Any]:
    """Data frames or Arrow record batches of a limited number of rows, in order."""
    if hasattr(table, "iloc"):
        for start in range(0, len(table), ROWS_AT_ONCE):
            yield table.iloc[start : start + ROWS_AT_ONCE]
    elif hasattr(table, "to_batches"):  # an Arrow table
        yield from table.to_batches(max_chunksize=ROWS_AT_ONCE)
    elif hasattr(table, "schema") and hasattr(table, "num_rows"):  # an Arrow record batch
        yield table
    elif isinstance(table, Iterable) and not isinstance(table, (str, bytes, dict)):
        for part in table:
            yield from parts_of(part)
    else:
        raise DomainDataError(
            "A table must be a pandas DataFrame, a pyarrow Table or RecordBatchReader, or an "
            f"iterable of these, not {type(table).__name__}."
        )


def columns_of(part: Any) -> list[str]:
    """The names of the columns of a data frame or an Arrow record batch."""
    return list(part.schema.names) if hasattr(part, "schema") else list(part.columns)


def choose_features(
    part: Any, target: str, domain: str, features: Sequence[str] | None
) -> tuple[str, ...]:
    """The feature columns: those asked for, or all but target and domain."""
    columns = columns_of(part)
    if isinstance(features, str):
        raise DomainDataError(f"features must be a list of columns, not the text {features!r}.")
    if target == domain:
        raise DomainDataError(f"Target and domain cannot be the same column, {target!r}.")
    chosen = columns if features is None else list(features)
    chosen = [name for name in chosen if features is not None or name not in (target, domain)]
    for name in (target, domain, *chosen):
        if name not in columns:
            raise DomainDataError(
                f"The table has no column {name!r}. {did_you_mean(name, map(str, columns))}"
            )
        if columns.count(name) > 1:
            raise DomainDataError(f"The table has {columns.count(name)} columns {name!r}.")
    if not chosen:
        raise DomainDataError("The table has no feature columns beside target and domain.")
    return tuple(chosen)


def batch_of(
    part: Any, features: Sequence[str], target: str, domain: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], Any]:
    """X, y and domains of a part of a table."""
    X = np.column_stack([numbers(part, name) for name in features])
    return X, numbers(part, target), labels(part, domain)


def numbers(part: Any, name: str) -> NDArray[np.float64]:
    """A column as float64, missing values as NaN."""
    try:
        if hasattr(part, "schema"):
            values = part.column(name).to_numpy(zero_copy_only=False)
        else:
            values = part[name].to_numpy(na_value=np.nan)
        if values.dtype.kind in "mM":
            raise TypeError("a date or a duration")
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DomainDataError(
            f"Column {name!r} holds something that is no number. Turn it into numbers first, "
            "or leave it out of the features."
        ) from None


def labels(part: Any, name: str) -> Any:
    """The domain of each row."""
    if hasattr(part, "schema"):
        return part.column(name).to_numpy(zero_copy_only=False)
    column = part[name]
    return column if hasattr(column, "cat") else column.to_numpy()
