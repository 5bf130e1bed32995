"""Recalibrated: any model, function or predictions, corrected for a level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy.special import expit
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

import eqrm
from eqrm import DomainKFold, QRMClassifier, QRMRegressor, Recalibrated, load_model, save_model
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from estimators.worlds import World, classes_world, numbers_world

Model = Any


def halves(world: World) -> tuple[World, World]:
    """Domains to train on, and others."""
    early = world.groups < 15
    return world.rows(early), world.rows(~early)


def trained(kind: str) -> tuple[Model, World]:
    """A foreign model, and domains it has not seen."""
    world = numbers_world() if kind == "numbers" else classes_world(2 if kind == "two" else 3)
    seen, new = halves(world)
    model = LinearRegression() if kind == "numbers" else LogisticRegression(C=100.0)
    return model.fit(seen.X, seen.y), new


def kde_quantile(risks: Any, level: float = 0.9) -> float:
    return float(eqrm.KDE(torch.tensor(risks)).quantile(level))


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_model_function_and_predictions_have_the_same_correction(kind: str) -> None:
    model, new = trained(kind)
    predict = model.predict if kind == "numbers" else model.predict_proba
    task = "regression" if kind == "numbers" else "classification"
    found = Recalibrated(model).fit(*new)
    by_function = Recalibrated(predict, task=task).fit(*new)
    by_values = Recalibrated().fit(predict(new.X), new.y, new.groups)
    for other, inputs in ((by_function, new.X), (by_values, predict(new.X))):
        np.testing.assert_allclose(other.correction_.shift, found.correction_.shift, rtol=1e-10)
        assert other.correction_.scale == pytest.approx(found.correction_.scale, rel=1e-10)
        np.testing.assert_array_equal(other.predict(inputs), found.predict(new.X))
        assert other.task_ == task
    assert found.estimator_ is model
    assert found.quantile_risk_ < found.uncorrected_quantile_risk_
    assert is_regressor(found) is (kind == "numbers")
    assert is_classifier(found) is (kind != "numbers")
    assert hasattr(found, "predict_proba") is (kind != "numbers")


def test_risks_and_quantiles_are_those_of_its_probabilities_and_of_the_models() -> None:
    model, new = trained("two")
    found = Recalibrated(model, alpha=0.9).fit(*new)
    probabilities = found.predict_proba(new.X)
    own = np.take_along_axis(probabilities, new.y[:, None], axis=1)[:, 0]
    risks = pd.Series(-np.log(own)).groupby(new.groups).mean().to_numpy()
    np.testing.assert_allclose(found.domain_risks_, risks, rtol=1e-12)
    assert kde_quantile(risks) == pytest.approx(found.quantile_risk_, rel=1e-12)
    own = np.take_along_axis(model.predict_proba(new.X), new.y[:, None], axis=1)[:, 0]
    before = pd.Series(-np.log(own)).groupby(new.groups).mean().to_numpy()
    assert found.uncorrected_quantile_risk_ == pytest.approx(kde_quantile(before), rel=1e-6)


def test_a_model_that_is_not_fitted_is_corrected_by_domains_its_clones_have_not_seen() -> None:
    world = classes_world(3)
    found = Recalibrated(LogisticRegression(), cv=3).fit(*world)
    whole = LogisticRegression().fit(world.X, world.y)
    np.testing.assert_allclose(found.estimator_.coef_, whole.coef_)
    crossed = np.zeros((len(world.y), 3))
    for train, test in DomainKFold(3).split(world.X, groups=world.groups):
        fold = LogisticRegression().fit(world.X[train], world.y[train])
        crossed[test] = fold.predict_proba(world.X[test])
    other = Recalibrated().fit(crossed, world.y, groups=world.groups)
    np.testing.assert_allclose(found.correction_.shift, other.correction_.shift, rtol=1e-9)
    np.testing.assert_allclose(found.domain_risks_, other.domain_risks_, rtol=1e-9)


def test_a_frozen_model_stays_as_it_is_in_cross_validation_and_another_is_fitted_again() -> None:
    model, new = trained("two")
    frozen = Recalibrated(FrozenEstimator(model))
    assert clone(frozen).fit(*new).estimator_.estimator is model
    scores = cross_val_score(
        frozen, new.X, new.y, cv=DomainKFold(3), groups=new.groups, params={"groups": new.groups}
    )
    assert (scores > 0.5).all()
    again = clone(Recalibrated(model)).fit(*new)
    assert again.estimator_ is not model


def test_groups_reach_an_eqrm_estimator_inside_also_by_routing() -> None:
    world = classes_world(2)
    plain = Recalibrated(QRMClassifier(alpha=None)).fit(*world)
    assert len(plain.estimator_.domains_) == 30
    with sklearn.config_context(enable_metadata_routing=True):
        routed = Recalibrated(QRMClassifier(alpha=None)).fit(*world)
        search = GridSearchCV(
            Recalibrated(QRMClassifier(alpha=None), cv=2), {"alpha": [0.5, 0.9]}, cv=DomainKFold(3)
        ).fit(world.X, world.y, groups=world.groups)
    assert routed.correction_ == plain.correction_
    assert len(search.best_estimator_.domains_) == 30


def test_probabilities_of_exactly_0_and_1_and_scores_that_are_not_probabilities() -> None:
    seen, new = halves(classes_world(2))
    forest = RandomForestClassifier(5, random_state=0).fit(seen.X, seen.y)
    assert {0.0, 1.0} <= set(forest.predict_proba(new.X)[:, 1])
    found = Recalibrated(forest).fit(*new)
    assert np.isfinite(found.domain_risks_).all()
    assert found.quantile_risk_ < np.log(2.0) + 0.05
    machine = LinearSVC().fit(seen.X, seen.y)
    found = Recalibrated(machine).fit(*new)
    own = found.correction_
    corrected = expit(own.shift + own.scale * machine.decision_function(new.X))
    np.testing.assert_allclose(found.predict_proba(new.X)[:, 1], corrected)
    seen, new = halves(classes_world(3))
    pairs = SVC(decision_function_shape="ovo").fit(seen.X, seen.y)
    with pytest.raises(SettingError, match="not per pair of classes"):
        Recalibrated(pairs).fit(*new)


def test_weights_count_rows_within_their_domain_and_zeros_not_at_all() -> None:
    model, new = trained("two")
    copies = np.random.default_rng(0).integers(0, 3, len(new.y))
    weighted = Recalibrated(model).fit(*new, copies.astype(float))
    rows = np.repeat(np.arange(len(new.y)), copies)
    repeated = Recalibrated(model).fit(new.X[rows], new.y[rows], new.groups[rows])
    assert weighted.correction_.shift == pytest.approx(repeated.correction_.shift, rel=1e-6)
    with pytest.warns(EqrmWarning, match="does not take sample_weight"):
        Recalibrated(KNeighborsClassifier()).fit(*new, np.ones(len(new.y)))


def test_certificates_refuse_domains_of_the_correction_and_of_the_model_inside() -> None:
    seen, rest = halves(classes_world(2, domains=90))
    fitted, new = rest.rows(rest.groups < 50), rest.rows(rest.groups >= 50)
    model = Recalibrated(QRMClassifier(alpha=None).fit(*seen))
    model.fit(*fitted)
    stated = model.certificate(*new)
    assert stated.domains == 40
    risks = model.measured_risks(*new).risks
    assert stated.bound in risks
    with pytest.raises(DomainDataError, match="domains 15, 16"):
        model.certificate(*fitted)
    with pytest.raises(DomainDataError, match="inside was trained on"):
        model.certificate(*seen)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_an_eqrm_model_is_saved_inside(kind: str, frozen: bool, tmp_path: Path) -> None:
    _, new = trained(kind)
    model: Any = QRMRegressor(None) if kind == "numbers" else QRMClassifier(None)
    inside = model.fit(*new) if frozen else model
    found = Recalibrated(inside, 0.8, cv=3).fit(*new)
    save_model(found, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict(new.X), found.predict(new.X))
    np.testing.assert_array_equal(again.losses(new.X, new.y), found.losses(new.X, new.y))
    assert again.quantile_risk_ == found.quantile_risk_
    assert again.uncorrected_quantile_risk_ == found.uncorrected_quantile_risk_
    assert again.get_params(deep=False).keys() == found.get_params(deep=False).keys()
    assert hasattr(again.estimator, "domains_") is frozen
    with pytest.raises(SettingError, match="complete model"):
        load_model(tmp_path / "m.safetensors", estimator=inside)


def test_a_foreign_model_is_supplied_again(tmp_path: Path) -> None:
    model, new = trained("three")
    found = Recalibrated(model).fit(*new)
    save_model(found, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors", estimator=model)
    np.testing.assert_array_equal(again.predict_proba(new.X), found.predict_proba(new.X))
    with pytest.raises(SettingError, match=r"LogisticRegression.*estimator=my_model"):
        load_model(tmp_path / "m.safetensors")
    other, _ = trained("two")
    with pytest.raises(SettingError, match=r"classes 0, 1, and the saved correction 0, 1, 2"):
        load_model(tmp_path / "m.safetensors", estimator=other)
    values = Recalibrated().fit(model.predict_proba(new.X), new.y, groups=new.groups)
    save_model(values, tmp_path / "v.safetensors")
    restored = load_model(tmp_path / "v.safetensors")
    given = model.predict_proba(new.X)
    np.testing.assert_array_equal(restored.predict_proba(given), values.predict_proba(given))


def test_unusable_predictions_are_refused_with_all_their_rows() -> None:
    y, groups = np.array([0, 1, 2, 0, 1, 2]), [1, 1, 1, 2, 2, 2]
    table = np.full((6, 3), 1 / 3)
    table[1], table[3], table[4, 0] = np.nan, [2.0, -1.0, 0.0], 0.9
    with pytest.raises(DomainDataError, match=r"in 3 rows \(row 1, 3, 4\) they are missing"):
        Recalibrated().fit(table, y, groups=groups)
    with pytest.raises(DomainDataError, match=r"\(n, 3\), got shape \(6,\).*regression"):
        Recalibrated().fit(np.linspace(0, 1, 6), y, groups=groups)
    with pytest.raises(DomainDataError, match="Predictions must be numbers"):
        Recalibrated().fit(np.array(["a"] * 6), y, groups=groups)
    with pytest.raises(DomainDataError, match=r"one finite number per row: .* row 1"):
        Recalibrated(task="regression").fit(table[:, 0], y, groups=groups)
    with pytest.raises(SettingError, match="cannot be recalibrated"):
        Recalibrated("model", task="regression").fit(table, y, groups=groups)


def test_a_class_without_rows_is_refused() -> None:
    model, new = trained("three")
    some = new.rows(new.y < 2)
    with pytest.raises(DomainDataError, match="no row of the class 2"):
        Recalibrated(model).fit(*some)
