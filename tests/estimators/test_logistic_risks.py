"""The log-loss of domains in linear predictors: derivatives and minima against other ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.nn import functional

import eqrm
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.goal import Goal
from eqrm.estimators.groups import as_groups
from eqrm.estimators.linear_fits import LogisticProblem
from eqrm.linear.solving.measures import MeasureOfRisks
from estimators.worlds import World, classes_world

L2 = 1e-3


def problem(world: World, weights: Any = None, intercept: bool = True) -> LogisticProblem:
    rows = TrainingRows(world.X, world.y, as_groups(world.groups, len(world.y)), weights)
    return LogisticProblem.of(rows, l2=L2, intercept=intercept, max_steps=200)


def shuffled(world: World, seed: int = 3) -> World:
    return world.rows(np.random.default_rng(seed).permutation(len(world.y)))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    ("alpha", "distribution", "measure"),
    [
        (0.9, "kde", "quantile"),
        (0.5, "kde", "quantile"),
        (0.8, "gaussian", "quantile"),
        (0.7, "kde", "superquantile"),
        (0.7, "lognormal", "quantile"),
        ("1-e^-100", "kde", "quantile"),
    ],
)
def test_gradient_and_hessian_match_finite_differences(
    classes: int, alpha: Any, distribution: str, measure: str
) -> None:
    world = shuffled(classes_world(classes, domains=8, rows=12))
    generator = np.random.default_rng(0)
    posed = problem(world, weights=generator.uniform(0.5, 2.0, len(world.y)))
    goal = Goal.of(alpha, distribution, measure)
    criterion = MeasureOfRisks(posed.risks, goal.measure(8), posed.penalty)
    theta = 0.3 * generator.normal(size=posed.risks.parameters)
    point = criterion.at(theta)
    step = 1e-5
    for j in range(len(theta)):
        away = step * np.eye(len(theta))[j]
        up, down = criterion.at(theta + away), criterion.at(theta - away)
        slope = (up.value - down.value) / (2 * step)
        assert point.gradient[j] == pytest.approx(slope, rel=1e-6, abs=1e-7)
        bend = (up.gradient - down.gradient) / (2 * step)
        np.testing.assert_allclose(point.hessian[j], bend, rtol=2e-5, atol=2e-6)


def objective_of_rows(world: World, weights: Any, objective: eqrm.objectives.RiskObjective) -> Any:
    """Quantile of log-loss + l2·Σβ², from the raw rows, by torch, in standardised features."""
    w = np.ones(len(world.y)) if weights is None else weights
    centre = np.average(world.X, axis=0, weights=w)
    spread = np.sqrt(np.average((world.X - centre) ** 2, axis=0, weights=w))
    X = torch.tensor((world.X - centre) / spread)
    y, groups, shares = torch.tensor(world.y), torch.tensor(world.groups), torch.tensor(w)
    classes, width = int(world.y.max()) + 1, world.X.shape[1] + 1
    outputs = 1 if classes == 2 else classes
    totals = torch.zeros(int(groups.max()) + 1, dtype=torch.float64).index_add(0, groups, shares)

    def value(flat: Any) -> tuple[float, Any]:
        theta = torch.tensor(flat.reshape(outputs, width), requires_grad=True)
        logits = X @ theta[:, :-1].T + theta[:, -1]
        if classes == 2:
            losses = functional.softplus((1.0 - 2.0 * y) * logits[:, 0])
        else:
            losses = functional.cross_entropy(logits, y, reduction="none")
        risks = torch.zeros_like(totals).index_add(0, groups, losses * shares) / totals
        found = objective.of_risks(risks) + L2 * (theta[:, :-1] ** 2).sum()
        found.backward()
        return float(found.detach()), theta.grad.numpy().ravel().copy()

    return value, outputs * width


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("classes", "alpha", "weighted"),
    [
        (2, None, True),
        (2, 0.5, False),
        (2, 0.75, True),
        (2, 0.9, False),
        (2, 0.9, True),
        (2, 0.99, True),
        (3, None, False),
        (3, 0.5, True),
        (3, 0.9, False),
        (3, 0.99, True),
    ],
)
def test_no_other_optimiser_finds_a_lower_quantile(
    classes: int, alpha: float | None, weighted: bool
) -> None:
    world = shuffled(classes_world(classes))
    weights = np.random.default_rng(5).uniform(0.2, 3.0, len(world.y)) if weighted else None
    posed = problem(world, weights)
    objective = eqrm.ERM() if alpha is None else eqrm.EQRM(alpha)
    end = posed.least(Goal.of(alpha).measure(30))[0]
    assert end.converged
    value, size = objective_of_rows(world, weights, objective)
    generator = np.random.default_rng(0)
    starts = [np.zeros(size), *(0.3 * generator.normal(size=(3, size)))]
    options = {"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-10}
    best = min(
        minimize(value, start, jac=True, method="L-BFGS-B", options=options).fun for start in starts
    )
    assert end.value <= best + 1e-9
    assert best <= end.value + 1e-7  # and it is the same function


def test_many_parameters_are_solved_by_lbfgs_to_the_same_minimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = classes_world(3)
    measure = Goal.of(0.9).measure(30)
    by_newton = problem(world).least(measure)[0]
    monkeypatch.setattr("eqrm.estimators.linear_fits.NEWTON_UP_TO", 1)
    wide = problem(world).least(measure)[0]
    assert wide.converged
    assert wide.value == pytest.approx(by_newton.value, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("long", [1, 10**9])
def test_threads_and_long_domains_change_nothing(
    classes: int, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = classes_world(classes, domains=7, rows=900)  # several blocks of rows
    one = problem(world).risks
    monkeypatch.setattr("eqrm.linear.solving.logistic_risks.LONG", long)
    several = replace(one, workers=3)
    assert len(several.row_parts) == 3
    theta = np.random.default_rng(0).normal(size=one.parameters)
    weights = np.random.default_rng(1).normal(size=one.domains)
    here, there = one.at(theta), several.at(theta)
    np.testing.assert_allclose(here.spread, there.spread, atol=1e-14)
    for a, b in zip(here.slopes, there.slopes, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
    np.testing.assert_allclose(
        here.weighted_hessian(weights), there.weighted_hessian(weights), atol=1e-12
    )
