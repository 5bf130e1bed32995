"""Splits in time: the past is trained on, later domains are held out, nothing leaks."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from eqrm.data import DomainData, Table
from eqrm.data.splits import TimeSplit, split_in_time
from eqrm.domains import number_domains
from eqrm.errors import DomainDataError, SettingError

DAYS = [f"2013-01-{day:02d}" for day in range(1, 11)]


def split(names: Any, times: Any = None, **cut: Any) -> TimeSplit:
    return split_in_time(number_domains(names), times, **cut)


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        pd.Series(pd.to_datetime(DAYS)),
        pd.Series(pd.to_datetime(DAYS)).dt.tz_localize("Europe/Oslo"),
        [date.fromisoformat(day) for day in DAYS],
        [f"{day} 23:59:59.5+02:00" for day in DAYS],
        list(range(10)),
        [str(number) for number in range(2, 12)],  # as texts, 10 would come before 2
        pd.Series(range(10), dtype="Int64"),
        torch.arange(10),
        1_700_000_000_000_000_000 + np.arange(10),  # floats would make these equal
    ],
)
def test_any_kind_of_time_orders_domains(times: Any) -> None:
    names = list("jihgfedcba")  # later domains have earlier names
    found = split(names, times, last=0.3)
    assert found.test == ("a", "b", "c")
    assert found.train == tuple("defghij")
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("after", "first_later"),
    [
        ("2013-09-30", "2013-10-01 00:00:00"),
        ("2013-09", "2013-10-01 00:00:00"),
        (date(2013, 9, 30), "2013-10-01 00:00:00"),
        ("2013-09-30 17:00", "2013-09-30 17:00:01"),
        (datetime(2013, 9, 30, 17), "2013-09-30 17:00:01"),
        ("2013", "2014-01-01 00:00:00"),
        (2013, "2014-01-01 00:00:00"),
    ],
)
def test_after_a_day_month_or_year_means_after_its_end(after: Any, first_later: str) -> None:
    later = datetime.fromisoformat(first_later)
    times = [later - timedelta(seconds=1), later]
    found = split(["before", "later"], times, after=after)
    assert (found.train, found.test) == (("before",), ("later",))


def test_zones_are_compared_in_utc() -> None:
    oslo = timezone(timedelta(hours=2))
    times = [
        datetime(2013, 7, 1, 1, tzinfo=oslo),
        datetime(2013, 6, 30, 23, 30, tzinfo=timezone.utc),
    ]
    assert split(["oslo", "utc"], times, after="2013-06-30 23:15").test == ("utc",)


@pytest.mark.parametrize(
    ("share", "later"), [(0.1, 3), (0.4, 3), (0.6, 6), (0.99, 6)], ids=lambda value: str(value)
)
def test_domains_of_one_moment_stay_together(share: float, later: int) -> None:
    """3, 3 and 3 domains: the nearest number that separates none of one moment."""
    found = split(range(9), np.repeat([1, 2, 3], 3), last=share)
    assert len(found.test) == later
    assert len(found.train) == 9 - later


@pytest.mark.parametrize("cut", [{"last": 0.3}, {"after": 60}, {"last": 0.8}, {"after": 11.5}])
def test_no_training_row_is_later_than_any_test_row(cut: dict[str, Any]) -> None:
    """Domains that last for a while: whoever straddles the cut is in neither part."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(200), 5)
    times = rng.uniform(0, 100, 200)[ids] + rng.uniform(0, 8, 1000)
    found = split(ids, times, **cut)
    parts = [np.isin(ids, np.array(part, dtype=int)) for part in (found.train, found.test)]
    assert times[parts[0]].max() < times[parts[1]].min()
    assert sorted(
        int(name) for part in (found.train, found.test, found.left_out) for name in part
    ) == list(range(200))
    assert found.left_out
    cut_at = cut.get("after", times[parts[1]].min())
    for name in map(int, found.left_out):  # nobody is left out without need
        own = times[ids == name]
        assert own.min() <= cut_at <= own.max()


def test_a_table_and_domain_data_are_split_in_the_same_way() -> None:
    rng = np.random.default_rng(1)
    names = rng.permutation([f"d{i}" for i in range(20)]).repeat(3)
    times = np.arange(60) // 3
    table = Table({"x": np.arange(60.0)}, np.zeros(60), names, order=times, order_name="week")
    data = DomainData.from_arrays(np.arange(60.0)[:, None], np.zeros(60), names)
    found = table.in_time(last=0.25)
    assert (found.order, found.trained, found.tested) == ("week", ("0", "14"), ("15", "19"))
    train, later = table.split(found)
    assert train.columns["x"].tolist() == list(range(45))
    assert later.columns["x"].tolist() == list(range(45, 60))
    np.testing.assert_array_equal(later.order, times[45:])
    parts = data.splits(test=data.in_time(times, last=0.25), validation=0.2)
    assert parts.test is not None
    assert parts.validation is not None
    assert set(parts.test.names) == set(later.domain_names)
    assert set(parts.train.names) | set(parts.validation.names) == set(train.domain_names)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2013-01-01", None, "2013-01-03", ""], r"missing in 2 of 4 rows \(rows 1, 3, counted"),
        (np.array([1.0, np.nan, 2.0, 3.0]), r"missing in 1 of 4 rows \(row 1,"),
        (pd.Series([1, None, 2, 3], dtype="Int64"), "missing in 1 of 4 rows"),
        (["2013-01-01", "31.12.2013", "2", "3"], r"got '31.12.2013' \(row 1, counted"),
        ([1.0, float("inf"), 2.0, 3.0], "got inf"),
        (["2013-01-01", "7", "2013-01-02", "8"], "of one kind, got dates and numbers"),
        (["2013-01-01", "2013-01-01 00:00Z"] * 2, "dates and dates with a time zone"),
        ([[1], [2], [3], [4]], r"got the shape \(4, 1\)"),
    ],
)
def test_times_that_cannot_be_used_are_refused_by_their_rows(times: Any, message: str) -> None:
    with pytest.raises(DomainDataError, match=message):
        split(list("abcd"), times, last=0.5)


@pytest.mark.parametrize(
    ("names", "cut", "message"),
    [
        (["Oslo", "Rome"], {"last": 0.5}, r"got 'Oslo'. Name the column .*order="),
        (DAYS, {}, "either 'after' or 'last'"),
        (DAYS, {"after": "yesterday"}, "a date such as 2013-09-30 is needed"),
        (range(9), {"after": "2013-01-05"}, "are numbers, so a number is needed"),
        (DAYS, {"after": "2013-01-10"}, "left to test on .* from 2013-01-01 to 2013-01-10"),
        (DAYS, {"after": "2012-12-31"}, "left to train on .* Choose another cut"),
    ],
)
def test_cuts_that_make_no_sense_are_refused(names: Any, cut: dict[str, Any], message: str) -> None:
    with pytest.raises((DomainDataError, SettingError), match=message):
        split(names, **cut)


def test_domains_that_all_last_throughout_cannot_be_split() -> None:
    hospitals, times = np.repeat(list("abc"), 4), np.tile([1, 2, 3, 4], 3)
    with pytest.raises(SettingError, match=r"3 of 3 domains have rows on both sides.*end before"):
        split(hospitals, times, after=2)
    with pytest.raises(SettingError, match="All 3 domains begin at 1"):
        split(hospitals, times, last=0.5)
