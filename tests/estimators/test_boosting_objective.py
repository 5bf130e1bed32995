"""EQRM's gradient for boosting: finite differences, scale, negative weights, first round."""

from __future__ import annotations

import copy
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost

import eqrm
from eqrm.errors import DomainDataError
from eqrm.estimators.boosting.objective import DomainTable
from eqrm.estimators.goal import Goal
from oracle.kde_scipy import NormalMixture

# LightGBM estimates the rows in a leaf from Hessians, which rounding can tip over: no least number.
LIGHT = {"verbosity": -1, "num_threads": 1, "learning_rate": 0.1, "num_leaves": 8}
LIGHT |= {"min_data_in_leaf": 0}
ROUNDS = 5
XGB = {"nthread": 1, "learning_rate": 0.1, "max_depth": 3}


def kde_quantile(risks: np.ndarray, alpha: float) -> float:
    """An independent quantile: scipy's root of the mixture, the paper's bandwidth by hand."""
    bandwidth = (4 / (3 * len(risks))) ** 0.2 * risks.std(ddof=1)
    return NormalMixture(risks, float(bandwidth)).quantile(float(np.log1p(-alpha)))


def binary_world(rows: int = 400, domains: int = 25) -> tuple[Any, Any, Any, Any]:
    """Uneven domains that differ; X, y, domain of each row, weight of each row."""
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(0, domains, rows))
    X = rng.normal(size=(rows, 3))
    shift = rng.normal(0.0, 1.5, domains)[groups]
    y = (rng.random(rows) < 1 / (1 + np.exp(-X[:, 0] - shift))).astype(float)
    return X, y, groups, rng.integers(1, 4, rows).astype(float)


def exact_risks(
    margins: np.ndarray, y: np.ndarray, groups: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    losses = np.logaddexp(0.0, margins) - y * margins
    return np.bincount(groups, losses * weights) / np.bincount(groups, weights)


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_is_a_finite_difference_of_the_quantile(alpha: float, weighted: bool) -> None:
    X, y, groups, weights = binary_world()
    weights = weights if weighted else np.ones_like(weights)
    margins = 0.7 * X[:, 0]
    table = DomainTable("log-loss", y, groups, weights)
    gradient, _, found = table.gradient(margins, Goal.of(alpha))
    assert found.value == pytest.approx(
        kde_quantile(exact_risks(margins, y, groups, weights), alpha), rel=1e-6
    )
    step = 1e-4
    for row in range(0, len(y), 11):
        ends = []
        for sign in (1.0, -1.0):
            moved = margins.copy()
            moved[row] += sign * step
            ends.append(kde_quantile(exact_risks(moved, y, groups, weights), alpha))
        slope = weights.sum() * (ends[0] - ends[1]) / (2 * step)
        assert gradient[row] == pytest.approx(slope, rel=2e-4, abs=2e-6)


@pytest.mark.parametrize("loss", ["softmax", "squared"])
def test_other_losses_have_a_gradient_that_is_a_finite_difference_too(loss: str) -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(6), 10)
    if loss == "softmax":
        y, margins = rng.integers(0, 3, 60), rng.normal(size=(60, 3))
        table = DomainTable("log-loss", y, groups, num_class=3)
    else:
        y, margins = rng.normal(size=6)[groups], rng.normal(size=60)
        table = DomainTable("squared", y, groups)
    gradient, hessian, _ = table.gradient(margins, Goal.of(0.9))

    def quantile(at: np.ndarray) -> float:
        if loss == "squared":  # whose derivatives are those of a half of it
            return 0.5 * kde_quantile(np.bincount(groups, (at - y) ** 2) / 10, 0.9)
        logs = at - np.log(np.exp(at).sum(axis=1, keepdims=True))
        return kde_quantile(np.bincount(groups, -logs[np.arange(60), y]) / 10, 0.9)

    for place in range(0, margins.size, 17):
        up, down = margins.copy(), margins.copy()
        up.flat[place] += 1e-4
        down.flat[place] -= 1e-4
        slope = 60 * (quantile(up) - quantile(down)) / 2e-4
        assert gradient.flat[place] == pytest.approx(slope, rel=2e-4, abs=2e-6)
    assert (hessian > 0).all()


def test_the_gradient_keeps_negative_weights_and_the_hessian_is_positive() -> None:
    """v_e is the larger of |w_e| and 1/m."""
    X, y, groups, weights = binary_world()
    margins = 0.7 * X[:, 0]
    table = DomainTable("log-loss", y, groups, weights)
    gradient, hessian, found = table.gradient(margins, Goal.of(0.9))
    p = 1 / (1 + np.exp(-margins))
    v = np.maximum(np.abs(found.weights), 1 / 25)
    totals = np.bincount(groups, weights)
    expected = weights.sum() * (v / totals)[groups] * weights * p * (1 - p)
    np.testing.assert_allclose(hessian, expected, rtol=2e-6)
    negative = np.isin(groups, np.flatnonzero(found.weights < 0))
    assert negative.any()
    assert (np.sign(gradient[negative]) == np.sign(y - p)[negative]).all()
    assert found.weights.sum() == pytest.approx(1.0)


def xgboost_margins(X: Any, y: Any, obj: Any = None, weight: Any = None, **more: Any) -> Any:
    data = xgboost.DMatrix(X, y, weight=weight)
    made = None if obj is None else obj(data)
    booster = xgboost.train({**XGB, **more}, data, ROUNDS, obj=made)
    return booster.predict(data, output_margin=True)


def lightgbm_margins(X: Any, y: Any, obj: Any, weight: Any = None, **more: Any) -> Any:
    data = lightgbm.Dataset(X, y, weight=weight)
    made = obj if isinstance(obj, str) else obj(data)
    booster = lightgbm.train({**LIGHT, "objective": made, **more}, data, ROUNDS)
    return booster.predict(X, raw_score=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("objective", "base_score"), [("binary:logistic", 0.5), ("reg:squarederror", 0.0)]
)
def test_with_one_domain_xgboost_boosts_as_with_its_own_objective(
    objective: str, base_score: float, weighted: bool
) -> None:
    X, y, _, weights = binary_world()
    weight, loss = weights if weighted else None, "log-loss"
    if objective == "reg:squarederror":
        y, loss = 3.0 * y + X[:, 1], "squared"
    own = xgboost_margins(X, y, weight=weight, objective=objective, base_score=base_score)
    zeros = np.zeros(len(y), int)
    make = eqrm.estimators.xgboost_objective
    ours = xgboost_margins(X, y, lambda d: make({d: zeros}, metric=loss), weight, base_score=0.0)
    np.testing.assert_allclose(ours, own, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["binary", "multiclass", "regression"])
def test_with_one_domain_lightgbm_boosts_as_with_its_own_objective(
    weighted: bool, name: str
) -> None:
    X, y, _, weights = binary_world()
    weight, more = weights if weighted else None, {"num_class": 3} if name == "multiclass" else {}
    y = {"binary": y, "multiclass": y + (X[:, 1] > 0.5), "regression": 3.0 * y + X[:, 1]}[name]
    own = lightgbm_margins(X, y, name, weight, boost_from_average=False, **more)
    zeros, loss = np.zeros(len(y), int), "squared" if name == "regression" else "log-loss"
    make = eqrm.estimators.lightgbm_objective
    ours = lightgbm_margins(X, y, lambda d: make({d: zeros}, metric=loss, **more), weight, **more)
    np.testing.assert_allclose(ours, own, atol=1e-4)


def test_other_objectives_of_risks_can_be_boosted() -> None:
    X, y, groups, _ = binary_world()
    data = xgboost.DMatrix(X, y)
    objective = eqrm.estimators.xgboost_objective(
        {data: groups}, eqrm.objectives.VREx(penalty_weight=1.0)
    )
    objective(0.7 * X[:, 0], data)
    assert objective.last is not None
    risks = objective.last.risks
    assert objective.last.value == pytest.approx(risks.mean() + risks.var(), rel=1e-6)


def test_metrics_show_the_quantile_of_every_dataset_and_any_level() -> None:
    X, y, groups, _ = binary_world()
    train, valid = xgboost.DMatrix(X, y), xgboost.DMatrix(X[::2], y[::2])
    objective = eqrm.estimators.xgboost_objective({train: groups, valid: groups[::2]}, alpha=0.9)
    margins, ones = 0.7 * X[:, 0], np.ones(len(y))
    risks = exact_risks(margins, y, groups, ones)
    assert objective.metric(margins, train) == (
        "log-loss-q0.9",
        pytest.approx(kde_quantile(risks, 0.9), rel=1e-6),
    )
    name, value = objective.metric_at(None)(margins[::2], valid)
    worst = eqrm.estimators.xgboost_objective({train: groups}, 0.9, distribution="empirical")
    assert worst.metric_at(1.0)(margins, train)[1] == pytest.approx(risks.max(), rel=1e-6)
    half = exact_risks(margins[::2], y[::2], groups[::2], ones[::2])
    assert (name, value) == ("log-loss-mean", pytest.approx(half.mean(), rel=1e-6))


def test_lightgbms_copy_of_its_parameters_still_knows_the_datasets() -> None:
    X, y, groups, _ = binary_world()
    data = lightgbm.Dataset(X, y).construct()
    objective = eqrm.estimators.lightgbm_objective({data: groups})
    assert copy.deepcopy({"objective": objective})["objective"] is objective
    assert objective.metric(np.zeros(len(y)), data) == (
        "log-loss-q0.9",
        pytest.approx(np.log(2)),
        False,
    )


def test_a_dataset_without_domains_and_wrong_arguments_are_refused() -> None:
    X, y, groups, _ = binary_world()
    known, other = xgboost.DMatrix(X, y), xgboost.DMatrix(X, y)
    objective = eqrm.estimators.xgboost_objective({known: groups})
    with pytest.raises(DomainDataError, match="domains of a dataset are unknown"):
        objective(np.zeros(len(y)), other)
    with pytest.raises(DomainDataError, match="one domain per row"):
        eqrm.estimators.xgboost_objective({known: groups[:-1]})(np.zeros(len(y)), known)
    with pytest.raises(DomainDataError, match="Margins must have shape"):
        objective(np.zeros((len(y), 3)), known)


def test_margins_that_diverged_name_the_domain() -> None:
    _, y, groups, _ = binary_world()
    margins = np.zeros(len(y))
    margins[groups == 4] = np.nan
    table = DomainTable("log-loss", y, groups)
    with pytest.raises(DomainDataError, match=r"risk of domain 4 is not finite.*learning_rate"):
        table.gradient(margins, Goal.of(0.9))
