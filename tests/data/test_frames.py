"""Frames of every kind: columns are found by name, in whatever order they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eqrm.data import Table
from eqrm.data.tables import frames
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.errors import DomainDataError

ROWS = {"age": [31.0, 57.0, None], "ward": ["A", "B", "A"], "visits": [3, 1, 2]}
KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "nullable pandas": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "polars": pl.DataFrame,
    "Arrow table": pa.table,
    "Arrow batch": lambda rows: pa.RecordBatch.from_pydict(rows),
    "mapping": dict,
}
EXPECTED = np.array([[3, 31], [1, 57], [2, np.nan]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reordered", [False, True])
def test_columns_are_found_by_name_in_every_kind_of_frame(kind: str, reordered: bool) -> None:
    frame = KINDS[kind](dict(reversed(ROWS.items())) if reordered else ROWS)
    assert sorted(frames.frame_columns(frame)) == sorted(ROWS)
    np.testing.assert_array_equal(frames.number_matrix(frame, ["visits", "age"]), EXPECTED)
    assert frames.column(frame, "ward").tolist() == ROWS["ward"]
    assert frames.column(frame, ["ward", "visits"]).tolist() == ["A | 3", "B | 1", "A | 2"]


@pytest.mark.parametrize("kind", KINDS)
def test_absent_columns_and_dates_are_refused_in_words(kind: str) -> None:
    frame = KINDS[kind](ROWS)
    with pytest.raises(DomainDataError, match=r"no columns 'Age', 'sex'. Did you mean 'age'"):
        frames.number_matrix(frame, ["Age", "visits", "sex"])
    with pytest.raises(DomainDataError, match="'ward' does not hold numbers only"):
        frames.number_matrix(frame, ["ward"])
    dated = KINDS[kind]({"day": list(pd.to_datetime(["2013-01-01"]))})
    with pytest.raises(DomainDataError, match="'day' does not hold numbers only"):
        frames.number_matrix(dated, ["day"])


@pytest.mark.parametrize("given", [np.zeros((2, 2)), [[1, 2]], "file.csv", 3])
def test_what_has_no_named_columns_is_not_a_frame(given: Any) -> None:
    assert not frames.is_frame(given)
    with pytest.raises(DomainDataError, match=rf"named columns .*got {type(given).__name__}"):
        frames.frame_columns(given)


def test_a_name_that_stands_for_two_columns_is_refused() -> None:
    with pytest.raises(DomainDataError, match=r"2 columns .a.\. Rename"):
        frames.number_matrix(pd.DataFrame([[1, 2]], columns=["a", "a"]), ["a"])


def test_a_preprocessor_knows_nothing_of_domains_that_it_was_not_fitted_on() -> None:
    """Means and scales are those of the training domains; ages in Rome would change both."""
    table = Table(
        {"age": [30.0, 50.0, 900.0], "ward": ["A", "B", "A"]}, ["ill", "well", "ill"], list("abr")
    )
    preprocessor = TablePreprocessor.fit(table.in_domains(["a", "b"]))
    data = preprocessor.encode(table)
    np.testing.assert_allclose(data.x[:, 0], [-1.0, 1.0, 86.0])
    assert data.y.tolist() == [0, 1, 0]
    assert data.target_names == ("ill", "well")
    assert TablePreprocessor.from_dict(preprocessor.to_dict()) == preprocessor
