"""LinearQRM on population moments of the paper's world, against its closed form.

β2 = 2/(2 + Q), β1 = 1 − β2, with Q the level's quantile of σ2² over the domains drawn.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from studies.linear_worlds import ExampleWorld, example_domains

import eqrm
from eqrm import Level, LinearQRM
from linear.solver_worlds import paper_world

LEVELS = [0.25, 0.5, 0.9, 0.999, Level(log_tail=-100), Level(log_tail=-1000)]
DISTRIBUTIONS = {"kde": eqrm.KDE, "gaussian": eqrm.Gaussian, "empirical": eqrm.Empirical}


def closed_form(squares: torch.Tensor, distribution: str, measure: str, level: object) -> float:
    estimated = DISTRIBUTIONS[distribution](squares)
    return 2.0 / (2.0 + float(getattr(estimated, measure)(level)))


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("measure", ["quantile", "superquantile"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_coefficients_match_the_closed_form(distribution: str, measure: str, level: object) -> None:
    squares, moments = paper_world()
    beta2 = closed_form(squares, distribution, measure, level)
    if not 0.0 < beta2 < 1.0:
        pytest.skip("2 + Q is not positive, or the quantile of σ2² is: no closed form")
    model = LinearQRM(level, distribution, measure).fit(moments)
    assert model.coef_.tolist() == pytest.approx([1.0 - beta2, beta2], rel=0, abs=1e-8)
    assert abs(model.intercept_) < 1e-8
    assert model.converged_


@pytest.mark.parametrize("distribution", ["kde", "gaussian"])
def test_coefficients_go_monotonically_to_the_causal_ones(distribution: str) -> None:
    _, moments = paper_world()
    tails = [-0.7, -1.0, -3.0, -10.0, -100.0, -1000.0, -1e6, -1e12, -1e30]
    frontier = LinearQRM(distribution=distribution).path(
        [Level(log_tail=tail) for tail in tails], moments
    )
    effect, cause = frontier.coefficients[:, 1], frontier.coefficients[:, 0]
    assert bool((np.diff(effect) < 0).all())
    assert bool((np.diff(cause) > 0).all())
    assert abs(float(effect[-1])) < 1e-12
    assert abs(float(cause[-1]) - 1.0) < 1e-12


@pytest.mark.parametrize("seed", [5, 78])
def test_a_minimum_at_1e30_is_followed_along_the_kink(seed: int) -> None:
    """From the least mean risk, Newton's method stops where the risks are equal, at (0.55, 0)."""
    moments = ExampleWorld().population(example_domains(1000, seed=seed))
    frontier = LinearQRM().path([0.25, 0.5, 0.75, 0.9, 0.99, "1-e^-1e30"], moments)
    assert bool(frontier.converged.all())
    assert frontier.coefficients[-1].tolist() == pytest.approx([1.0, 0.0], abs=1e-6)
