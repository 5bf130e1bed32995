"""Estimators of the user's own compete, and any estimator is cross-fitted by whole domains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import eqrm
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.estimators import DomainTimeSplit
from eqrm.tabular.choosing.candidates import ForeignModel

pytestmark = pytest.mark.usefixtures("no_figure")
FOREST = RandomForestClassifier(20, max_depth=4, random_state=0, n_jobs=1)


def rings(domains: int = 24, rows: int = 40) -> pd.DataFrame:
    """A target that no straight line separates."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(domains * rows, 2))
    inside = (x**2).sum(axis=1) + 0.3 * rng.normal(size=len(x)) < 1.4
    columns = {"a": x[:, 0], "b": x[:, 1], "inside": inside.astype(int)}
    return pd.DataFrame({**columns, "ward": np.repeat(np.arange(domains), rows)})


@pytest.fixture(scope="module")
def found() -> Any:
    return eqrm.train(
        *(rings(), "inside", "ward"),
        model="linear",
        surrogate="eqrm",
        candidates={"forest": FOREST},
    )


def test_an_estimator_of_the_users_competes_and_is_chosen_where_it_is_better(found: Any) -> None:
    frame = rings()
    assert found.recommended.startswith("forest, ")
    assert found.decision.plain == "forest, plain"
    assert {"forest, plain", "logistic, plain"} <= set(found.evaluation.models)
    assert "forest, trained for 9 in 10" not in found.evaluation.models
    p = found.predict(frame)
    assert set(p["prediction"]) == {0, 1}
    plain = found.predict(frame, "forest, plain")
    X = frame[["a", "b"]].to_numpy()
    alone = clone(FOREST).fit((X - X.mean(axis=0)) / X.std(axis=0), frame["inside"])
    expected = alone.predict_proba((X - X.mean(axis=0)) / X.std(axis=0))[:, 1]
    np.testing.assert_allclose(plain["p_1"], expected, atol=0.02)
    assert "forest" in str(found.decision)


def test_models_of_the_users_stay_in_memory_and_saving_them_is_refused(
    found: Any, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=r"forest, .* which eqrm does not write to files") as e:
        found.save(tmp_path / "out")
    assert "Use result.models in this session, or save the estimator yourself." in str(e.value)
    assert not (tmp_path / "out").exists()
    assert found.report(tmp_path / "r.html").exists()


def test_names_are_escaped_in_the_report(tmp_path: Path) -> None:
    name = "<b>forest</b> & co"
    found = eqrm.train(
        *(rings(12), "inside", "ward"), model="linear", measure="mean", candidates={name: FOREST}
    )
    assert found.recommended == f"{name}, plain"
    page = found.report(tmp_path / "r.html").read_text()
    assert "<b>forest" not in page
    assert "&lt;b&gt;forest&lt;/b&gt; &amp; co" in page
    assert "<b>forest" not in found._repr_html_()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"forest": RandomForestClassifier}, r"must be an estimator of scikit-learn"),
        ({"logistic": LogisticRegression()}, r"A candidate cannot be called 'logistic'"),
        ({"a\nb": LogisticRegression()}, r"A candidate cannot be called 'a\\nb': choose a text"),
        ([LogisticRegression()], r"candidates must be a mapping of names to estimators"),
        ({"ridge": Ridge()}, r"'ridge', Ridge, has no predict_proba"),
        (
            {"frozen": FrozenEstimator(LogisticRegression().fit([[0], [1]], [0, 1]))},
            r"'frozen', FrozenEstimator, stays fitted when it is cloned",
        ),
    ],
)
def test_candidates_that_cannot_compete_are_refused(given: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        eqrm.train(rings(12), "inside", "ward", model="linear", candidates=given)


def rows(domains: int = 30, each: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X, day = rng.normal(size=(domains * each, 2)), np.repeat(np.arange(domains), each)
    return X, np.where(X[:, 0] + rng.normal(size=len(X)) > 0, "yes", "no"), day


def test_evaluate_model_cross_fits_by_whole_domains() -> None:
    X, y, day = rows()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    splitter = GroupKFold(5)
    found = eqrm.evaluate_model(model, X, y, day, cv=splitter, name="LR", references=True)
    p = cross_val_predict(model, X, y, groups=day, cv=splitter, method="predict_proba")[:, 1]
    expected = eqrm.evaluate(domains=day, target=y == "yes", predictions={"LR": p})
    np.testing.assert_allclose(found["LR"].risks, expected["LR"].risks)
    assert found.cross_fitted
    bound = found.certificate(0.9)
    assert not bound.proven
    assert "checked by simulation and not proven" in bound.sentence
    assert eqrm.Evaluation.from_dict(found.to_dict()).cross_fitted
    assert not hasattr(model, "classes_")  # clones were fitted


def test_a_number_is_that_of_folds_of_whole_domains() -> None:
    X, y, day = rows()
    seen = []

    class Spy(LogisticRegression):
        def fit(self, X: Any, y: Any) -> Any:
            seen.append(len(y))
            return super().fit(X, y)

    found = eqrm.evaluate_model(Spy(), X, y, day, cv=10)
    assert seen == [27 * 12] * 10
    assert found.domains == tuple(range(30))
    few = eqrm.evaluate_model(LogisticRegression(), X[:48], y[:48], day[:48], cv=10)
    assert len(few.domains) == 4  # as many folds as domains


def test_what_the_first_fold_predicts_does_not_cut_the_others() -> None:
    class Rule(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            self.classes_ = np.unique(y)
            return self

        def predict(self, X: Any) -> list[str]:
            return ["severe" if x > 0 else "ok" for x in X[:, 0]]

    day = np.repeat(np.arange(20), 2)
    X = np.where(day < 10, 0.0, 1.0)[:, None]
    y = np.where(np.arange(40) % 2 == 0, Rule().predict(X), "other")
    found = eqrm.evaluate_model(Rule(), X, y, day, cv=GroupKFold(2))
    assert found["model"].risks.tolist() == [0.5] * 20


def test_a_fitted_estimator_is_cloned_and_an_unfitted_one_needs_cv() -> None:
    X, y, day = rows()
    fitted = LogisticRegression().fit(X, y)
    before = fitted.coef_.copy()
    one = eqrm.evaluate_model(fitted, X, y, day, cv=5)
    two = eqrm.evaluate_model(LogisticRegression(), X, y, day, cv=5)
    np.testing.assert_array_equal(one["model"].risks, two["model"].risks)
    np.testing.assert_array_equal(fitted.coef_, before)
    assert not eqrm.evaluate_model(fitted, X, y, day).cross_fitted
    for model in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        with pytest.raises(SettingError, match=r"is not fitted\. With cv=10 it is fitted to nine"):
            eqrm.evaluate_model(model, X, y, day)


def test_in_time_each_domain_is_judged_by_earlier_ones_and_the_first_are_not_judged() -> None:
    X, y, day = rows()
    turned = np.where(day < 20, y == "yes", y == "no")  # what was learned is wrong from day 20 on
    found = eqrm.evaluate_model(
        DecisionTreeClassifier(max_depth=1), X, turned, day, cv=DomainTimeSplit(5), order=day
    )
    assert found.domains == tuple(range(5, 30))
    risks = found["model"].risks
    assert risks[15:20].min() > risks[:15].max()
    assert found.time_order is not None


def test_what_cannot_be_cross_fitted_is_refused_in_words() -> None:
    X, y, day = rows()
    mixed = list(KFold(5, shuffle=True, random_state=0).split(X))
    with pytest.raises(DomainDataError, match="A fold trains and tests on the same domains"):
        eqrm.evaluate_model(LogisticRegression(), X, y, day, cv=mixed)
    rare = np.where(day == 3, "maybe", y)
    with pytest.raises(DomainDataError, match=r"class 'maybe' occurs in too few domains"):
        eqrm.evaluate_model(LogisticRegression(), X, rare, day, cv=5)
    twice = [(np.flatnonzero(day > 4), np.flatnonzero(day <= 4))] * 2
    with pytest.raises(SettingError, match="Every domain must be tested on once"):
        eqrm.evaluate_model(LogisticRegression(), X, y, day, cv=twice)
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(SettingError, match="A FrozenEstimator stays fitted when it is cloned"):
        eqrm.evaluate_model(frozen, X, y, day, cv=5)


def test_weights_reach_the_last_step_of_a_pipeline_or_are_missed_with_a_warning() -> None:
    X, y, _ = rows()
    weights = np.where(X[:, 1] > 0, 1.0, 0.0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    weighted = ForeignModel(pipeline, True).fit_levels([None], X, y, None, weights)[0]
    kept = LogisticRegression().fit(StandardScaler().fit(X).transform(X), y, sample_weight=weights)
    np.testing.assert_allclose(weighted.estimator_[-1].coef_, kept.coef_, rtol=1e-6)
    with pytest.warns(EqrmWarning, match="KNeighborsClassifier takes no weights"):
        ForeignModel(KNeighborsClassifier(), True).fit_levels([None], X, y, None, weights)
