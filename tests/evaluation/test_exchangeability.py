"""Tests of exchangeability: their level, their power, scipy's ranks, and what they say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from eqrm.errors import DomainDataError
from eqrm.evaluation import noise_split, order_test


def test_the_trend_is_spearmans_correlation() -> None:
    generator = np.random.default_rng(0)
    risks, sizes = generator.integers(0, 9, 50).astype(float), generator.integers(5, 15, 50)
    found = order_test(risks, sizes, by="size")
    assert found.statistics["trend"] == pytest.approx(stats.spearmanr(risks, sizes).statistic)
    assert set(found.statistics) == {"trend"}


def test_the_permutation_p_value_is_near_that_of_all_permutations() -> None:
    risks = np.array([0.1, 0.3, 0.2, 0.6, 0.5, 0.9])
    order = np.array([1, 2, 3, 4, 5, 5.0])  # a tie: no neighbours, the trend only
    rank = stats.rankdata(risks)
    seen = abs(np.corrcoef(rank, stats.rankdata(order))[0, 1])
    every = [
        abs(np.corrcoef(permuted, stats.rankdata(order))[0, 1])
        for permuted in itertools.permutations(rank)
    ]
    exact = float((np.array(every) >= seen - 1e-12).mean())
    assert order_test(risks, order).p_value == pytest.approx(exact, abs=0.01)


@pytest.mark.unmeasured
@pytest.mark.parametrize("m", [8, 60])
def test_exchangeable_domains_are_rejected_as_often_as_stated(m: int) -> None:
    generator = np.random.default_rng(m)
    p_values = [order_test(generator.lognormal(size=m)).p_value for _ in range(300)]
    # The smaller of two p-values, doubled: at most the level, and not far below it.
    assert 0.012 < np.mean(np.array(p_values) < 0.05) < 0.088


def test_the_normal_limit_agrees_with_permutations() -> None:
    generator = np.random.default_rng(3)
    risks = generator.lognormal(size=1500) + np.arange(1500) * 1e-4
    permuted = order_test(risks)
    many = order_test(np.concatenate([risks, generator.lognormal(size=1000)]))
    assert (permuted.method, many.method) == ("4999 permutations", "normal limit")
    p = [order_test(generator.lognormal(size=2001)).p_value for _ in range(400)]
    assert 0.015 < np.mean(np.array(p) < 0.05) < 0.085


def test_a_drift_a_season_and_a_size_effect_are_found_and_named() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(0, 1, 120)
    drift = order_test(noise - np.arange(120) / 30, order=np.arange(120))
    assert "falls over time" in (drift.warning or "")
    season = order_test(noise + 2 * np.sin(np.arange(120) / 6))
    assert "Consecutive domains have similar risks" in (season.warning or "")
    sizes = generator.integers(10, 1000, 120)
    by_size = order_test(noise + np.log(sizes), sizes, by="size")
    assert "grows with domain size" in (by_size.warning or "")
    assert "separate certificates for small and large domains" in by_size.sentence


def test_dates_and_texts_sort() -> None:
    days = np.datetime64("2020-01-01") + np.arange(30)[::-1]
    falling = order_test(np.arange(30.0), days)
    assert falling.statistics["trend"] == pytest.approx(-1.0)
    assert order_test(np.arange(30.0), days.astype(str)).statistics == falling.statistics


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        ([1, 2, 3], "one value per domain"),
        ([1.0, 2.0, 3.0, 4.0, float("nan"), 6.0], "NaN or infinite"),
    ],
)
def test_orders_that_cannot_be_used_are_refused(order: object, complaint: str) -> None:
    with pytest.raises(DomainDataError, match=complaint):
        order_test(np.arange(6.0), order)


def test_rounding_is_no_difference_between_domains() -> None:
    """Every row has the loss ln 2: means of different numbers of rows differ in the last digits."""
    sizes = np.arange(700, 760)
    risks = np.array([np.full(n, np.log(2.0)).cumsum()[-1] / n for n in sizes])
    assert np.ptp(risks) > 0.0
    assert order_test(risks).p_value == 1.0
    assert order_test(risks, sizes, by="size").warning is None
    split = noise_split(risks, sizes, np.full(60, 1e-31))
    assert split.spread_variance == 0.0
    assert not split.differs
