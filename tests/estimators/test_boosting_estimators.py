"""The boosted estimators in scikit-learn's habits, for both libraries and both tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import eqrm
from eqrm.errors import DomainDataError, EqrmWarning, MissingExtraError, SettingError
from eqrm.estimators.boosting.rounds import fit_together

CLASSIFIERS = [eqrm.XGBQRMClassifier, eqrm.LGBMQRMClassifier]
REGRESSORS = [eqrm.XGBQRMRegressor, eqrm.LGBMQRMRegressor]
ESTIMATORS = [*CLASSIFIERS, *REGRESSORS]
PACKAGES = ["xgboost", "lightgbm"] * 2
QUICK = {"n_estimators": 15, "n_jobs": 1, "random_state": 0}


def world(domains: int = 40, rows: int = 30, seed: int = 0) -> tuple[Any, Any, Any]:
    """Days with a shift of their own; labels 0 and 1, or numbers for regression."""
    rng = np.random.default_rng(seed)
    days = np.repeat(np.arange(domains), rows)
    X = rng.normal(size=(len(days), 3))
    shift = rng.normal(0.0, 1.0, domains)[days]
    y = rng.random(len(days)) < 1 / (1 + np.exp(-X[:, 0] - shift))
    return X, y.astype(int), days


def risks_by_hand(model: Any, X: Any, y: Any, days: Any) -> np.ndarray:
    if hasattr(model, "predict_proba"):
        losses = -np.log(model.predict_proba(X)[np.arange(len(y)), y])
    else:
        losses = (model.predict(X) - y) ** 2
    return np.bincount(days, losses) / np.bincount(days)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_the_risks_it_reports_are_those_of_its_predictions(cls: Any) -> None:
    X, y, days = world()
    model = cls(alpha=0.9, **QUICK).fit(X, y, groups=days)
    risks = risks_by_hand(model, X, y, days)
    np.testing.assert_allclose(model.domain_risks_, risks, rtol=1e-4)
    assert model.domains_ == tuple(range(40))
    assert model.level_ == eqrm.Level(0.9)
    quantile = eqrm.EQRM(0.9).of_risks(torch.tensor(risks))
    assert model.quantile_risk_ == pytest.approx(float(quantile), rel=1e-4)


def least_objective(cells: Any, y: Any, days: Any, alpha: float | None, log_loss: bool) -> float:
    """The least objective over a margin per cell, by scipy: what boosting can reach at best."""
    objective = eqrm.ERM() if alpha is None else eqrm.EQRM(alpha)

    def value(margins: np.ndarray) -> tuple[float, np.ndarray]:
        given = torch.tensor(margins, requires_grad=True)
        f, labels = given[cells], torch.tensor(y, dtype=torch.float64)
        losses = torch.nn.functional.softplus(f) - labels * f if log_loss else (f - labels) ** 2
        risk = objective(losses, days)
        risk.backward()
        return float(risk.detach()), given.grad.numpy()  # type: ignore[union-attr]

    return float(minimize(value, np.zeros(cells.max() + 1), jac=True, method="BFGS").fun)


@pytest.mark.unmeasured
@pytest.mark.parametrize("alpha", [None, 0.5, 0.9])
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_boosting_reaches_the_least_objective_of_all_functions_of_a_cell(
    cls: Any, alpha: float | None
) -> None:
    rng = np.random.default_rng(0)
    days = np.repeat(np.arange(40), 50)
    cells = rng.integers(0, 4, len(days))
    shift = rng.normal(0.0, 1.0, (40, 4))[days, cells]
    y = (rng.random(len(days)) < 1 / (1 + np.exp(-shift - 0.5 * cells))).astype(int)
    settings = {**QUICK, "n_estimators": 150, "learning_rate": 0.2}
    model = cls(alpha=alpha, **settings).fit(cells[:, None], y, groups=days)
    least = least_objective(cells, y, days, alpha, hasattr(model, "predict_proba"))
    assert model.quantile_risk_ == pytest.approx(least, rel=1e-4)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_early_stopping_keeps_the_round_of_the_least_validation_quantile(cls: Any) -> None:
    X, y, days = world()
    unseen = days >= 30
    settings = {**QUICK, "n_estimators": 200, "learning_rate": 0.5, "erm_rounds": 0}
    model = cls(alpha=0.9, early_stopping_rounds=5, **settings)
    model.fit(
        X[~unseen],
        y[~unseen],
        groups=days[~unseen],
        eval_set=(X[unseen], y[unseen]),
        eval_groups=days[unseen],
    )
    curve = model.validation_curve_
    assert model.n_estimators_ == int(np.argmin(curve)) + 1
    assert len(curve) == model.n_estimators_ + 5 < 200
    risks = risks_by_hand(model, X[unseen], y[unseen], days[unseen] - 30)
    quantile = eqrm.EQRM(0.9).of_risks(torch.tensor(risks))
    assert min(curve) == pytest.approx(float(quantile), rel=1e-4)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_rounds_of_erm_come_first_and_are_those_of_erm(cls: Any) -> None:
    X, y, days = world()
    begun = cls(alpha=0.9, erm_rounds=10, **QUICK).fit(X, y, groups=days)
    erm = cls(alpha=None, **{**QUICK, "n_estimators": 10}).fit(X, y, groups=days)
    assert (begun.n_estimators_, begun.erm_rounds_, erm.erm_rounds_) == (15, 10, 10)
    if cls.__name__.startswith("XGB"):
        first = begun.booster_[:10].inplace_predict(X, predict_type="margin")
    else:
        first = begun.booster_.predict(X, raw_score=True, num_iteration=10)
    np.testing.assert_array_equal(first + erm.start_[0], erm._checked_scores(X))
    alone = cls(alpha=0.9, erm_rounds=0, **QUICK).fit(X, y, groups=days)
    assert alone.erm_rounds_ == 0
    assert np.abs(alone._checked_scores(X) - begun._checked_scores(X)).max() > 0.01
    only = cls(alpha=0.9, erm_rounds=1.0, **{**QUICK, "n_estimators": 10}).fit(X, y, groups=days)
    np.testing.assert_array_equal(only.predict(X), erm.predict(X))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_early_stopping_waits_for_rounds_of_the_level_and_ends_those_of_erm(cls: Any) -> None:
    X, y, days = world()
    settings = {**QUICK, "n_estimators": 200, "learning_rate": 0.5, "early_stopping_rounds": 5}
    model = cls(alpha=0.9, erm_rounds=190, **settings).fit(X, y, groups=days)
    erm = cls(alpha=None, **settings).fit(X, y, groups=days)
    ended = len(erm.validation_curve_)  # the mean risk of the same domains fell until then
    stopped = len(model.validation_curve_)
    best = int(np.argmin(model.validation_curve_)) + 1
    assert ended < 100
    assert stopped == max(ended, best) + 5
    assert model.n_estimators_ == best
    assert model.erm_rounds_ == min(ended, best)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_goals_fitted_together_are_those_fitted_alone(
    cls: Any, classes: int, tmp_path: Path
) -> None:
    X, y, days = world()
    X[::7, 1] = np.nan
    target = y + (X[:, 2] > 1.0) * (classes == 3)
    weights = 1.0 + (X[:, 0] > 0)
    goals = [{"alpha": 0.9, "measure": "superquantile"}, {"alpha": None}, {"alpha": 0.5}]
    together = fit_together(cls(**QUICK), goals, X, target, days, weights)
    for goal, model in zip(goals, together, strict=True):
        alone = cls(**{**QUICK, **goal}).fit(X, target, days, weights)
        assert model.get_params() == alone.get_params()
        assert (model.n_estimators_, model.erm_rounds_) == (alone.n_estimators_, alone.erm_rounds_)
        np.testing.assert_allclose(model._checked_scores(X), alone._checked_scores(X), atol=1e-5)
        np.testing.assert_allclose(model.domain_risks_, alone.domain_risks_, rtol=1e-5)
        assert model.quantile_risk_ == pytest.approx(alone.quantile_risk_, rel=1e-5)
        eqrm.save_model(model, tmp_path / "model.safetensors")
        again = eqrm.load_model(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(again._checked_scores(X), model._checked_scores(X))
        assert again.erm_rounds_ == model.erm_rounds_


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_validation_domains_that_were_trained_on_are_announced(cls: Any) -> None:
    X, y, days = world()
    with pytest.warns(EqrmWarning, match="40 of 40 validation domains"):
        cls(**QUICK).fit(X, y, days, eval_set=(X, y), eval_groups=days)
    with pytest.raises(DomainDataError, match="needs eval_groups"):
        cls(**QUICK).fit(X, y, days, eval_set=(X, y))
    with pytest.raises(SettingError, match="one pair"):
        cls(**QUICK).fit(X, y, days, eval_set=X, eval_groups=days)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_days_that_stopped_training_carry_no_certificate(cls: Any, tmp_path: Path) -> None:
    X, y, days = world(domains=80)
    seen = days < 40
    model = cls(alpha=0.5, early_stopping_rounds=3, **QUICK).fit(X[seen], y[seen], days[seen])
    held_out = seen & ~np.isin(days, model.domains_)
    assert held_out.any()
    eqrm.save_model(model, tmp_path / "model.safetensors")
    for each in (model, eqrm.load_model(tmp_path / "model.safetensors")):
        with pytest.raises(DomainDataError, match="was stopped early by"):
            each.certificate(X[held_out], y[held_out], days[held_out])
        each.certificate(X[~seen], y[~seen], days[~seen])


@pytest.mark.parametrize(("cls", "package"), list(zip(ESTIMATORS, PACKAGES, strict=True)))
def test_without_the_library_the_error_names_the_extra(
    cls: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, days = world()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'eqrm\[boosting\]'"):
        cls(**QUICK).fit(X, y, groups=days)
    make = getattr(eqrm.estimators, f"{package}_objective")
    with pytest.raises(MissingExtraError, match=package):
        make({"data": days})


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_settings_that_the_library_refuses_are_an_error_of_settings(cls: Any) -> None:
    X, y, days = world(domains=5)
    for settings, words in (
        ({"max_depth": "deep"}, "rejected its parameters: .*max_depth"),
        ({"n_estimators": 0}, "n_estimators must be an integer of at least 1, got 0"),
        ({"erm_rounds": 1.5}, "erm_rounds must be a number of rounds, or a share .*, got 1.5"),
        ({"booster_params": {"objective": "x"}}, "must not set 'objective'"),
    ):
        with pytest.raises(SettingError, match=words):
            cls(**{**QUICK, **settings}).fit(X, y, groups=days)
