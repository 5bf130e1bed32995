"""Intervals and paired differences: against numpy, scipy's bootstrap and simulated worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from eqrm import Empirical, Level
from eqrm.errors import DomainDataError, LevelError, SettingError, TooFewDomainsError
from eqrm.evaluation.inference.comparison import bootstrap_intervals, paired_differences
from eqrm.evaluation.inference.resampling import resampled_statistics, statistics_of

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
    np.testing.assert_allclose(statistics_of(risks, LEVELS), expected, rtol=1e-12)


def test_each_resample_has_the_statistics_of_the_domains_drawn() -> None:
    risks = np.random.default_rng(0).normal(size=(2, 40))
    found = resampled_statistics(risks, LEVELS, resamples=20, seed=3)
    drawn = np.random.default_rng(3).integers(0, 40, (20, 40))
    for i, j in ((0, 0), (7, 1), (19, 0)):
        np.testing.assert_allclose(found[i, j], statistics_of(risks[j, drawn[i]], LEVELS))


def test_resamples_in_blocks_are_the_resamples_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    risks = np.random.default_rng(0).normal(size=(1, 50))
    whole = resampled_statistics(risks, LEVELS, 100, seed=1)
    monkeypatch.setattr("eqrm.evaluation.inference.resampling.CELLS_AT_ONCE", 350)
    np.testing.assert_allclose(resampled_statistics(risks, LEVELS, 100, seed=1), whole)


def test_the_mean_has_scipys_bca_interval() -> None:
    risks = np.random.default_rng(0).lognormal(size=80)
    ours = bootstrap_intervals(risks, levels=[0.5], resamples=20_000)[0]
    theirs = stats.bootstrap(
        (risks,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(1)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.03 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.03 * width)


@pytest.mark.parametrize("law", [stats.norm(), stats.lognorm(0.7)], ids=["normal", "lognormal"])
def test_intervals_hold_the_truth_about_as_often_as_stated(law: object) -> None:
    alpha, worlds = 0.75, 300
    beyond = law.expect(lambda x: x, lb=law.ppf(alpha)) / (1 - alpha)
    truth = [law.mean(), law.ppf(alpha), beyond]
    held = np.zeros(3)
    for world in range(worlds):
        risks = law.rvs(100, random_state=world)
        found = bootstrap_intervals(risks, [alpha], 0.9, resamples=400)
        held += [i.low <= value <= i.high for i, value in zip(found, truth, strict=True)]
    assert np.all(held / worlds > 0.83)  # the bootstrap is approximate: .9 is stated
    assert held[1] / worlds > 0.9 - 3.5 * math.sqrt(0.09 / worlds)


def test_paired_differences_hold_the_truth_about_as_often_as_stated() -> None:
    worlds, held = 300, np.zeros(3)
    for world in range(worlds):
        generator = np.random.default_rng(world)
        first = generator.normal(1, 1, 100)
        second = 0.5 + first + generator.normal(0, 0.2, 100)
        found = paired_differences(first, second, [0.75], 0.9, resamples=400)
        spread = math.sqrt(1.04) - 1.0
        z = stats.norm.ppf(0.75)
        truth = [0.5, 0.5 + z * spread, 0.5 + stats.norm.pdf(z) / 0.25 * spread]
        held += [d.low <= value <= d.high for d, value in zip(found, truth, strict=True)]
    assert np.all(held / worlds > 0.83)


def test_pairing_makes_a_small_difference_clear() -> None:
    generator = np.random.default_rng(0)
    first = generator.lognormal(0, 1, 200)
    second = 0.95 * first
    paired = paired_differences(first, second, [0.9])
    assert all(d.clear and d.value < 0 for d in paired if d.statistic != "quantile")
    shuffled = paired_differences(first, generator.permutation(second), [0.9])
    assert not shuffled[0].clear
    assert "No clear difference" in shuffled[0].sentence
    assert "The second predictor has the lower mean of risk" in paired[0].sentence


def test_the_seed_decides_the_bootstrap() -> None:
    risks = np.random.default_rng(0).lognormal(size=50)
    one, same, other = (bootstrap_intervals(risks, [0.5], seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one[0] != other[0]


def test_ends_that_nothing_supports_are_open_and_few_domains_are_not_reliable() -> None:
    found = {
        (i.statistic, i.level): i for i in bootstrap_intervals(np.arange(20.0), [0.0, 0.9, 1.0])
    }
    assert math.isinf(found["quantile", 0.9].high)
    assert found["quantile", 0.9].to_dict()["high"] is None
    assert (found["quantile", 1.0].low, found["quantile", 0.0].high) == (19.0, 0.0)
    assert not found["superquantile", 0.9].reliable
    assert found["mean", None].reliable


def test_equal_risks_have_intervals_without_width() -> None:
    for interval in bootstrap_intervals(np.full(40, 0.1), [0.5]):
        assert interval.low == interval.value == interval.high == pytest.approx(0.1)


def test_bad_input_is_refused() -> None:
    with pytest.raises(DomainDataError, match="40 domains and the second has 41"):
        paired_differences(np.ones(40), np.ones(41))
    with pytest.raises(DomainDataError, match="domain 1 is nan"):
        bootstrap_intervals([0.1, float("nan")])
    with pytest.raises(TooFewDomainsError):
        paired_differences([0.1], [0.2])
    with pytest.raises(LevelError):
        bootstrap_intervals([0.1, 0.2], levels=[1.5])
    with pytest.raises(SettingError, match="resamples must be an integer of at least 100"):
        bootstrap_intervals([0.1, 0.2], resamples=10)


def test_rounding_of_the_risks_does_not_move_an_interval_of_few_domains() -> None:
    risks = np.random.default_rng(0).gamma(8.0, 0.06, 183)
    plain = bootstrap_intervals(risks, levels=[0.99])
    for seed in range(5):
        nudge = 1.0 + 1e-14 * np.random.default_rng(seed).normal(size=183)
        nudged = bootstrap_intervals(risks * nudge, levels=[0.99])
        for one, two in zip(plain, nudged, strict=True):
            assert two.low == pytest.approx(one.low, rel=1e-9)
            assert two.high == pytest.approx(one.high, rel=1e-9)


def test_smooth_quantiles_are_compared_by_harrell_and_davis() -> None:
    first, second = np.random.default_rng(0).lognormal(size=(2, 80))
    found = paired_differences(first, second, [0.9], interpolation="smooth")[1]
    expected = [stats.mstats.hdquantiles(risks, [0.9])[0] for risks in (first, second)]
    np.testing.assert_allclose([found.first, found.second], expected, rtol=1e-9)
    assert found.low < found.value < found.high
    with pytest.raises(SettingError, match="Unknown interpolation 'smoth'"):
        paired_differences(first, second, [0.9], interpolation="smoth")
