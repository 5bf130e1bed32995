"""Online bounds: values by hand, the guarantee for any sequence, saved states."""

from __future__ import annotations

import json
import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqrm import OnlineBound
from eqrm.errors import DomainDataError, SettingError


def test_tracking_moves_the_bound_by_hand() -> None:
    bound = OnlineBound(0.9, method="tracking", limits=(0, 10), step=0.1)
    assert (bound.bound, bound.update(10.0)) == (10.0, False)
    assert bound.bound == pytest.approx(9.9)
    assert bound.update(10.0)
    assert bound.bound == pytest.approx(10.8)
    assert bound.report.infinite == 0.5


def test_the_adaptive_bound_is_an_empirical_quantile_at_the_adapted_level() -> None:
    rng = np.random.default_rng(0)
    bound, level, past = OnlineBound(0.8, step=0.05, window=50), 0.2, []
    for risk in rng.normal(size=300):
        recent = sorted(past[-50:])
        rank = math.ceil((len(recent) + 1) * (1 - level) - 1e-9)
        expected = math.inf if level <= 0 or rank > len(recent) else recent[rank - 1]
        assert bound.bound == expected
        missed = bound.update(risk)
        assert missed == (risk > expected)
        level += 0.05 * (0.2 - missed)
        past.append(risk)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=120),
    st.sampled_from(["adaptive", "tracking"]),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.sampled_from([0.01, 0.3, 2.0]),
)
def test_the_miss_rate_is_within_the_guarantee_for_any_sequence(
    risks: list[float], method: str, alpha: float, step: float
) -> None:
    bound = OnlineBound(alpha, method, step, window=20, limits=(0, 1))
    for risk in risks:
        bound.update(risk)
        found = bound.report
        assert abs(found.miss_rate - (1 - alpha)) <= found.guarantee + 1e-9


def test_a_saved_bound_goes_on_as_if_it_had_not_been_interrupted() -> None:
    risks = np.random.default_rng(1).random(700)
    for method in ("adaptive", "tracking"):
        whole = OnlineBound(method=method, window=100, limits=(0, 1))
        bounds, missed = whole.update_many(risks)
        first = OnlineBound(method=method, window=100, limits=(0, 1))
        for risk in risks[:333]:
            first.update(risk)
        second = OnlineBound.from_dict(json.loads(json.dumps(first.to_dict())))
        assert second.bound == bounds[333]
        rest = second.update_many(risks[333:])
        assert (rest[0] == bounds[333:]).all()
        assert (rest[1] == missed[333:]).all()
        assert second.to_dict() == whole.to_dict()
        assert second.report == whole.report


def test_bad_risks_are_refused_and_change_nothing() -> None:
    bound = OnlineBound(method="tracking", limits=(0, 1))
    bound.update_many([0.1, 0.9])
    before = bound.to_dict()
    with pytest.raises(DomainDataError, match="domain 4 is nan"):  # counted since the start
        bound.update_many([0.5, math.nan])
    with pytest.raises(DomainDataError, match=r"domain 3 is nan"):
        bound.update(math.nan)
    with pytest.raises(DomainDataError, match=r"domain 4 is 2.0, outside limits=\(0, 1\)"):
        bound.update_many([0.5, 2.0])
    assert bound.to_dict() == before


def test_settings_and_states_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SettingError, match="needs limits"):
        OnlineBound(method="tracking")
    with pytest.raises(SettingError, match="Did you mean 'adaptive'"):
        OnlineBound(method="adaptiv")
    with pytest.raises(DomainDataError, match="not the state of an online bound"):
        OnlineBound.from_dict({"format": 1})


@pytest.mark.full
@pytest.mark.parametrize("method", ["adaptive", "tracking"])
def test_a_million_domains_take_seconds_and_constant_memory(method: str) -> None:
    bound = OnlineBound(method=method, limits=(0, 1))
    rng = np.random.default_rng(3)
    start = time.process_time()
    for _ in range(100):
        bound.update_many(rng.random(10_000))
    assert time.process_time() - start <= 10
    size = len(json.dumps(bound.to_dict()))
    tracemalloc.start()
    for _ in range(3):
        bound.update_many(rng.random(10_000))
    assert tracemalloc.get_traced_memory()[0] < 200_000
    tracemalloc.stop()
    assert abs(len(json.dumps(bound.to_dict())) - size) < 2000
