"""scikit-learn's histogram boosting behind the interface of our estimators, and its trees alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils.estimator_checks import check_estimator

from eqrm.errors import SettingError
from eqrm.estimators.boosting.histogram import (
    HistogramClassifier,
    HistogramRegressor,
    HistogramTrees,
)
from eqrm.estimators.model_files import read_model, save_model

QUICK: dict[str, Any] = {"max_iter": 10, "random_state": 0}
TASKS = ["two classes", "three classes", "numbers"]


def world(task: str, rows: int = 40) -> tuple[Any, Any, Any]:
    """Days of different sizes with features that are missing, often and always in some rows."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(30), rng.integers(rows // 2, rows * 2, 30))
    X = rng.normal(size=(len(day), 4))
    score = X[:, 0] * X[:, 1] + np.isnan(np.where(rng.random(len(day)) < 0.3, np.nan, 0.0))
    X[score > 1.0, 2] = np.nan  # so that a split by missing values alone is worth it
    X[:, 3] = np.where(rng.random(len(day)) < 0.5, np.nan, X[:, 3])
    if task == "numbers":
        return X, score + rng.normal(size=len(day)), day
    edges = [0.0] if task == "two classes" else [-0.3, 0.6]
    return X, np.array(["a", "b", "c"])[np.digitize(score, edges)], day


def new(task: str, **settings: Any) -> Any:
    return (HistogramRegressor if task == "numbers" else HistogramClassifier)(**QUICK, **settings)


def scikit(task: str) -> Any:
    kind = HistGradientBoostingRegressor
    if task != "numbers":
        kind = HistGradientBoostingClassifier
    return kind(early_stopping=False, **QUICK)


@pytest.mark.parametrize("task", TASKS)
def test_it_is_scikit_learns_model_with_every_domain_of_the_same_weight(task: str) -> None:
    X, y, day = world(task)
    weights = (1.0 / np.bincount(day))[day]
    reference = scikit(task).fit(X, y, sample_weight=weights / weights.mean())
    model = new(task).fit(X, y, groups=day)
    if task == "numbers":
        np.testing.assert_allclose(model.predict(X), reference.predict(X), rtol=1e-9)
        losses = (reference.predict(X) - y) ** 2
    else:
        np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), rtol=1e-9)
        own = np.searchsorted(reference.classes_, y)
        losses = -np.log(reference.predict_proba(X)[np.arange(len(y)), own])
    risks = np.bincount(day, losses) / np.bincount(day)
    np.testing.assert_allclose(model.domain_risks_, risks, rtol=1e-9)
    assert model.quantile_risk_ == pytest.approx(risks.mean())


@pytest.mark.parametrize("task", TASKS)
def test_a_loaded_model_predicts_exactly_what_scikit_learn_does(task: str, tmp_path: Path) -> None:
    X, y, day = world(task)
    model = new(task).fit(X, y, groups=day)
    assert np.isinf(np.concatenate([t.nodes["num_threshold"] for t in all_trees(model)])).any()
    save_model(model, tmp_path / "model.safetensors", {"columns": ["a"]})
    again = read_model(tmp_path / "model.safetensors")[0]
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "_model")
    rng = np.random.default_rng(1)
    new_rows = np.where(rng.random((17_000, 4)) < 0.2, np.nan, rng.normal(size=(17_000, 4)) * 3)
    for rows in (X, new_rows):
        expected = model._model.predict(rows) if task == "numbers" else None
        if expected is None:
            expected = model._model.decision_function(rows)
            np.testing.assert_allclose(
                again.predict_proba(rows), model._model.predict_proba(rows), rtol=1e-12
            )
        np.testing.assert_array_equal(again._checked_scores(rows), expected)
        np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


def all_trees(model: Any) -> list[Any]:
    return [tree for each in model._model._predictors for tree in each]


def test_training_for_a_level_is_refused_with_what_to_do_instead() -> None:
    X, y, day = world("numbers")
    for settings in ({"alpha": 0.9}, {"alpha": 1.0, "measure": "worst"}):
        with pytest.raises(SettingError, match=r"minimises the mean risk only.*eqrm\[boosting\]"):
            new("numbers", **settings).fit(X, y, groups=day)
    with pytest.raises(SettingError, match="max_iter must be an integer of at least 1, got 0"):
        HistogramRegressor(max_iter=0).fit(X, y, groups=day)
    assert clone(new("numbers", max_leaf_nodes=7)).max_leaf_nodes == 7


@pytest.mark.parametrize("cls", [HistogramClassifier, HistogramRegressor])
def test_scikit_learns_own_checks_pass(cls: Any) -> None:
    level = "it sets alpha to 0.01, which is a level to us"
    known = {"check_regressors_train": level} if cls is HistogramRegressor else None
    check_estimator(cls(max_iter=10), expected_failed_checks=known, on_skip=None)


def put(place: int, value: float) -> Callable[[Any], Any]:
    return lambda array: np.concatenate([array[:place], [value], array[place + 1 :]])


FORGERIES: list[tuple[str, Callable[[Any], Any], str]] = [
    ("features", put(0, 9), "'features' has 9"),
    ("left", put(0, 10_000), "does not exist"),
    ("right", put(0, 0), "does not exist or has two parents"),
    ("left", put(0, -1), "without a parent"),
    ("starts", put(1, 0), "'starts' do not begin"),
    ("values", put(0, np.nan), "not finite"),
    ("values", lambda array: array[1:], "'starts' has"),
    ("base", lambda array: array[1:], "needs 3"),
    ("values", lambda array: array.astype(np.float32), "64 bits"),
    ("missing_left", lambda array: array.astype(np.int64), "true or false"),
    ("left", lambda array: array.astype(np.float64), "not an integer"),
    ("starts", lambda array: array[[0, -1]], "not a multiple of 3"),
]


@pytest.fixture(scope="module")
def trees() -> HistogramTrees:
    X, y, day = world("three classes", rows=10)
    return new("three classes", max_leaf_nodes=5).fit(X, y, groups=day).trees_


@pytest.mark.parametrize(("name", "forge", "words"), FORGERIES)
def test_forged_trees_are_refused(name: str, forge: Any, words: str, trees: HistogramTrees) -> None:
    arrays = vars(trees)
    with pytest.raises(ValueError, match=words):
        HistogramTrees.checked({**arrays, name: forge(arrays[name])}, 4, 3)
