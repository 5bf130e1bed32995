"""Empirical superquantiles of convex risks: solved to optimality, and proved to be."""

from __future__ import annotations

import numpy as np
import pytest

from eqrm import LinearQRM, QRMClassifier, QRMRegressor
from eqrm.linear import LinearERM
from eqrm.linear.solving.risk_functions import Array
from linear.solver_worlds import random_world
from linear.superquantile_programs import Case, cases, stored_values

CASES = list(cases())


def superquantile(risks: Array, alpha: float) -> float:
    """min over t of t + Σ (R_e − t)₊/((1−α)m), which is least at one of the risks."""
    number = max((1.0 - alpha) * len(risks), 1.0)
    return min(float(t + np.maximum(risks - t, 0.0).sum() / number) for t in risks)


def fitted(case: Case, **changed: object) -> QRMClassifier | QRMRegressor:
    kind = QRMRegressor if case.loss == "squared" else QRMClassifier
    settings = {"alpha": case.alpha, "measure": "superquantile", "distribution": "empirical"}
    return kind(**{**settings, "l2": case.l2, **changed}).fit(case.X, case.y, case.domains)


def value_of(model: QRMClassifier | QRMRegressor, case: Case) -> float:
    """The superquantile of the training domains plus the penalty, from predictions alone."""
    scores = case.X @ np.ravel(model.coef_) + model.intercept_
    if case.loss == "squared":
        losses = (scores - case.y) ** 2
    else:
        losses = np.logaddexp(0.0, (1 - 2 * case.y) * scores)
    risks = np.array([losses[case.domains == e].mean() for e in range(case.domains.max() + 1)])
    penalty = case.l2 * float(((np.ravel(model.coef_) * case.spread) ** 2).sum())
    return superquantile(risks, case.alpha) + penalty


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}-{case.loss}-{case.alpha}")
def test_a_conic_program_finds_the_same_value(case: Case) -> None:
    model, stored = fitted(case), stored_values()[case.number]
    assert model.converged_
    assert value_of(model, case) == pytest.approx(stored, rel=1e-8)
    proof, domains = model.optimality_, case.domains.max() + 1
    assert proof.residual <= 1e-8
    assert proof.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert proof.weights.min() >= 0.0
    assert proof.weights.max() <= (1.0 + 1e-12) / max((1.0 - case.alpha) * domains, 1.0)


@pytest.mark.parametrize("case", CASES[1::3], ids=lambda case: f"{case.number}-{case.loss}")
def test_the_weights_of_the_proof_give_the_same_predictor(case: Case) -> None:
    """ERM whose domains have these weights: by normal equations, or by the gradient."""
    model = fitted(case)
    weights = model.optimality_.weights[case.domains] / np.bincount(case.domains)[case.domains]
    scores = case.X @ np.ravel(model.coef_) + model.intercept_
    if case.loss == "squared":
        slopes = 2.0 * (scores - case.y)
    else:
        slopes = 1.0 / (1.0 + np.exp(-scores)) - case.y
    gradient = (weights * slopes) @ (case.X / case.spread)
    gradient += 2.0 * case.l2 * np.ravel(model.coef_) * case.spread
    size = np.abs(weights * slopes).sum()
    assert np.abs(gradient).max() <= 1e-8 * size
    assert abs(float((weights * slopes).sum())) <= 1e-8 * size


@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0])
def test_separable_classes_without_a_penalty_have_risks_of_almost_0(alpha: float) -> None:
    generator = np.random.default_rng(0)
    X, domains = generator.normal(size=(300, 2)), np.arange(300) % 15
    model = QRMClassifier(alpha, measure="superquantile", distribution="empirical", l2=0.0)
    model.fit(X, X[:, 0] > 0, domains)
    assert model.converged_
    assert model.domain_risks_.max() < 1e-8


def test_a_quantile_is_not_convex_and_has_no_proof() -> None:
    moments = random_world(12, 2)
    assert LinearQRM(0.8).fit(moments).optimality_ is None
    assert LinearQRM(0.8, "empirical").fit(moments).optimality_ is None
    assert LinearERM().fit(moments).optimality_.residual < 1e-12
    assert LinearQRM(1.0, "empirical").fit(moments).optimality_.residual < 1e-8
