"""Encoding of tables: what comes out is scikit-learn's, and nothing is filled in silently."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from eqrm.data.tables.encoded_columns import UnseenCategoryWarning
from eqrm.data.tables.encoder import TableEncoder
from eqrm.errors import DomainDataError, SettingError

RNG = np.random.default_rng(0)


def columns(rows: int = 50) -> dict[str, np.ndarray]:
    return {
        "age": RNG.normal(50, 12, rows),
        "ward": RNG.choice(["A", "B", "C", "long name"], rows),
        "dose": RNG.lognormal(3, 2, rows),
    }


def test_the_matrix_is_that_of_scikit_learns_encoders() -> None:
    train, new = columns(), columns(20)
    numbers = StandardScaler().fit(np.column_stack([train["age"], train["dose"]]))
    wards = OneHotEncoder(sparse_output=False).fit(train["ward"][:, None])
    scaled = numbers.transform(np.column_stack([new["age"], new["dose"]]))
    expected = np.column_stack([scaled[:, 0], wards.transform(new["ward"][:, None]), scaled[:, 1]])
    np.testing.assert_allclose(TableEncoder.fit(train).transform(new), expected)


def test_unseen_categories_are_zero_and_announced_by_value() -> None:
    encoder = TableEncoder.fit({"ward": ["A", "B", "A"]})
    with pytest.warns(UnseenCategoryWarning, match=r"'ward'.*'C', 'D', in 3 of 4 rows"):
        matrix = encoder.transform({"ward": ["C", "A", "D", "C"]})
    np.testing.assert_array_equal(matrix, [[0, 0], [1, 0], [0, 0], [0, 0]])


def test_unseen_categories_are_an_error_where_asked_for() -> None:
    encoder = TableEncoder.fit({"ward": ["north", "south"]})
    with pytest.raises(DomainDataError, match=r"'nort'.*Did you mean 'north'"):
        encoder.transform({"ward": ["nort"]}, unseen="error")
    with pytest.raises(SettingError, match="Did you mean 'warn'"):
        encoder.transform({"ward": ["north"]}, unseen="warm")


def test_missing_numbers_become_the_mean_and_an_indicator() -> None:
    ages = np.append(np.arange(19.0), np.nan)
    encoder = TableEncoder.fit({"age": ages})
    matrix = encoder.transform({"age": ages})
    assert encoder.features == ("age", "age is missing")
    assert matrix[-1].tolist() == [0.0, 1.0]
    assert matrix[:-1, 1].sum() == 0
    assert encoder.notes == (
        "Column 'age' is missing in 1 of the 20 rows (5.0%): missing values get the mean, and an "
        "indicator.",
    )


DAYS = np.array(["2013-01-30", "2013-02-01", "2014-02-01"] * 3 + ["NaT"] * 2, dtype="M8[us]")


@pytest.mark.parametrize("column", [[1.0, 2.0] * 4 + [np.nan] * 2, DAYS[1:]])
def test_more_than_a_tenth_missing_is_an_error_or_allowed(column: list[object]) -> None:
    with pytest.raises(DomainDataError, match=r"missing in 20% of .* \(2 of 10\).*max_missing=0.2"):
        TableEncoder.fit({"x": column})
    allowed = TableEncoder.fit({"x": column}, max_missing=0.2)
    assert allowed.features[-1] == "x is missing"
    assert allowed.transform({"x": column})[:, -1].tolist() == [0.0] * 8 + [1.0] * 2
    native = TableEncoder.fit({"x": column}, native=True)
    assert "x is missing" not in native.features
    matrix = native.transform({"x": column})
    assert np.isnan(matrix[-2:]).any(axis=1).all()
    assert not np.isnan(matrix[:-2]).any()
    np.testing.assert_array_equal(matrix, _saved(native).transform({"x": column}))


def test_dates_become_year_month_weekday_and_days_since_the_first() -> None:
    encoder = TableEncoder.fit({"x": DAYS[:9]})
    assert encoder.features == (
        *("x year", "x month=1", "x month=2", "x weekday=Wed", "x weekday=Fri", "x weekday=Sat"),
        "x days since 2013-01-30",
    )
    days = pd.Series(pd.to_datetime(["2013-02-01 00:00", "2015-03-02 12:00"]))
    matrix = encoder.transform({"x": days})
    year, since = np.array([2013.0, 2013, 2014] * 3), np.array([0.0, 2, 367] * 3)
    expected = [
        [(2013 - year.mean()) / year.std(), 0, 1, 0, 1, 0, (2 - since.mean()) / since.std()],
        [(2015 - year.mean()) / year.std(), 0, 0, 0, 0, 0, (761.5 - since.mean()) / since.std()],
    ]
    np.testing.assert_allclose(matrix, expected)
    np.testing.assert_array_equal(matrix, _saved(encoder).transform({"x": days}))
    none = np.array(["NaT"], "M8[us]")
    with pytest.raises(DomainDataError, match="'x' is missing in 1 of 1 rows"):
        encoder.transform({"x": none}, unseen="error")
    with pytest.warns(UnseenCategoryWarning, match="'x' is missing in 1 of 1 rows"):
        assert not encoder.transform({"x": none}).any()


def _saved(encoder: TableEncoder) -> TableEncoder:
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
    assert again == encoder
    return again


def test_identifiers_are_left_out_unless_asked_for() -> None:
    rows = np.arange(120)
    frame = {
        "id": rows[::-1] + 5000.0,
        "code": (rows // 6) * 3.0 + 1,
        "beds": np.repeat(RNG.permutation(2000)[:20], 6).astype(float),
        "income": np.repeat(RNG.normal(size=20), 6),
        "name": [f"N{row // 6}" for row in rows],
        "key": [f"K{row}" for row in rows],
        "age": RNG.normal(size=120),
    }
    encoder = TableEncoder.fit(frame, domains=rows // 6)
    assert encoder.names == ("beds", "income", "age")
    assert len([note for note in encoder.notes if "To use it, list it in features" in note]) == 4
    kept = TableEncoder.fit(frame, domains=rows // 6, asked=["id", "code"])
    assert kept.names == ("id", "code", "beds", "income", "age")
    assert len(TableEncoder.fit(frame).names) == 7  # without domains, nothing is known


def test_constant_columns_are_left_out_and_said_so() -> None:
    encoder = TableEncoder.fit({"x": [1.0, 2.0], "c": [7.0, 7.0], "d": ["a", "a"]})
    assert encoder.features == ("x",)
    assert len(encoder.notes) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.transform({"x": [1.0]})  # they are not asked for again
    with pytest.raises(DomainDataError, match="No feature is left"):
        TableEncoder.fit({"c": [7.0, 7.0]})


@pytest.mark.parametrize(
    ("trained", "now"),
    [([1.0, 2.0], ["31", "old"]), (["A", "B"], [1.0, 2.0]), (DAYS[:9], ["soon"])],
)
def test_a_column_of_another_kind_than_in_training_is_named(trained: Any, now: Any) -> None:
    with pytest.raises(DomainDataError, match="The kind of column 'x' was"):
        TableEncoder.fit({"x": trained}).transform({"x": now})


ROWS = 4000
DRAWS = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("patient_id", DRAWS.integers(100_000, 120_000, ROWS), " and is named like an identifier"),
        ("KundenNr", DRAWS.integers(0, 3 * ROWS, ROWS), " and is named like an identifier"),
        ("who", DRAWS.integers(10**8, 10**9, ROWS), ", spread evenly from 10"),
    ],
)
def test_integers_that_seldom_repeat_may_be_identifiers(
    name: str, values: np.ndarray, words: str
) -> None:
    values[:2] = values[2]  # some repeat
    columns = {name: values, "x": DRAWS.normal(size=ROWS)}
    domains = np.repeat(np.arange(40), ROWS // 40)
    encoder = TableEncoder.fit(columns, domains=domains)
    assert encoder.names == ("x",)
    assert f"different integers in 4,000 rows{words}" in encoder.notes[0]
    assert "and left out. To use it, list it in features with" in encoder.notes[0]
    assert name in TableEncoder.fit(columns, domains=domains, asked=[name]).names


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("income", DRAWS.lognormal(10.5, 0.5, ROWS).round()),
        ("population", (1e4 * DRAWS.pareto(1.2, ROWS)).round() + 1000),
        ("paid", DRAWS.integers(10_000, 90_000, ROWS)),
        ("seen", DRAWS.integers(1_600_000_000, 1_690_000_000, ROWS)),
        ("patient_id", DRAWS.integers(0, 500, ROWS)),
    ],
)
def test_measurements_that_seldom_repeat_are_features(name: str, values: np.ndarray) -> None:
    values[:2] = values[2]
    domains = np.repeat(np.arange(40), ROWS // 40)
    assert TableEncoder.fit({name: values}, domains=domains).names == (name,)


def test_infinite_numbers_are_refused_in_training_and_later() -> None:
    with pytest.raises(DomainDataError, match=r"infinite in 1 rows \(first: row 2\)"):
        TableEncoder.fit({"x": [1.0, np.inf]})
    with pytest.raises(DomainDataError, match="infinite"):
        TableEncoder.fit({"x": [1.0, 2.0]}).transform({"x": [-np.inf]})
    with pytest.raises(DomainDataError, match="too large"):
        TableEncoder.fit({"x": [1e308, -1e308, 1e308]})
