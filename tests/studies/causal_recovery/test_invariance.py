"""Minimal invariant-risk predictors of the paper's world, against closed forms and a fine grid."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from studies.causal_recovery.invariance import minimal_invariant_risk

COLUMNS = {"X1": 0, "Y": 1, "X2": 2}
Floats = np.ndarray


def variances(changing: tuple[str, ...], count: int, seed: int) -> Floats:
    """σ1², σY² and σ2² of domains: 1, 2 and 1 where they do not change."""
    generator = np.random.default_rng([seed, count])
    found = np.tile([1.0, 2.0, 1.0], (count, 1))
    for name in changing:
        found[:, COLUMNS[name]] = np.exp(1.4 * generator.standard_normal(count))
    return found


def risks(sigmas: Floats, beta: tuple[float, float]) -> Floats:
    first, second = beta
    return sigmas @ [(first + second - 1) ** 2, (second - 1) ** 2, second**2]


@pytest.mark.parametrize("seed", range(10))
def test_three_domains_with_all_noises_changing_are_solved_in_squares(seed: int) -> None:
    """a = (β1+β2−1)², b = (β2−1)², c = β2² obey two linear equations: a ray, solved by hand."""
    sigmas = variances(("X1", "X2", "Y"), 3, seed)
    answer = minimal_invariant_risk(sigmas)
    a, b, c = np.cross(sigmas[1] - sigmas[0], sigmas[2] - sigmas[0])
    if not np.sign(a) == np.sign(b) == np.sign(c):
        assert answer.status == "none"
        return
    # β2 − 1 = sign_b·√b·t and β2 = sign_c·√c·t for some t.
    steps = [
        1 / (sign_c * abs(c) ** 0.5 - sign_b * abs(b) ** 0.5)
        for sign_b, sign_c in itertools.product((-1, 1), repeat=2)
    ]
    least = min(sigmas[0] @ np.abs([a, b, c]) * t**2 for t in steps)
    assert answer.status == "several"  # the sign of β1 + β2 − 1 is free
    for beta in answer.predictors:
        assert risks(sigmas, beta) == pytest.approx([least] * 3, rel=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_one_equation_is_solved_as_well_as_a_fine_grid_does(seed: int) -> None:
    sigmas = variances(("X1", "X2", "Y"), 2, seed)
    answer = minimal_invariant_risk(sigmas)
    # For a given β2, (β1 + β2 − 1)² follows from the equation.
    gaps, beta2 = sigmas[1] - sigmas[0], np.linspace(-8, 8, 200_001)
    square = -(gaps[1] * (beta2 - 1) ** 2 + gaps[2] * beta2**2) / gaps[0]
    if answer.status == "none":
        assert not (square >= 0).any()
        return
    grid = sigmas[0] @ [square, (beta2 - 1) ** 2, beta2**2]
    least = grid[square >= 0].min()
    assert answer.risk <= least + 1e-9
    assert answer.risk == pytest.approx(least, rel=1e-3)
    for beta in answer.predictors:
        assert risks(sigmas, beta) == pytest.approx([answer.risk] * 2, rel=1e-9)
