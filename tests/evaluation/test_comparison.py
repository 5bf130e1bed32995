"""Intervals and paired differences: against numpy, scipy, brute force and simulated worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from eqrm import Empirical, Level
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation import paired_differences, risk_intervals
from eqrm.evaluation.inference.intervals import (
    _likelihood_ratios,
    mean_interval,
    most_ratio,
    quantile_pairs,
    superquantile_interval,
)

LEVELS = [Level(level) for level in (0.0, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0)]


@pytest.mark.parametrize("ties", [False, True])
def test_statistics_are_those_of_the_empirical_law(ties: bool) -> None:
    risks = np.random.default_rng(0).lognormal(size=157)
    risks = np.round(risks, 1) if ties else risks
    law = Empirical(torch.from_numpy(risks))
    expected = [
        risks.mean(),
        *(float(law.quantile(level)) for level in LEVELS),
        *(float(law.superquantile(level)) for level in LEVELS),
    ]
    found = [each.value for each in risk_intervals(risks, LEVELS)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_interval_of_a_mean_is_wider_than_students_on_the_side_of_the_tail() -> None:
    risks = np.random.default_rng(0).lognormal(size=80)
    low, high = mean_interval(risks, 0.95)
    theirs = stats.ttest_1samp(risks, 0.0).confidence_interval(0.95)
    assert low < theirs.low
    assert high - theirs.high > 2 * (theirs.low - low)
    assert mean_interval(-risks, 0.95) == pytest.approx((-high, -low))
    assert mean_interval(1e200 * risks, 0.95) == pytest.approx((1e200 * low, 1e200 * high))


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.9])
def test_likelihood_ratios_are_those_of_a_numerical_search(alpha: float) -> None:
    domains, ranks = 12, np.array([1, 3, 6, 10, 11])
    least = np.maximum(ranks[:, None] + ranks[None] - domains, 0)
    most = np.minimum(ranks[:, None], ranks[None])
    level = Level(alpha)
    for both in (least, most, (least + most) // 2):
        found = _likelihood_ratios(both.astype(float), ranks, domains, level)
        for i, one in enumerate(ranks):
            for j, other in enumerate(ranks):
                n = np.array([both[i, j], one - both[i, j], other - both[i, j], 0])
                n[3] = domains - n.sum()
                kept = n > 0

                def cost(x: float, n: np.ndarray = n, kept: np.ndarray = kept) -> float:
                    p = np.array([x, alpha - x, alpha - x, 1 - 2 * alpha + x])
                    return -float(n[kept] @ np.log(np.maximum(p[kept], 1e-300)))

                ends = max(0.0, 2 * alpha - 1), alpha
                best = min(
                    optimize.minimize_scalar(
                        cost, bounds=ends, method="bounded", options={"xatol": 1e-12}
                    ).fun,
                    cost(ends[0]),
                    cost(ends[1]),
                )
                largest = float(n[kept] @ np.log(n[kept] / domains))
                assert found[i, j] == pytest.approx(2 * (largest + best), abs=1e-6)


def test_pairs_of_quantiles_do_not_depend_on_the_order_of_domains_or_on_the_scale() -> None:
    generator = np.random.default_rng(0)
    first = generator.lognormal(size=120)
    second = 0.8 * first * np.exp(0.2 * generator.normal(size=120))
    shuffled = generator.permutation(120)
    pairs = quantile_pairs(first, second, Level(0.9), 0.95)
    again = quantile_pairs(first[shuffled], second[shuffled], Level(0.9), 0.95)
    logs = quantile_pairs(np.log(first), np.log(second), Level(0.9), 0.95)
    assert again.difference() == pairs.difference()
    assert np.expm1(logs.difference()) == pytest.approx(pairs.change())
    low, high = quantile_pairs(-first, -second, Level(0.1), 0.95).change()
    assert (-high, -low) == pytest.approx(pairs.change(), abs=0.02)
    assert low < 0.2 < high


def test_of_many_domains_the_ranks_are_thinned_out_safely(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    first = generator.lognormal(size=4000)
    second = first + 0.3 * generator.lognormal(size=4000)
    all_ranks = quantile_pairs(first, second, Level(0.5), 0.95)
    monkeypatch.setattr("eqrm.evaluation.inference.intervals.MOST_RANKS", 40)
    some = quantile_pairs(first, second, Level(0.5), 0.95)
    (low, high), (wider_low, wider_high) = all_ranks.difference(), some.difference()
    assert wider_low <= low < high <= wider_high
    assert wider_high - wider_low < 1.2 * (high - low)


@pytest.mark.parametrize("miss", [0.2, 0.05, 0.01])
def test_a_ray_misses_the_disk_of_pairs_as_often_as_stated(miss: float) -> None:
    """Half of the directions are beside the ray, half behind its end."""
    found = stats.chi2([1, 2]).sf(most_ratio(miss)).mean()
    assert found == pytest.approx(miss)


@pytest.mark.parametrize("models", [2, 4, 12])
def test_the_lowest_of_equal_models_is_rarely_called_lower_than_the_next(models: int) -> None:
    """The report compares the two lowest: chosen by the same domains, which changes little."""
    generator, wrong = np.random.default_rng(models), 0
    for _ in range(200):
        risks = sorted(generator.lognormal(size=(models, 60)), key=lambda own: np.sort(own)[53])
        wrong += quantile_pairs(risks[1], risks[0], Level(0.9), 0.95).difference()[1] < 0.0
    assert wrong <= 10


def test_beside_a_constant_a_difference_of_quantiles_holds_as_often_as_stated() -> None:
    """By the binomial law, without a simulation."""
    for alpha, domains, confidence in ((0.9, 36, 0.95), (0.95, 103, 0.95), (0.5, 11, 0.99)):
        pairs = quantile_pairs(np.arange(domains), np.zeros(domains), Level(alpha), confidence)
        low, high = (round(-end) for end in pairs.difference())
        below = stats.binom(domains, alpha)  # risks below the true quantile, high + 1 to low
        assert below.cdf(low) - below.cdf(high) >= confidence - 0.002


def test_a_gap_beside_the_quantile_does_not_hide_how_low_a_superquantile_may_be() -> None:
    """A tenth of new domains is bad; of these, a few more: the mean of the worst is 3.95."""
    risks = np.append(np.linspace(0.0, 0.9, 263), np.linspace(3.9, 4.0, 37))
    low, high = superquantile_interval(risks, Level(0.9), 0.95)
    assert low < 3.9 < 3.96 < high
    assert high < 4.01


def test_pairing_makes_a_small_difference_clear() -> None:
    generator = np.random.default_rng(0)
    first = generator.lognormal(0, 1, 200)
    second = 0.95 * first
    paired = paired_differences(first, second, [0.9])
    assert all(d.clear and d.value < 0 for d in paired if d.statistic != "quantile")
    assert not paired[1].clear  # 5% of a quantile is less than the distance of two domains there
    shuffled = paired_differences(first, generator.permutation(second), [0.9])
    assert not shuffled[0].clear
    assert "No clear difference" in shuffled[0].sentence
    assert "The second model has the lower mean of risk" in paired[0].sentence


def test_ends_that_nothing_supports_are_open_and_say_how_many_domains_they_need() -> None:
    found = {(i.statistic, i.level): i for i in risk_intervals(np.arange(20.0), [0.0, 0.9, 1.0])}
    assert math.isinf(found["quantile", 0.9].high)
    assert found["quantile", 0.9].to_dict()["high"] is None
    assert found["quantile", 0.9].needed == 36
    assert (found["quantile", 1.0].low, found["quantile", 0.0].high) == (19.0, 0.0)
    assert found["mean", None].refused
    assert found["mean", None].needed == 30
    beyond = found["superquantile", 0.9]
    assert (beyond.low, beyond.high, beyond.needed) == (found["quantile", 0.9].low, math.inf, 100)
    few = paired_differences(np.arange(20.0), np.arange(1.0, 21.0), [0.9])
    assert all(d.refused and not d.clear for d in few)
    assert few[1].sentence.endswith("20 domains are too few, 36 are needed.")
    assert few[0].to_dict()["low"] is None


def test_equal_risks_have_no_interval_of_their_mean() -> None:
    mean, median, beyond = risk_intervals(np.full(40, 0.1), [0.5])
    assert mean.refused
    assert (median.low, median.high, beyond.low) == (0.1, 0.1, 0.1)
    assert mean.value == beyond.value == 0.1
    same = paired_differences(np.arange(40.0), np.arange(40.0) + 0.1, [])[0]
    assert same.sentence.endswith("without an interval: it is the same in all domains.")


def test_smooth_quantiles_are_compared_by_harrell_and_davis() -> None:
    first, second = np.random.default_rng(0).lognormal(size=(2, 80))
    found = paired_differences(first, second, [0.9], interpolation="smooth")[1]
    expected = [stats.mstats.hdquantiles(risks, [0.9])[0] for risks in (first, second)]
    np.testing.assert_allclose([found.first, found.second], expected, rtol=1e-9)
    assert found.low < found.value < found.high
    with pytest.raises(SettingError, match="Unknown interpolation 'smoth'"):
        paired_differences(first, second, [0.9], interpolation="smoth")
    with pytest.raises(DomainDataError, match="40 domains and the second has 41"):
        paired_differences(np.ones(40), np.ones(41))
