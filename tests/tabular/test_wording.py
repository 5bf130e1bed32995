"""What a training says about a level, at the edges of what can be said."""

from __future__ import annotations

import pytest

from eqrm.evaluation.inference.comparison import Difference
from eqrm.level import Level
from eqrm.tabular.comparison import LevelGain
from eqrm.tabular.wording import _change, gain_in_words


def difference(statistic: str, erm: float, own: float) -> Difference:
    level = 0.9 if statistic == "quantile" else None
    return Difference(
        statistic=statistic,
        level=level,
        first=erm,
        second=own,
        low=own - erm - 0.01,
        high=own - erm + 0.01,
        confidence=0.95,
        reliable=True,
    )


def said(mean: float, noise: str = "", quantile: float = 0.7) -> str:
    """ERM has the mean risk 0.649 and the quantile 0.8."""
    quantiles, means = difference("quantile", 0.8, quantile), difference("mean", 0.649, mean)
    return gain_in_words(LevelGain(Level(0.9), quantiles, means, "too few", "too few"), noise)


@pytest.mark.parametrize("mean", [0.649, 0.649 + 1e-5, 0.649 - 1e-5])
def test_no_price_is_not_called_one_and_no_zero_has_a_sign(mean: float) -> None:
    assert "It cost nothing in mean risk, which is 0.649 either way." in said(mean)
    assert "The cost" not in said(mean)
    assert _change(difference("mean", 0.649, mean)) == "0.0%"
    for text in (said(mean), said(mean, quantile=0.80001)):
        assert "0.0%" not in text


def test_a_lower_mean_is_no_price_and_a_higher_one_is() -> None:
    assert "It cost nothing: the mean risk is 0.600 instead of 0.649 (-7.6%)." in said(0.6)
    assert "The cost is a mean risk of 0.700 instead of 0.649 (+7.9%)." in said(0.7)


def test_under_noise_nothing_is_said_about_the_domains_themselves() -> None:
    words = said(0.7, noise="most of the spread of these risks is sampling noise")
    assert "cannot show whether the quantile of the true risks is lower" in words
    assert "may have made the domains equal" in words
    assert "It helped" not in words
