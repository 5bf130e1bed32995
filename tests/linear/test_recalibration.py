"""Recalibration for a level against an independent optimiser, for every kind of scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import check_grad, minimize

import eqrm
from cases import in_full
from eqrm.level import Level
from eqrm.linear.recalibration import CorrectionProblem, Units, recalibrate
from eqrm.linear.scored_rows import Correction, ScoredRows

Array = NDArray[np.float64]


def scored_rows(classes: int, seed: int = 0, domains: int = 40, each: int = 60) -> ScoredRows:
    """Scores that are wrong in another way in each domain; classes 0 are numbers."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(domains), each)
    own = rng.normal(size=domains)[ids]
    scores = rng.normal(size=(len(ids), max(classes, 1))) * 2.0
    if classes == 0:
        target = 1.5 * scores[:, 0] - 4.0 + own + rng.normal(size=len(ids)) * np.exp(0.5 * own)
        return ScoredRows.of(scores[:, 0] + 5.0, target, 0, ids)
    if classes == 2:
        logits = scores[:, 0] + own - 1.0
        labels = (rng.random(len(ids)) < 1.0 / (1.0 + np.exp(-logits))).astype(int)
        return ScoredRows.of(scores[:, 0], labels, 2, ids)
    tilt = np.linspace(1.0, -0.5, classes) * own[:, None]
    labels = (1.7 * scores + tilt + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return ScoredRows.of(scores, labels, classes, ids)


def quantile(risks: Array, level: float = 0.9) -> float:
    return float(eqrm.KDE(torch.from_numpy(risks)).quantile(level))


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_no_other_correction_has_a_smaller_quantile(classes: int, scaled: bool) -> None:
    rows = scored_rows(classes)
    found = recalibrate(rows, Level(0.9), scaled=scaled)
    shifts = max(classes - 1, 1)

    def value(parameters: Array) -> float:
        shift = parameters[:shifts]
        own = float(shift[0]) if classes < 3 else (*shift.tolist(), 0.0)
        return quantile(rows.risks(Correction(own, float(parameters[-1]) if scaled else 1.0)))

    starts = [np.append(np.zeros(shifts), [1.0] * scaled), np.full(shifts + scaled, 0.3)]
    best = min(minimize(value, start, method="Powell", tol=1e-10).fun for start in starts)
    reached = quantile(rows.risks(found))
    assert reached <= best + 1e-8
    assert reached < quantile(rows.risks(Correction()))
    assert (found.scale == 1.0) is not scaled


@pytest.mark.parametrize("classes", [2, 3])
def test_derivatives_of_corrected_log_losses(classes: int) -> None:
    rows = scored_rows(classes, domains=5, each=9)
    risks = CorrectionProblem.of(rows, Units.of(rows, scaled=True)).risks
    point = np.linspace(0.4, 0.9, risks.parameters)
    weights = np.array([0.3, -0.1, 0.5, 0.2, 0.1])

    def value(theta: Array) -> float:
        here = risks.at(theta)
        return float(weights @ (here.mean + here.spread))

    def slope(theta: Array) -> Array:
        mean, away = risks.at(theta).slopes
        found: Array = weights @ (mean + away)
        return found

    assert check_grad(value, slope, point) < 1e-6
    hessian = risks.at(point).weighted_hessian(weights)
    numeric = [
        (slope(point + 1e-6 * unit) - slope(point - 1e-6 * unit)) / 2e-6
        for unit in np.eye(risks.parameters)
    ]
    np.testing.assert_allclose(hessian, np.array(numeric), atol=1e-7)


def test_the_mean_is_logistic_regression_on_the_logit() -> None:
    from sklearn.linear_model import LogisticRegression

    rows = scored_rows(2)
    found = recalibrate(rows, None)
    other = LogisticRegression(C=1e9, tol=1e-10).fit(rows.scores[:, None], rows.target)
    assert found.scale == pytest.approx(float(other.coef_[0, 0]), abs=1e-4)
    assert found.shift == pytest.approx(float(other.intercept_[0]), abs=1e-4)


def test_rows_in_any_order_weights_as_copies_and_back_from_plain_data() -> None:
    rows = scored_rows(2, domains=12, each=20)
    ids = np.repeat(np.arange(12), 20)
    order = np.random.default_rng(1).permutation(len(ids))
    found = recalibrate(rows, Level(0.8))
    shuffled = ScoredRows.of(rows.scores[order], rows.target[order], 2, ids[order])
    assert recalibrate(shuffled, Level(0.8)).scale == pytest.approx(found.scale, rel=1e-6)
    copies = np.random.default_rng(2).integers(1, 4, len(ids))
    weighted = ScoredRows.of(rows.scores, rows.target, 2, ids, copies.astype(float))
    repeated = ScoredRows.of(
        rows.scores.repeat(copies), rows.target.repeat(copies), 2, ids.repeat(copies)
    )
    np.testing.assert_allclose(weighted.risks(found), repeated.risks(found))
    assert Correction.from_dict(found.to_dict()) == found


def test_scores_that_separate_the_classes_have_a_finite_correction() -> None:
    ids = np.repeat(np.arange(10), 20)
    scores = np.random.default_rng(0).normal(size=200)
    found = recalibrate(ScoredRows.of(scores, (scores > 0).astype(int), 2, ids), Level(0.9))
    assert np.isfinite(found.shift)
    assert 10.0 < found.scale < 1e7


def test_many_rows_are_searched_by_some_and_solved_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = scored_rows(2, domains=40, each=200)
    at_once = recalibrate(rows, Level(0.9))
    monkeypatch.setattr("eqrm.linear.recalibration.LARGE", 1000)
    in_two = recalibrate(rows, Level(0.9))
    assert quantile(rows.risks(in_two)) == pytest.approx(quantile(rows.risks(at_once)), abs=1e-8)


def test_equal_odds_are_a_minimum_where_base_rates_are_on_both_sides_of_a_half() -> None:
    """It is the kink at which all risks are ln 2."""
    generator = np.random.default_rng(0)
    domains = np.repeat(np.arange(40), 50)
    rates = np.where(np.arange(40) < 28, 0.1, 0.9)[domains]
    labels = (generator.random(len(domains)) < rates).astype(int)
    rows = ScoredRows.of(generator.normal(size=len(domains)) - 2.0, labels, 2, domains)
    found = recalibrate(rows, Level(0.9))
    assert found.scale == 0.0
    assert found.shift == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("level", [None, Level(0.9)])
def test_scores_that_add_nothing_are_multiplied_by_exactly_zero(level: Level | None) -> None:
    """In one half of the domains the scores speak for the label, in the other against it."""
    generator = np.random.default_rng(0)
    half, domains = generator.normal(size=3000), np.repeat(np.arange(60), 100)
    labels = (generator.random(3000) < 1.0 / (1.0 + np.exp(-2.0 * half))).astype(int)
    scores, both = np.concatenate([half, half]), np.concatenate([labels, 1 - labels])
    rows = ScoredRows.of(scores, both, 2, domains)
    found = recalibrate(rows, level)
    assert found.scale == 0.0
    assert recalibrate(rows, level, near=found).scale == 0.0


@pytest.mark.parametrize("alpha", [0.9, *in_full(0.5, 0.99)])
@pytest.mark.parametrize("value", [0.0, 1.0, 1e8])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_constant_target_is_predicted_without_warnings(value: float, alpha: float) -> None:
    scores = np.random.default_rng(0).normal(size=300)
    target, groups = np.full(300, value), np.arange(300) // 10
    near = value + 1e-9 * scores
    for given in (scores, near):
        model = eqrm.Recalibrated(alpha=alpha, task="regression").fit(given, target, groups)
        np.testing.assert_allclose(model.predict(given), target, rtol=1e-6, atol=1e-6)
    x = scores[:, None]
    model = eqrm.QRMRegressor(alpha=alpha, surrogate="auto", l2=1e-3).fit(x, target, groups)
    np.testing.assert_allclose(model.predict(x), target, rtol=1e-6, atol=1e-6)
