"""Levels as people say them."""

import pytest

from eqrm.level import Level


@pytest.mark.parametrize(
    ("level", "share", "heading"),
    [
        (Level(0.0), "none", "best"),
        (Level(0.1), "1 in 10", "1 in 10 below"),
        (Level(1 / 3), "33.3%", "33.3% below"),
        (Level(0.5), "half", "half below"),
        (Level(0.75), "3 in 4", "3 in 4 below"),
        (Level(0.9), "9 in 10", "9 in 10 below"),
        (Level(0.95), "19 in 20", "19 in 20 below"),
        (Level(0.975), "97.5%", "97.5% below"),
        (Level(0.999), "999 in 1,000", "999 in 1,000 below"),
        (Level(0.99995), "99.995%", "99.995% below"),
        (Level(log_tail=-1000), "1-e^-1000", "1-e^-1000 below"),
        (Level(1.0), "all", "worst"),
    ],
)
def test_a_level_is_said_as_a_share_of_domains(level: Level, share: str, heading: str) -> None:
    assert level.share_in_words == share
    assert level.quantile_in_words == heading
