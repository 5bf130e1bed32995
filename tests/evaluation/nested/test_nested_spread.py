"""Spread per level: against closed forms and simulated worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from eqrm.evaluation.inference.nested.findings import NestedSpread, nested_spread
from eqrm.evaluation.inference.nested.members import NestedRisks


def found_spread(risks: Any, groups: Any, counts: Any, loss_variances: Any) -> NestedSpread:
    return nested_spread(NestedRisks.of(risks, groups), counts, loss_variances)


def world(
    rng: np.random.Generator, sizes: np.ndarray, deviations: tuple[float, float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Risks, groups, examples and loss variances of members of unequal groups."""
    between, within, loss = deviations
    groups = np.repeat(np.arange(len(sizes)), sizes)
    counts = rng.integers(20, 200, groups.size)
    true = rng.normal(1.0, between, len(sizes))[groups] + rng.normal(0.0, within, groups.size)
    return true + rng.normal(size=groups.size) * loss / counts**0.5, groups, counts, loss**2


def test_equal_groups_without_noise_give_the_analysis_of_variance() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 5)
    risks = rng.normal(size=30)[groups] + rng.normal(size=150)
    means = risks.reshape(30, 5).mean(axis=1)
    inside = ((risks.reshape(30, 5) - means[:, None]) ** 2).sum() / 120
    between = means.var(ddof=1) - inside / 5
    found = found_spread(risks, groups, counts=1, loss_variances=0.0)
    assert found.noise_variance is None
    assert found.member_variance == pytest.approx(inside, rel=1e-5)
    assert found.group_variance == pytest.approx(between, rel=1e-5)
    assert found.intraclass_correlation == pytest.approx(between / (between + inside), rel=1e-5)


def test_unequal_groups_maximise_the_restricted_likelihood() -> None:
    rng = np.random.default_rng(1)
    risks, groups, counts, variance = world(rng, rng.integers(1, 7, 25), (0.3, 0.2, 1.0))
    noise = np.full(groups.size, variance) / counts
    ones = np.ones((groups.size, 1))

    def cost(logs: np.ndarray) -> float:
        a, b = np.exp(logs)
        v = a * (groups[:, None] == groups) + np.diag(b + noise)
        solved = np.linalg.solve(v, np.column_stack([ones, risks]))
        information = (ones.T @ solved[:, :1])[0, 0]
        mean = (ones.T @ solved[:, 1:])[0, 0] / information
        left = risks - mean
        quadratic = left @ np.linalg.solve(v, left)
        return np.linalg.slogdet(v)[1] + np.log(information) + quadratic

    best = np.exp(minimize(cost, np.log([0.09, 0.04]), method="Nelder-Mead").x)
    found = found_spread(risks, groups, counts, variance)
    assert (found.group_variance, found.member_variance) == pytest.approx(tuple(best), rel=1e-3)
    assert found.noise_variance == pytest.approx(np.mean(variance / counts))
    assert "between groups" in found.sentence
    assert "sampling noise" in found.sentence


def test_what_cannot_be_separated_is_said() -> None:
    single = found_spread([0.1, 0.4, 0.2], [0, 1, 2], [10, 10, 10], [0.01] * 3)
    assert single.member_variance is None
    assert single.intraclass_correlation is None
    assert "because no group has two members" in single.sentence
    one_example = found_spread([0.1, 0.4, 0.2, 0.1], [0, 0, 1, 1], 1, np.nan)
    assert "sampling noise included" in one_example.sentence
    equal = found_spread([0.5] * 4, [0, 0, 1, 1], 1, np.nan)
    assert equal.sentence == "The risks of all 4 members of 2 groups are equal."
    assert equal.intraclass_correlation == 0.0
