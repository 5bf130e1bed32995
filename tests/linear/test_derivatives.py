"""Gradients and Hessians of every criterion against finite differences, values against torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import eqrm
from eqrm import Level
from eqrm.linear import DomainMoments, LinearIRM, LinearQRM, LinearVREx
from eqrm.linear.linear_model import LinearModel
from eqrm.linear.solving.measures import MeasureOfRisks
from linear.solver_worlds import random_world

LEVELS = [0.3, 0.9, Level(log_tail=-1000)]
Value = Callable[[Tensor], Tensor]


def cases() -> list[tuple[str, LinearModel, Value]]:
    found: list[tuple[str, LinearModel, Value]] = []
    for level in LEVELS:
        for name, law in (("kde", eqrm.KDE), ("gaussian", eqrm.Gaussian)):
            for measure in ("quantile", "superquantile"):

                def value(risks: Tensor, law=law, measure=measure, level=level) -> Tensor:
                    return getattr(law(risks), measure)(level)

                found.append((f"{name} {measure} {level}", LinearQRM(level, name, measure), value))
    lognormal = eqrm.distributions.LogNormal
    others = {
        "kde silverman": ({"bandwidth": "silverman"}, lambda r: eqrm.KDE(r, "silverman")),
        "kde fixed": ({"bandwidth": 0.7}, lambda r: eqrm.KDE(r, 0.7)),
        "lognormal": ({"distribution": "lognormal"}, lognormal),
    }
    for name, (settings, law) in others.items():
        found.append((name, LinearQRM(0.9, **settings), lambda r, law=law: law(r).quantile(0.9)))
    found.append(("vrex", LinearVREx(2.0), eqrm.objectives.VREx(2.0).of_risks))
    return found


CASES = cases()


def central(function: Callable[[np.ndarray], object], at: np.ndarray, step: float) -> np.ndarray:
    moved = [at + step * unit for unit in np.eye(len(at))], [at - step * u for u in np.eye(len(at))]
    pairs = zip(*moved, strict=True)
    return np.array([(np.asarray(function(a)) - np.asarray(function(b))) for a, b in pairs]) / (
        2.0 * step
    )


def assert_derivatives_match(criterion: MeasureOfRisks, theta: np.ndarray) -> None:
    point = criterion.at(theta)
    gradient = central(lambda t: criterion.at(t).value, theta, 1e-5)
    hessian = central(lambda t: criterion.at(t).gradient, theta, 1e-5)
    np.testing.assert_allclose(
        point.gradient, gradient, rtol=1e-6, atol=1e-6 * np.abs(gradient).max()
    )
    np.testing.assert_allclose(point.hessian, hessian, rtol=1e-5, atol=1e-6 * np.abs(hessian).max())


@pytest.mark.parametrize("case", CASES, ids=[name for name, _, _ in CASES])
def test_values_match_the_law_and_derivatives_finite_differences(
    case: tuple[str, LinearModel, Value],
) -> None:
    _, model, value = case
    moments = random_world(12, 3, seed=1)
    problem, coordinates = model._pose(moments)
    theta = np.array([0.3, -0.8, 0.5, 0.2])
    beta, intercept = coordinates.predictor(theta)
    expected = float(value(moments.risks(torch.from_numpy(beta), intercept)))
    assert problem.criterion.at(theta).value == pytest.approx(expected, rel=1e-12)
    assert_derivatives_match(problem.criterion, theta)


@pytest.mark.parametrize("intercept", [True, False])
def test_irm_is_the_mean_risk_plus_squared_scale_slopes(intercept: bool) -> None:
    moments = random_world(6, 2, seed=2)
    model = LinearIRM(penalty_weight=3.0, fit_intercept=intercept, l2=0.1)
    problem, coordinates = model._pose(moments)
    theta = np.array([0.4, -0.3, 0.7])[: 2 + intercept]
    beta, offset = coordinates.predictor(theta)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    risks = moments.risks(scale * torch.from_numpy(beta), scale * offset)
    slopes = [torch.autograd.grad(r, scale, retain_graph=True)[0] for r in risks]
    expected = risks.mean() + 3.0 * torch.stack(slopes).square().mean() + 0.1 * (beta @ beta)
    assert problem.criterion.at(theta).value == pytest.approx(expected.item(), rel=1e-12)
    assert_derivatives_match(problem.criterion, theta)


@pytest.mark.parametrize("distribution", ["kde", "gaussian", "empirical"])
@pytest.mark.parametrize("measure", ["quantile", "superquantile"])
def test_rounded_kinks_have_derivatives_too(distribution: str, measure: str) -> None:
    moments = random_world(9, 2, seed=4)
    model = LinearQRM(0.8, distribution, measure, l2=0.2)
    criterion = model._pose(moments)[0].criterion
    assert_derivatives_match(replace(criterion, smoothing=0.5), np.array([0.3, -0.8, 0.5]))


def test_nearly_equal_risks_keep_their_digits() -> None:
    """At β2 = 1e-9 the spread of the risks is 1e-18 of the risks themselves."""
    covariance = [[[1, 1, 1], [1, 3 + s, 3], [1, 3, 3]] for s in (0.5, 1.0, 3.0)]
    moments = DomainMoments.population([[0.0, 0.0, 0.0]] * 3, covariance)
    problem, _ = LinearQRM(0.9, fit_intercept=False)._pose(moments)
    spread = problem.risks.at(np.array([1.0 - 1e-9, 1e-9])).spread
    np.testing.assert_allclose(spread, 1e-18 * (np.array([0.5, 1.0, 3.0]) - 1.5), rtol=1e-12)
