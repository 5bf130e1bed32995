"""Tables in memory: pandas, polars, Arrow tables and record batches, mappings of columns.

The one reader of frames: columns are found by name, whatever the kind of frame and their order.
No package is imported to read them; frames are recognised by their methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqrm.arrays import refuse_masked
from eqrm.domains import NumberAsName, joined_columns
from eqrm.errors import DomainDataError
from eqrm.text import did_you_mean, listed

if TYPE_CHECKING:
    from pandas import DataFrame


def in_memory(values: Any) -> NDArray[Any]:
    """A numpy array of a tensor, a column of a frame, or a list."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    refuse_masked(values)
    try:
        return np.asarray(values)
    except ValueError:
        raise DomainDataError(
            "The rows have different lengths. Give one number per example, or one probability per "
            "class in each row."
        ) from None


def is_frame(values: Any) -> bool:
    """Whether something is a table with named columns."""
    return _names(values) is not None


def frame_columns(frame: Any) -> list[Any]:
    """The names of the columns of a frame; raises for data without named columns."""
    names = _names(frame)
    if names is None:
        raise DomainDataError(
            "Data must be a table with named columns (pandas, polars, Arrow, or a mapping), got "
            f"{type(frame).__name__}."
        )
    return names


def _names(frame: Any) -> list[Any] | None:
    names: Any = frame.schema.names if _is_arrow(frame) else getattr(frame, "columns", None)
    if isinstance(frame, Mapping):
        names = None if hasattr(frame, "nnz") else list(frame)  # one is a sparse array of scipy
    if names is None or callable(names) or any(not isinstance(n, (str, int)) for n in names):
        return None
    return list(names)


def _is_arrow(frame: Any) -> bool:
    """An Arrow table or record batch; the schema of a polars frame has a method for its names."""
    return isinstance(getattr(getattr(frame, "schema", None), "names", None), list)


def column(frame: Any, name: Any) -> Any:
    """A column as an array, or a pandas categorical; several are joined into one of strings."""
    if isinstance(name, (list, tuple)):
        return joined_columns([column(frame, part) for part in name])
    if not isinstance(name, (str, int, np.integer)):
        raise DomainDataError(
            f"Columns of a table are given by name, got {type(name).__name__}: add it to the table."
        )
    refuse_absent([name], frame_columns(frame))
    values = _stored(frame, name)
    if isinstance(name, NumberAsName):
        return in_memory(values).astype(str)
    is_categorical = hasattr(getattr(values, "cat", values), "codes")
    return values if is_categorical else in_memory(values)


def _stored(frame: Any, name: Any) -> Any:
    return frame.column(name) if _is_arrow(frame) else frame[name]


def refuse_absent(needed: Sequence[Any], there: Sequence[Any]) -> None:
    """Raise if columns are absent, listing all of them, or if two columns have the same name."""
    absent = [name for name in needed if name not in there]
    if absent:
        what = "column" if len(absent) == 1 else "columns"
        hint = did_you_mean(absent[0], there)
        raise DomainDataError(f"The table has no {what} {listed(absent)}. {hint}")
    for name in needed:
        if there.count(name) > 1:
            raise DomainDataError(
                f"The table has {there.count(name)} columns {name!r}. Rename them."
            )


def number_matrix(frame: Any, names: Sequence[Any]) -> NDArray[np.float64]:
    """Columns of numbers by name, in this order: (n, columns) float64, NaN where missing."""
    refuse_absent(names, frame_columns(frame))
    return np.column_stack([_numbers(frame, name) for name in names])


def _numbers(frame: Any, name: Any) -> NDArray[np.float64]:
    values = _stored(frame, name)
    try:
        if hasattr(values, "iloc") and hasattr(values.dtype, "na_value"):  # pandas' NA
            values = values.to_numpy(na_value=np.nan)
        array = in_memory(values)
        if array.dtype.kind in "mM":
            raise TypeError("a date or a duration")
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise DomainDataError(
            f"Column {name!r} does not hold numbers only. Convert it to numbers, or leave it "
            "out of the features."
        ) from None


def data_frame(columns: Mapping[str, Any], like: Any = None) -> DataFrame:
    """Columns by name as a data frame of pandas, with the index of ``like`` where that is one."""
    import pandas

    index = like.index if isinstance(like, pandas.DataFrame) else None
    return pandas.DataFrame(dict(columns), index=index)
