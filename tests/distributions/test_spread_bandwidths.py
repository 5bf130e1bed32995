"""Bandwidths of quartiles and of pairs, found in the call of the C part that solves."""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
import torch

import eqrm
from eqrm.distributions.bandwidths import BANDWIDTHS, spread_bandwidth
from eqrm.distributions.kde import native, one_row, root

needs_native = pytest.mark.skipif(
    native.LIBRARY is None, reason="the C part was not built here (see hatch_build.py)"
)
LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "lognormal": lambda rng, m: rng.lognormal(size=m),
    "cauchy": lambda rng, m: rng.standard_cauchy(size=m),
    "ascending": lambda rng, m: np.sort(rng.normal(size=m)),
    "two far groups": lambda rng, m: np.where(rng.random(m) < 0.5, 0.0, 1e6) + rng.random(m),
    "one far": lambda rng, m: np.append(rng.random(m - 1), -1e12),
    "near 1000": lambda rng, m: 1e3 + 1e-8 * rng.exponential(size=m),
    "ties": lambda rng, m: np.round(rng.normal(size=m), 1),
    "few values": lambda rng, m: rng.integers(0, 3, m).astype(float),
}
RULES = ("silverman", "silverman-paper", "median")
SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 17, 100, 301, 1000, 2048)


def value_and_gradient(risks: np.ndarray, rule: str, level: float) -> tuple[float, np.ndarray]:
    leaf = torch.tensor(risks, requires_grad=True)
    value = eqrm.KDE(leaf, rule).quantile(level)
    value.backward()
    assert leaf.grad is not None
    return value.item(), leaf.grad.numpy()


@needs_native
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", LAWS)
def test_one_call_has_every_digit_of_bandwidth_first_quantile_then(law: str, rule: str) -> None:
    for m in SIZES:
        risks = LAWS[law](np.random.default_rng(m), m)
        for level in (0.05, 0.9):
            found = value_and_gradient(risks, rule, level)
            with mock.patch.object(one_row, "spread_bandwidth", return_value=None):
                expected = value_and_gradient(risks, rule, level)
            assert found[0] == expected[0]
            np.testing.assert_array_equal(found[1], expected[1])


@needs_native
@pytest.mark.parametrize("rule", RULES)
def test_risks_that_differ_are_solved_in_one_call(rule: str) -> None:
    for m in SIZES:
        risks = torch.from_numpy(LAWS["lognormal"](np.random.default_rng(m), m))
        spread = spread_bandwidth(BANDWIDTHS[rule], m)
        assert spread is not None
        assert root.quantile_at_once(risks, None, spread, eqrm.Level(0.75), True) is not None


@needs_native
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
@pytest.mark.parametrize("rule", RULES)
def test_a_row_with_a_bad_risk_is_left_to_others(rule: str, bad: float) -> None:
    for m in (2, 7, 1000):
        risks = torch.from_numpy(LAWS["lognormal"](np.random.default_rng(m), m))
        risks[m // 2] = bad
        spread = spread_bandwidth(BANDWIDTHS[rule], m)
        assert spread is not None
        assert root.quantile_at_once(risks, None, spread, eqrm.Level(0.75), True) is None
