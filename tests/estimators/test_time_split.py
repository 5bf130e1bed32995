"""DomainTimeSplit and DomainRollingSplit: the past to train on, later domains to test on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit

from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators import DomainRollingSplit, DomainTimeSplit


@pytest.mark.parametrize(
    "settings",
    [
        {"n_splits": 5},
        {"n_splits": 3, "test_size": 4},
        {"n_splits": 4, "gap": 2, "max_train_size": 7},
        {"n_splits": 2, "test_size": 5, "max_train_size": 3},
    ],
)
def test_with_one_row_per_domain_it_is_scikit_learns_own(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    times = rng.permutation(31)
    X, names = np.zeros((31, 1)), [f"d{i}" for i in range(31)]
    ours = DomainTimeSplit(**settings)
    found = list(ours.split(X, groups=names, times=times))
    expected = list(TimeSeriesSplit(**settings).split(X))
    assert len(found) == len(expected) == ours.get_n_splits(X, groups=names, times=times)
    for pair, theirs in zip(found, expected, strict=True):
        for rows, places in zip(pair, theirs, strict=True):
            np.testing.assert_array_equal(np.sort(times[rows]), places)


@pytest.mark.parametrize("settings", [{}, {"gap": 3}, {"max_train_size": 20}, {"test_size": 0.05}])
def test_nothing_of_the_future_is_trained_on(settings: dict[str, Any]) -> None:
    """Domains last for a while and many begin on the same day."""
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(120), 4)
    times = rng.integers(0, 60, 120)[ids] + rng.integers(0, 4, 480)
    began = np.array([times[ids == i].min() for i in range(120)])
    tested: list[int] = []
    for train, test in DomainTimeSplit(4, **settings).split(np.zeros((480, 1)), None, ids, times):
        assert times[train].max() < times[test].min()
        inside = {part: np.unique(ids[rows]) for part, rows in (("train", train), ("test", test))}
        for part, rows in (("train", train), ("test", test)):  # whole domains
            assert len(rows) == 4 * len(inside[part])
        outside = np.setdiff1d(np.arange(120), inside["test"])
        assert not set(began[inside["test"]]) & set(began[outside])  # whole moments
        tested += inside["test"].tolist()
    assert len(tested) == len(set(tested))


@pytest.mark.parametrize(
    ("splitter", "given", "message"),
    [
        (DomainTimeSplit(2), {}, "DomainTimeSplit needs groups"),
        (DomainTimeSplit(2), {"groups": list("abcdef")}, "got 'a'. Pass the time .* times="),
        (DomainTimeSplit(6), {"groups": range(6)}, "6 domains are too few for n_splits=6"),
        (DomainTimeSplit(2, gap=2), {"groups": range(6)}, "Split 1 of 2 has no domain to train"),
        (
            DomainTimeSplit(3),
            {"groups": list("abcdef"), "times": [1, 1, 1, 2, 2, 2]},
            "2 times of 6 domains are too few",
        ),
    ],
)
def test_impossible_splits_in_time_are_refused(
    splitter: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises((DomainDataError, SettingError), match=message):
        list(splitter.split(np.zeros((6, 1)), **given))


DAYS = [f"2013-01-{day:02d}" for day in range(1, 13)]


@pytest.mark.parametrize("gap", [0, 1])
def test_an_expanding_origin_is_scikit_learns_time_series_split(gap: int) -> None:
    theirs = TimeSeriesSplit(3, test_size=2, gap=gap).split(np.zeros(12))
    ours = DomainRollingSplit(6 - gap, 2, gap=gap, expanding=True).split(np.zeros(12), groups=DAYS)
    for (train, test), (expected, later) in zip(ours, theirs, strict=True):
        assert train.tolist() == expected.tolist()
        assert test.tolist() == later.tolist()


def test_a_rolling_origin_keeps_its_length_and_whole_domains() -> None:
    groups = np.repeat(np.arange(12)[::-1], 5)
    splits = list(DomainRollingSplit(4, 3, step=1).split(np.zeros(60), groups=groups))
    assert len(splits) == DomainRollingSplit(4, 3, step=1).get_n_splits(groups=groups) == 6
    for start, (train, test) in enumerate(splits):
        assert sorted(set(groups[train])) == list(range(start, start + 4))
        assert sorted(set(groups[test])) == list(range(start + 4, start + 7))
        assert len(train) == 20


@pytest.mark.parametrize(
    ("settings", "groups", "words"),
    [
        ({"train_size": 10, "test_size": 4}, list(range(12)), "A window of 14 domains"),
        ({"train_size": 0}, list(range(12)), "train_size must be an integer of at least 1"),
        ({"train_size": 2, "test_size": 2}, list("abcdefghijkl"), "got 'a'"),
    ],
)
def test_impossible_windows_are_refused(
    settings: dict[str, int], groups: list[int], words: str
) -> None:
    with pytest.raises((SettingError, ValueError), match=words):
        list(DomainRollingSplit(**settings).split(np.zeros(12), groups=groups))


def test_a_window_whose_domains_all_last_into_the_next_part_is_refused() -> None:
    groups, times = [0, 0, 1, 2, 3], [0, 9, 1, 2, 3]
    with pytest.raises(SettingError, match="Window 1 has no domain to train on"):
        list(DomainRollingSplit(1, 1).split(np.zeros(5), groups=groups, times=times))
