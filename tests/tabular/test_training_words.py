"""What a training says about a level, at the edges of what can be said."""

from __future__ import annotations

import pytest

from eqrm.evaluation.inference.comparison import Difference
from eqrm.level import Level
from eqrm.tabular.gains import Bargain, bargain_table


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


def bargain(mean: float, noise: str = "", quantile: float = 0.7) -> Bargain:
    """ERM has the mean risk 0.649 and the quantile 0.8."""
    quantiles, means = difference("quantile", 0.8, quantile), difference("mean", 0.649, mean)
    return Bargain(Level(0.9), quantiles, means, "too few", "too few", noise)


@pytest.mark.parametrize("mean", [0.649, 0.649 + 1e-5, 0.649 - 1e-5])
def test_no_price_is_not_called_one_and_no_zero_has_a_sign(mean: float) -> None:
    found = bargain(mean)
    said = found.sentences()
    assert "It had no price in mean risk, which is 0.649 either way." in said
    assert "The price" not in said
    for text in (said, bargain_table([found]), bargain(mean, quantile=0.80001).sentences()):
        assert "+0.0%" not in text
        assert "-0.0%" not in text


def test_a_lower_mean_is_no_price_and_a_higher_one_is() -> None:
    lower, higher = bargain(0.6).sentences(), bargain(0.7).sentences()
    assert "It had no price: the mean risk is 0.600 instead of 0.649 (-7.6%)." in lower
    assert "The price is a mean risk of 0.700 instead of 0.649 (+7.9%)." in higher


def test_under_noise_nothing_is_said_about_the_domains_themselves() -> None:
    said = bargain(0.7, noise="most of the spread of these risks is sampling noise").sentences()
    assert "cannot show whether the quantile of the true risks fell" in said
    assert "may have made the domains equal" in said
    assert "It helped" not in said
