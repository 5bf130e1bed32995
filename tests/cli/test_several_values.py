"""Options with several values in a row: both spellings mean the same."""

from __future__ import annotations

import pytest

from eqrm.cli.several_values import is_a_value, looks_like_levels, spelt_out

SEVERAL = {"--alpha": looks_like_levels, "--drop": is_a_value}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("flights --alpha .5 .9 .99", "flights --alpha .5 --alpha .9 --alpha .99"),
        ("--alpha .5 .9 flights", "--alpha .5 --alpha .9 flights"),
        ("--alpha .5 --alpha .9 flights", "--alpha .5 --alpha .9 flights"),
        ("--alpha=.5 .9 flights", "--alpha=.5 --alpha .9 flights"),
        ("--alpha .5,.9 flights", "--alpha .5,.9 flights"),
        ("--alpha 1-e^-1000 1-e^-50 f", "--alpha 1-e^-1000 --alpha 1-e^-50 f"),
        ("f --drop a b --alpha .9", "f --drop a --drop b --alpha .9"),
        ("f --drop a b --seed 3 4", "f --drop a --drop b --seed 3 4"),
        ("f --alpha high .9", "f --alpha high --alpha .9"),
        ("f", "f"),
        ("f --alpha", "f --alpha"),
    ],
)
def test_values_in_a_row_are_spelt_out(typed: str, expected: str) -> None:
    assert spelt_out(typed.split(), SEVERAL) == expected.split()
