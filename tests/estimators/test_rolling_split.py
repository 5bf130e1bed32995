"""DomainRollingSplit: a rolling or expanding origin over whole domains, for scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit

from eqrm.errors import SettingError
from eqrm.estimators import DomainRollingSplit

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
def test_refusals_name_the_problem(settings: dict[str, int], groups: list[int], words: str) -> None:
    with pytest.raises((SettingError, ValueError), match=words):
        list(DomainRollingSplit(**settings).split(np.zeros(12), groups=groups))


def test_a_window_whose_domains_all_last_into_the_next_part_is_refused() -> None:
    groups, times = [0, 0, 1, 2, 3], [0, 9, 1, 2, 3]
    with pytest.raises(SettingError, match="Window 1 has no domain to train on"):
        list(DomainRollingSplit(1, 1).split(np.zeros(5), groups=groups, times=times))
