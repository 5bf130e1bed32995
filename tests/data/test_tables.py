"""Tables: columns, target and domains are kept as they are, or refused in words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from eqrm.data import Table
from eqrm.data.tables.columns import as_column, missing_in
from eqrm.errors import DomainDataError, SettingError


def small() -> Table:
    return Table({"age": [30, 40, 50], "ward": ["A", "B", "A"]}, [0, 1, 1], [7, 7, 8])


def test_a_split_keeps_whole_domains_apart_and_loses_no_row() -> None:
    domains = np.repeat(np.arange(20), 3)
    table = Table({"x": np.arange(60.0)}, np.zeros(60), domains)
    train, held_out = table.split(0.25, seed=1)
    assert len(held_out.domain_names) == 5
    assert not set(train.domain_names) & set(held_out.domain_names)
    both = np.concatenate([train.columns["x"], held_out.columns["x"]])
    assert np.array_equal(np.sort(both), table.columns["x"])
    assert table.split(0.25, seed=2)[1].domain_names != held_out.domain_names


def test_a_split_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(DomainDataError, match="Unknown domain '9'"):
        small().split(["9"])
    with pytest.raises(SettingError, match="No domain of 2 is left to train on"):
        small().split(["7", "8"])
    with pytest.raises(SettingError, match="No domain of 2 is left to hold out"):
        small().split([])
    with pytest.raises(SettingError, match=r"At least two domains .* got only '7' in 'domain'\."):
        small().in_domains(["7"]).split(0.5)
    with pytest.raises(
        SettingError, match=r"hold out must be a number strictly between 0 and 1, got 1\.5"
    ):
        small().split(1.5)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_text_and_numbers_are_kept_as_missing(missing: object) -> None:
    text = as_column(np.array(["a", missing], dtype=object), "c")
    numbers = as_column(np.array([1, missing], dtype=object), "c")
    assert missing_in(text).tolist() == missing_in(numbers).tolist() == [False, True]


@pytest.mark.parametrize(
    ("columns", "target", "domains", "words"),
    [
        ({"a": [1.0]}, [np.nan], ["x"], "target 'target' is missing in 1 of 1 rows .first: row 1"),
        ({"a": [1.0, 2]}, [0, 1], ["x", ""], "domains \\('domain'\\) are missing in 1 of 2 rows"),
        ({"a": [1.0, 2]}, [0, 1], np.array(["x", None], dtype=object), "domains .* are missing"),
        ({"a": [1.0, 2]}, [0, np.inf], ["x", "y"], "target 'target' is inf in row 2"),
        ({"a": [1.0, 2]}, [0.0], ["x"], "Column 'a' has 2 rows and the target has 1"),
        ({"a": [1.0]}, [0.0], ["x", "y"], "column of domains has 2 rows and the target has 1"),
        ({"a": []}, [], [], "no rows"),
        ({"a": np.zeros((1, 2))}, [0.0], ["x"], "one value per row"),
        ({"a": np.array([3], dtype="m8[D]")}, [0.0], ["x"], "neither numbers, text nor dates"),
        ({"a": np.array([1, "b"], dtype=object)}, [0, 1], ["x", "y"], "holds int and str, but"),
        ({"a": np.array([[], {}], dtype=object)}, [0, 1], ["x", "y"], "holds dict and list, but"),
    ],
)
def test_what_cannot_be_a_table_is_refused_in_words(
    columns: dict[str, object], target: object, domains: object, words: str
) -> None:
    with pytest.raises(DomainDataError, match=words):
        Table(columns, target, domains)  # type: ignore[arg-type]
