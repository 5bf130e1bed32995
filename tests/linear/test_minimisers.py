"""What the linear models find, against other solvers and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from torch import Tensor

import eqrm
from cases import in_full
from eqrm import Level, LinearQRM
from eqrm.linear import DomainMoments, LinearERM, LinearVREx
from linear.solver_worlds import lowest_by_lbfgs, random_world

SMOOTH = [
    ("kde", "quantile", 0.5),
    ("kde", "quantile", 0.9),
    ("kde", "quantile", Level(log_tail=-1000)),
    ("kde", "superquantile", 0.75),
    ("gaussian", "quantile", 0.9),
    ("gaussian", "superquantile", 0.99),
]


@pytest.mark.parametrize(("law", "measure", "level"), SMOOTH, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_newton_and_lbfgs_from_one_start_reach_the_same_value(
    law: str, measure: str, level: object, seed: int
) -> None:
    moments = random_world(40, 4, seed=seed)
    estimator = {"kde": eqrm.KDE, "gaussian": eqrm.Gaussian}[law]
    start = np.random.default_rng(seed).standard_normal(5)

    def objective(risks: Tensor) -> Tensor:
        return getattr(estimator(risks), measure)(level)

    model = LinearQRM(level, law, measure, starts=[start.tolist()]).fit(moments)
    assert model.converged_
    assert model.value_ == pytest.approx(lowest_by_lbfgs(objective, moments, start), rel=1e-8)


def test_vrex_reaches_what_lbfgs_reaches() -> None:
    moments = random_world(10, 3, seed=5)
    start = np.zeros(4)
    model = LinearVREx(5.0, starts=[start.tolist()]).fit(moments)
    expected = lowest_by_lbfgs(eqrm.objectives.VREx(5.0).of_risks, moments, start)
    assert model.value_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "level", [Level(log_tail=-1000), *in_full(0.999, Level(log_tail=-1e30))], ids=str
)
@pytest.mark.parametrize("law", ["kde", "gaussian"])
def test_few_domains_end_with_equal_risks_of_least_mean(law: str, level: object) -> None:
    """With two domains the risks can be made equal, and a high level does so."""
    moments = random_world(2, 3, seed=0)
    constraint = {
        "type": "eq",
        "fun": lambda p: float(np.diff(moments.risks(p[:3], p[3]))[0]),
    }
    options = {"maxiter": 2000, "ftol": 1e-14}
    expected = minimize(
        lambda p: float(moments.risks(p[:3], p[3]).mean()),
        np.zeros(4),
        method="SLSQP",
        constraints=constraint,
        options=options,
    ).fun
    model = LinearQRM(level, law).fit(moments)
    assert float(model.risks_.std()) < 1e-9
    assert float(model.risks_.mean()) == pytest.approx(expected, rel=1e-6)
    assert model.converged_


def draws(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    groups = np.repeat(np.arange(6), [5, 10, 20, 20, 40, 80])
    X = generator.standard_normal((len(groups), 2)) + groups[:, None] * 0.3
    y = X @ [1.0, -2.0] + 3.0 + generator.standard_normal(len(groups)) * (1 + groups)
    return X, y, groups


@pytest.mark.parametrize("intercept", [True, False])
def test_erm_is_least_squares_over_rows_or_over_domains(intercept: bool) -> None:
    X, y, groups = draws()
    columns = np.column_stack([X, np.ones(len(y))]) if intercept else X
    for weights, each in (
        ("rows", np.ones(len(y))),
        ("domains", 1.0 / np.bincount(groups)[groups]),
    ):
        root = np.sqrt(each)
        expected, *_ = np.linalg.lstsq(columns * root[:, None], y * root, rcond=None)
        model = LinearERM(weights, fit_intercept=intercept).fit(X, y, groups)
        found = [*model.coef_.tolist(), model.intercept_][: columns.shape[1]]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_ridge_is_added_to_the_objective_and_spares_the_intercept() -> None:
    X, y, groups = draws()
    model = LinearERM("rows", l2=0.5).fit(X, y, groups)
    centred = X - X.mean(axis=0)
    expected = np.linalg.solve(
        centred.T @ centred / len(y) + 0.5 * np.eye(2), centred.T @ (y - y.mean()) / len(y)
    )
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)
    residual = ((y - model.predict(X)) ** 2).mean()
    assert model.value_ == pytest.approx(residual + 0.5 * float(expected @ expected), rel=1e-9)


def test_shifted_and_scaled_columns_change_the_coefficients_alone() -> None:
    X, y, groups = draws()
    model = LinearQRM(0.9).fit(X, y, groups)
    moved = LinearQRM(0.9).fit(X * [1e3, 1e-4] + [1e5, -7.0], y + 1e4, groups)
    np.testing.assert_allclose(moved.coef_ * [1e3, 1e-4], model.coef_, rtol=1e-6)
    np.testing.assert_allclose(moved.risks_, model.risks_, rtol=1e-6)


def test_distinct_minima_are_reported_best_first() -> None:
    """Two mirrored worlds: the quantile at ½ is low near either, and not between them."""
    slopes = np.array([-2.0] * 5 + [2.0] * 5)
    covariance = [[[1.0, s], [s, s * s + 0.1]] for s in slopes + np.linspace(-0.1, 0.1, 10)]
    moments = DomainMoments.population(np.zeros((10, 2)), covariance)
    model = LinearQRM(0.4, "empirical", fit_intercept=False, starts=[[-3.0], [0.1], [3.0]]).fit(
        moments
    )
    assert len(model.minima_) >= 2
    values = [minimum.value for minimum in model.minima_]
    assert values == sorted(values)
    signs = {float(np.sign(minimum.coefficients[0])) for minimum in model.minima_}
    assert signs == {-1.0, 1.0}
    assert model.value_ == values[0]


def test_a_path_holds_what_single_fits_find() -> None:
    moments = random_world(30, 3, seed=8)
    levels = [0.9, 0.5, 0.99, "1-e^-100"]
    frontier = LinearQRM(starts=6).fit(moments).path(levels)
    for i, level in enumerate(levels):
        model = LinearQRM(level, starts=6).fit(moments)
        assert frontier.values[i] == pytest.approx(model.value_, rel=1e-9)
        np.testing.assert_allclose(frontier.coefficients[i], model.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(frontier.quantile_risks.diagonal(), frontier.values, rtol=1e-7)
    np.testing.assert_allclose(frontier.mean_risks, frontier.risks.mean(axis=1))
    own = frontier.quantile_risks.diagonal()
    assert bool((own <= frontier.quantile_risks + 1e-9).all()), "each level wins its own column"
    assert bool(frontier.converged.all())
