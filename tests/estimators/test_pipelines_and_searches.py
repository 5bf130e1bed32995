"""Every estimator and surrogate inside scikit-learn's pipelines, searches and routing.

``python verify/run.py --only estimators.scikit-learn`` runs this file with the oldest supported
and the newest scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eqrm
from cases import in_full
from estimators.worlds import World, classes_world, numbers_world

TREES: dict[str, Any] = {"n_estimators": 5, "n_jobs": 1, "random_state": 0}
NETWORK: dict[str, Any] = {"model": "mlp", "erm_steps": 5, "steps": 5, "random_state": 0}
SURROGATES: dict[str, dict[str, Any]] = {
    "auto": {"surrogate": "auto"},
    "quantile": {"measure": "quantile"},
    "superquantile": {"measure": "superquantile"},
    "worst": {"measure": "worst"},
    "mean": {"measure": "mean"},
    "ERM": {"alpha": None},
}
ESTIMATORS: dict[str, Any] = {
    "linear classifier": eqrm.QRMClassifier(),
    "linear regression": eqrm.QRMRegressor(),
    "network": eqrm.QRMClassifier(**NETWORK),
    "lightgbm": eqrm.LGBMQRMClassifier(**TREES),
    "xgboost": eqrm.XGBQRMRegressor(**TREES),
}
RECALIBRATED: dict[str, Any] = {
    "foreign classifier": eqrm.Recalibrated(LogisticRegression(solver="newton-cholesky"), cv=3),
    "foreign regression": eqrm.Recalibrated(Ridge(), cv=3),
    "own classifier": eqrm.Recalibrated(eqrm.QRMClassifier(), cv=3),
}
QUICK = {"linear classifier, auto", "linear classifier, worst", "lightgbm, quantile"}


def case(kind: str, name: str, estimator: Any) -> Any:
    """An estimator with a surrogate; ``make test`` has the quick ones, ``make verify`` all."""
    said, made = f"{kind}, {name}", clone(estimator).set_params(**SURROGATES[name])
    return pytest.param(made, id=said, marks=() if said in QUICK else pytest.mark.full)


CASES = [
    *(case(kind, name, each) for kind, each in ESTIMATORS.items() for name in SURROGATES),
    *(
        case(kind, name, each)
        for kind, each in RECALIBRATED.items()
        for name in SURROGATES
        if name != "auto"
    ),
]
DOMAINS = 20
"""Enough to choose a surrogate by in each of two folds."""


def world_of(estimator: Any) -> World:
    if hasattr(estimator, "predict_proba"):
        return classes_world(2, domains=DOMAINS, rows=12)
    return numbers_world(domains=DOMAINS, rows=12)


def scaled(world: World) -> World:
    return World(StandardScaler().fit_transform(world.X), world.y, world.groups)


def predictions(model: Any, X: Any) -> Any:
    return (model.predict_proba if hasattr(model, "predict_proba") else model.predict)(X)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("estimator", CASES)
def test_a_pipeline_is_its_steps_one_after_the_other(estimator: Any) -> None:
    world = world_of(estimator)
    pipeline = make_pipeline(StandardScaler(), clone(estimator))
    pipeline.fit(world.X, world.y, groups=world.groups)
    alone, rows = clone(estimator), scaled(world)
    alone.fit(*rows)
    assert len(pipeline[-1].domains_) == DOMAINS
    np.testing.assert_allclose(predictions(pipeline, world.X), predictions(alone, rows.X))
    assert not hasattr(clone(pipeline)[-1], "domains_")
    pipeline.fit(world.X, world.y, groups=world.groups)  # it can be fitted again
    np.testing.assert_allclose(predictions(pipeline, world.X), predictions(alone, rows.X))


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("estimator", CASES)
def test_a_search_over_whole_domains_fits_every_setting_and_the_best_to_all(estimator: Any) -> None:
    world = world_of(estimator)
    pipeline = make_pipeline(StandardScaler(), clone(estimator))
    grid = {f"{pipeline.steps[-1][0]}__random_state": [0]}
    search = GridSearchCV(
        pipeline, grid, cv=eqrm.DomainKFold(2), scoring=eqrm.quantile_risk(0.8), error_score="raise"
    )
    search.fit(world.X, world.y, groups=world.groups)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.best_estimator_[-1].domains_) == DOMAINS
    assert predictions(search, world.X).shape[0] == len(world.y)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("estimator", CASES)
def test_scores_of_folds_are_those_of_a_loop_over_them(estimator: Any) -> None:
    world, folds = world_of(estimator), eqrm.DomainKFold(2)
    classifies = hasattr(estimator, "predict_proba")
    scores = cross_val_score(
        estimator,
        world.X,
        world.y,
        cv=folds,
        scoring="neg_log_loss" if classifies else "neg_mean_squared_error",
        params={"groups": world.groups},
        error_score="raise",
    )
    loss = log_loss if classifies else mean_squared_error
    by_hand = []
    for train, test in folds.split(*world):
        part, rest = world.rows(train), world.rows(test)
        model = clone(estimator).fit(*part)
        by_hand.append(-loss(rest.y, predictions(model, rest.X)))
    np.testing.assert_allclose(scores, by_hand, rtol=1e-9)


PLAIN = ("mean", "ERM")


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("kind", ["linear classifier", "lightgbm"])
def test_scores_without_routing_are_an_error_unless_plain_training_is_asked_for(
    kind: str, name: str
) -> None:
    model, world = clone(ESTIMATORS[kind]).set_params(**SURROGATES[name]), classes_world(2)
    folds = eqrm.DomainKFold(2)
    if name in PLAIN:
        assert len(cross_val_score(model, world.X, world.y, groups=world.groups, cv=folds)) == 2
        return
    with pytest.raises(ValueError, match=r"(?s)All the 2 fits failed.*enable_metadata_routing"):
        cross_val_score(model, world.X, world.y, groups=world.groups, cv=folds)
    search = GridSearchCV(model, {"random_state": [0]}, cv=folds)
    with pytest.raises(ValueError, match=r"(?s)All the 2 fits failed.*enable_metadata_routing"):
        search.fit(world.X, world.y, groups=world.groups)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("kind", ["linear classifier", "lightgbm", *in_full("network")])
def test_what_scikit_learn_keeps_on_an_estimator_outlives_a_fit(kind: str) -> None:
    """Requests for metadata, and whatever later versions put beside them."""
    model = clone(ESTIMATORS[kind]).set_params(surrogate="auto").set_fit_request(sample_weight=True)
    model._kept_by_scikit_learn = kept = object()
    world = classes_world(2, domains=DOMAINS, rows=12)
    model.fit(*world)
    assert model._kept_by_scikit_learn is kept
    for requests in (model, clone(model)):
        asked = requests.get_metadata_routing().fit.requests
        assert asked["sample_weight"] is True
        assert asked["groups"] is True
