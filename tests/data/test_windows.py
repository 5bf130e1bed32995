"""Windows over domains in time: parts in order, nothing from the future, whole domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqrm.data.times import DomainSpans
from eqrm.data.windows import refuse_longer, refuse_unfit_times, rolling_windows
from eqrm.errors import DomainDataError, SettingError


def spans(first: Any, last: Any = None) -> DomainSpans:
    begin = np.asarray(first)
    return DomainSpans(begin, begin if last is None else np.asarray(last))


@pytest.mark.parametrize("gap", [0, 2])
@pytest.mark.parametrize("step", [None, 1, 5])
@pytest.mark.parametrize("expanding", [False, True])
def test_windows_are_those_of_plain_slices(gap: int, step: int | None, expanding: bool) -> None:
    days = np.random.default_rng(0).permutation(40)
    order = np.argsort(days)
    found = rolling_windows(spans(days), (12, 6, 4), gap=gap, step=step, expanding=expanding)
    starts = range(0, 40 - (22 + 2 * gap) + 1, step or 4)
    assert len(found) == len(starts)
    for window, start in zip(found, starts, strict=True):
        second = start + 12 + gap
        third = second + 6 + gap
        expected = (
            order[0 if expanding else start : start + 12],
            order[second : second + 6],
            order[third : third + 4],
        )
        assert all((a == b).all() for a, b in zip(window.parts, expected, strict=True))
        assert not len(window.left_out)


def test_domains_of_the_same_time_stay_together() -> None:
    times = np.repeat(np.arange(10), 3)
    for window in rolling_windows(spans(times), (10, 5), step=4):
        for part in window.parts:
            held = np.bincount(times[part], minlength=10)
            assert set(held) <= {0, 3}
        assert times[window.parts[0]].max() < times[window.parts[1]].min()


def test_a_domain_that_lasts_into_the_next_part_is_in_neither_of_them() -> None:
    first = np.arange(10)
    last = first.copy()
    last[3] = 5
    (window, *_) = rolling_windows(spans(first, last), (4, 3))
    assert [part.tolist() for part in window.parts] == [[0, 1, 2], [4, 5, 6]]
    assert window.left_out.tolist() == [3]
    (window, *_) = rolling_windows(spans(first, last), (4, 3), gap=2)  # it ends within the gap
    assert window.parts[0].tolist() == [0, 1, 2, 3]


def test_windows_longer_than_the_data_are_refused_with_the_numbers() -> None:
    with pytest.raises(SettingError, match=r"115 domains \(certify 80, judge 30, 1 gap of 5\)"):
        refuse_longer(100, {"certify": 80, "judge": 30}, gap=5)
    refuse_longer(115, {"certify": 80, "judge": 30}, gap=5)


def test_what_is_wrong_with_times_is_said_at_once() -> None:
    days = np.array(["2013-01-01", "2013-01-01", "2999-01-01"], dtype="datetime64[us]")
    with pytest.raises(DomainDataError) as caught:
        refuse_unfit_times(spans(days), ["2013-01-01", "2013-01", "2999-01-01"], 1, named=True)
    said = str(caught.value)
    assert "domain '2999-01-01' are in the future (2999-01-01)" in said
    assert "repeated: '2013-01-01' and '2013-01' are the same time" in said


def test_a_domain_that_comes_again_is_refused() -> None:
    first = np.arange(20)
    last = first.copy()
    last[2] = 15
    with pytest.raises(DomainDataError, match=r"Rows of domain 'C' come again after 5 other"):
        refuse_unfit_times(spans(first, last), list("ABCDEFGHIJKLMNOPQRST"), 5, named=False)
    refuse_unfit_times(spans(first, first + 1), list("ABCDEFGHIJKLMNOPQRST"), 5, named=False)
