"""Bands for the CDF against scipy's Kolmogorov laws, counting by hand and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from eqrm.errors import SettingError
from eqrm.evaluation import cdf_band
from eqrm.evaluation.inference.cdf_bands import probability_within


@pytest.mark.parametrize("m", [1, 2, 7, 30, 100])
@pytest.mark.parametrize("scaled", [0.5, 0.8, 1.2, 2.0])
def test_the_recursion_gives_kolmogorovs_law(m: int, scaled: float) -> None:
    ranks, width = np.arange(1, m + 1), scaled / math.sqrt(m)
    both = probability_within(m, ranks, ranks / m - width, (ranks - 1) / m + width)
    assert both == pytest.approx(stats.kstwo.cdf(width, m), abs=1e-12)
    one = probability_within(m, ranks, ranks / m - width, np.ones(m))  # below alone
    assert one == pytest.approx(stats.ksone.cdf(width, m), abs=1e-12)


def test_the_recursion_of_some_ranks_gives_a_beta_law() -> None:
    low, high = np.array([0.2]), np.array([0.5])
    found = probability_within(20, np.array([7]), low, high)
    beta = stats.beta(7, 14)
    assert found == pytest.approx(beta.cdf(0.5) - beta.cdf(0.2), abs=1e-13)


def test_limits_that_contradict_each_other_have_probability_0() -> None:
    ranks = np.array([1, 2])
    assert probability_within(2, ranks, np.array([0.6, 0.7]), np.array([0.3, 0.4])) == 0.0


@pytest.mark.parametrize(
    ("m", "confidence"),
    [(2, 0.5), (30, 0.5), (30, 0.95), (500, 0.95), (2000, 0.95)],  # of 2,000 some ranks carry it
)
def test_the_exact_band_achieves_what_was_asked_and_no_more(m: int, confidence: float) -> None:
    band = cdf_band(np.arange(m), confidence)
    assert confidence <= band.achieved < confidence + 1e-8
    assert np.all(np.diff(band.lower) >= 0)


def test_limits_at_points_and_quantiles_belong_together() -> None:
    risks = np.sort(np.random.default_rng(0).lognormal(size=200))
    band = cdf_band(risks)
    for alpha in (0.1, 0.5, 0.9, 0.95):
        low, high = band.quantile_limits(alpha)
        assert band.at(high)[0] >= alpha > band.at(np.nextafter(high, 0))[0]
        assert band.at(np.nextafter(low, 0))[1] < alpha <= band.at(low)[1]
    assert "for all r at once" in band.sentence
    assert "same distribution as these 200" in band.sentence


def test_beyond_the_exact_limit_the_band_says_that_it_is_dkw() -> None:
    assert cdf_band(np.arange(100_001.0)).method == "dkw"


def test_a_misspelt_method_is_answered_with_the_right_one() -> None:
    with pytest.raises(SettingError, match="Did you mean 'exact'"):
        cdf_band([0.1, 0.2], method="exakt")
