"""QRMClassifier and QRMRegressor on tables: what they take, what they give, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eqrm
from eqrm import Level, LinearQRM, QRMClassifier, QRMRegressor
from eqrm.errors import DomainDataError, LevelError, SettingError, TooFewDomainsError
from eqrm.linear.linear_model import NotConvergedWarning
from eqrm.measures import QuantileBelowRisksWarning
from estimators.worlds import World, classes_world, numbers_world


def test_erm_without_groups_is_scikit_learns_logistic_regression() -> None:
    world = classes_world(2)
    X = StandardScaler().fit_transform(world.X)
    ours = QRMClassifier(None, l2=1e-3).fit(X, world.y)
    # theirs is ½|β|² + C Σ loss; ours mean loss + l2|β|²
    theirs = LogisticRegression(C=1 / (2 * 1e-3 * len(X)), tol=1e-10, max_iter=1000).fit(X, world.y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_erm_with_groups_is_the_mean_over_domains_and_rows_weigh_by_their_domain() -> None:
    world = classes_world(2)
    world = world.rows(np.random.default_rng(0).random(len(world.y)) < 0.2 + world.groups / 40)
    _, ids, counts = np.unique(world.groups, return_inverse=True, return_counts=True)
    X = StandardScaler().fit_transform(world.X)
    ours = QRMClassifier(None, l2=1e-3).fit(X, world.y, world.groups)
    by_rows = QRMClassifier(None, l2=1e-3).fit(X, world.y)
    weights = 1.0 / counts[ids]
    theirs = LogisticRegression(C=1 / (2 * 1e-3 * 30), tol=1e-10, max_iter=1000).fit(
        X, world.y, sample_weight=weights
    )
    # theirs divides by Σw = 30 domains
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert np.abs(ours.coef_ - by_rows.coef_).max() > 1e-3


def test_least_squares_without_groups_is_scikit_learns_ridge() -> None:
    world = numbers_world()
    X = StandardScaler().fit_transform(world.X)
    ours = QRMRegressor(None, l2=1e-2).fit(X, world.y)
    theirs = Ridge(alpha=1e-2 * len(X)).fit(X, world.y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    assert ours.intercept_ == pytest.approx(theirs.intercept_)


@pytest.mark.parametrize("distribution", ["kde", "gaussian", "empirical"])
def test_the_linear_regression_is_that_of_the_exact_solver(distribution: str) -> None:
    world = numbers_world()
    ours = QRMRegressor(0.9, distribution=distribution, l2=0.0).fit(*world)
    exact = LinearQRM(0.9, distribution).fit(*world)
    np.testing.assert_allclose(ours.coef_, exact.coef_, rtol=1e-4, atol=1e-5)
    assert ours.quantile_risk_ == pytest.approx(exact.value_, rel=1e-6)


def test_what_is_known_after_fit() -> None:
    world = classes_world(2)
    model = QRMClassifier("0.75").fit(*world)
    assert model.level_ == Level(0.75)
    assert model.domains_ == tuple(range(30))
    assert model.domain_counts_.tolist() == [40] * 30
    losses = pd.Series(model.losses(world.X, world.y)).groupby(world.groups).mean()
    np.testing.assert_allclose(model.domain_risks_, losses, rtol=1e-10)
    expected = eqrm.KDE(model.domain_risks_.tolist()).quantile(0.75).item()
    assert model.quantile_risk_ == pytest.approx(expected, rel=1e-6)
    assert model.quantile_at(0.75) == model.quantile_risk_
    assert model.converged_
    assert model.score(world.X, world.y) == np.mean(model.predict(world.X) == world.y)


def frames(world: World) -> dict[str, tuple[Any, Any, Any]]:
    columns = {f"x{j}": world.X[:, j] for j in range(world.X.shape[1])}
    days = [f"day {g:02d}" for g in world.groups]
    return {
        "pandas": (pd.DataFrame(columns), pd.Series(world.y), pd.Series(days)),
        "polars": (pl.DataFrame(columns), pl.Series(world.y), pl.Series(days)),
        "sparse": (sparse.csr_array(world.X), world.y.tolist(), days),
        "lists": (world.X.tolist(), world.y.tolist(), days),
    }


@pytest.mark.parametrize("form", ["pandas", "polars", "sparse", "lists"])
def test_every_form_of_a_table_gives_the_same_model(form: str) -> None:
    world = classes_world(2)
    X, y, groups = frames(world)[form]
    model = QRMClassifier(0.9).fit(X, y, groups=groups)
    expected = QRMClassifier(0.9).fit(*world)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8)
    assert model.domains_[0] == "day 00"
    if form in ("pandas", "polars"):
        assert model.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert model.predict(X).tolist() == expected.predict(world.X).tolist()


def test_a_search_passes_groups_by_the_name_of_a_step() -> None:
    world = classes_world(2)
    pipeline = make_pipeline(StandardScaler(), QRMClassifier(0.9))
    named = GridSearchCV(pipeline, {"qrmclassifier__l2": [1e-4, 1e-1]}, cv=3)
    named.fit(world.X, world.y, qrmclassifier__groups=world.groups)
    assert len(named.best_estimator_[-1].domains_) == 30


def test_without_routing_the_error_says_how_groups_arrive_and_what_plain_training_is() -> None:
    world, split = classes_world(2), GroupKFold(3)
    for model in (QRMClassifier(0.9), QRMClassifier(measure="worst")):
        with pytest.raises(DomainDataError, match="groups=") as refused:
            cross_val_predict(model, world.X, world.y, cv=split, groups=world.groups)
        for remedy in ("enable_metadata_routing=True", "params={'groups'", "alpha=None"):
            assert remedy in str(refused.value)
    for model in (QRMClassifier(None), QRMClassifier(measure="mean")):
        cross_val_predict(model, world.X, world.y, cv=split, groups=world.groups)


def test_weights_count_rows_as_often_as_they_say() -> None:
    world = classes_world(2)
    times = np.random.default_rng(1).integers(0, 4, len(world.y))
    times[world.groups == 7] = 0  # a domain without any weight is not there
    weighted = QRMClassifier(0.9).fit(*world, sample_weight=times)
    repeated = QRMClassifier(0.9).fit(*world.rows(np.repeat(np.arange(len(times)), times)))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)
    assert 7 not in weighted.domains_
    assert len(weighted.domains_) == 29


def test_a_certificate_is_the_bound_of_risks_on_unseen_domains() -> None:
    world = classes_world(2, domains=80)
    old, new = world.rows(world.groups < 30), world.rows(world.groups >= 30)
    model = QRMClassifier(0.9).fit(*old)
    bound = model.certificate(*new)
    risks = pd.Series(model.losses(new.X, new.y)).groupby(new.groups).mean()
    assert bound.bound == pytest.approx(eqrm.evaluation.quantile_bound(risks, 0.9).bound)
    assert "new domains" in bound.sentence
    assert model.certificate(*new, alpha=0.5).alpha == 0.5


def test_certificates_that_cannot_be_given_are_refused() -> None:
    world = classes_world(2, domains=40)
    old, new = world.rows(world.groups < 30), world.rows(world.groups >= 30)
    model = QRMClassifier(0.9).fit(*old)
    with pytest.raises(DomainDataError, match=r"domains 0, 1, 2, 3, 4 and 25 more, which"):
        model.certificate(*world)
    with pytest.raises(TooFewDomainsError):
        model.certificate(*new)
    with pytest.raises(DomainDataError, match="needs groups"):
        model.certificate(new.X, new.y, None)
    with pytest.raises(SettingError, match="trained for the mean"):
        QRMClassifier(None).fit(*old).certificate(*new)


ROWS = [[1.0], [2.0], [3.0], [4.0]]
Y = [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("kind", "X", "y", "message"),
    [
        (QRMClassifier, [["a"], ["b"], ["a"], ["b"]], Y, "could not convert string to float"),
        (QRMClassifier, [[1.0], [2.0], [np.inf], [1.0]], Y, "infinity"),
        (QRMClassifier, ROWS, [0, 1, None, 1], r"not finite in 1 of 4 rows \(row 2\)"),
        (QRMClassifier, ROWS, pd.Series(["a", None, "b", "a"]), r"1 of 4 rows \(row 1\)"),
        (QRMClassifier, ROWS, [1, 1, 1, 1], "at least two classes"),
        (QRMClassifier, ROWS, [0, 1, 1], "inconsistent"),
        (QRMClassifier, ROWS, [0.1, 0.2, 0.7, 0.9], "continuous"),
        (QRMRegressor, ROWS, ["low", "high", "low", "low"], "numbers for a regression"),
        (QRMRegressor, [[1.0], [np.nan], [3.0], [4.0]], Y, r"NaN\. Fill .*LGBMQRMRegressor"),
        (QRMClassifier, pd.DataFrame({"size": Y, "sex": list("mfmf")}), Y, "Column 'sex'"),
        (QRMRegressor, ROWS, pd.Series([1, None, 2, 3], dtype="Int64"), r"4 rows \(row 1\)"),
    ],
)
def test_tables_that_cannot_be_learned_from_are_refused_in_words(
    kind: Any, X: Any, y: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(None).fit(X, y)


def test_a_word_of_another_function_is_refused_with_the_one_that_is_meant() -> None:
    with pytest.raises(SettingError, match=r"evaluate_model has no .*Did you mean 'groups'"):
        eqrm.evaluate_model(QRMClassifier(), ROWS, Y, domains=Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 1.5}, "alpha must lie between 0 and 1"),
        ({"model": "liner"}, "Did you mean 'linear'"),
        ({"l2": -1.0}, "l2 must be a number of at least 0, got -1.0"),
        ({"hidden": "big"}, "hidden must be a list of positive integers, got 'big'"),
        ({"examples_per_domain": 4}, "needs domains_per_batch"),
        ({"random_state": "x"}, "random_state must be None, .*got 'x'"),
        ({"bandwidth": 0.1, "distribution": "gaussian"}, "Only distribution='kde'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_any_work(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises((SettingError, LevelError), match=message):
        QRMClassifier(**settings).fit(np.zeros((2, 1)), [0, 1], [0, 1])


def test_a_row_of_an_unknown_class_is_named_when_it_is_judged() -> None:
    world = classes_world(2)
    model = QRMClassifier(0.9).fit(*world)
    y = world.y.copy()
    y[17] = 5
    with pytest.raises(DomainDataError, match=r"label .*5.* \(row 17\) is not among the classes"):
        model.losses(world.X, y)


def test_low_levels_that_fall_below_every_risk_are_announced() -> None:
    world = classes_world(2)
    with pytest.warns(QuantileBelowRisksWarning, match="below the smallest"):
        QRMClassifier(0.001, l2=1e-2).fit(*world)


def test_too_few_steps_are_announced() -> None:
    world = classes_world(2)
    with pytest.warns(NotConvergedWarning, match="max_steps=1"):
        QRMClassifier(None, max_steps=1).fit(*world)
