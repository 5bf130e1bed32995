"""Splitters, scorers, the path over levels, and the level that meets a need."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GroupKFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eqrm
from eqrm import (
    DomainKFold,
    Level,
    QRMClassifier,
    QRMRegressor,
    choose_level,
    quantile_risk,
)
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators import RiskRobustnessPath, superquantile_risk
from estimators.worlds import World, classes_world, numbers_world


def uneven(world: World) -> World:
    """Domains of very different sizes."""
    keep = np.random.default_rng(0).random(len(world.y)) < 1.0 / (1.0 + world.groups % 7)
    return world.rows(keep)


def test_folds_have_equally_many_whole_domains_and_no_row_is_lost() -> None:
    world = uneven(classes_world(2))
    splits = list(DomainKFold(4).split(*world))
    assert len(splits) == DomainKFold(4).get_n_splits()
    tested = [set(world.groups[test]) for _, test in splits]
    for inside, (train, test) in zip(tested, splits, strict=True):
        assert not set(world.groups[train]) & inside
        assert sorted([*train, *test]) == list(range(len(world.y)))
    assert {len(fold) for fold in tested} <= {7, 8}
    assert set.union(*tested) == set(world.groups)


def test_impossible_splits_are_refused() -> None:
    with pytest.raises(DomainDataError, match="needs groups"):
        list(DomainKFold(3).split(np.zeros((4, 1))))
    with pytest.raises(SettingError, match="more than the number of domains, 2"):
        list(DomainKFold(3).split(np.zeros((4, 1)), groups=list("aabb")))


def risks_by_hand(model: Any, world: World) -> Any:
    """The log-loss of each domain, by scikit-learn and a loop."""
    probabilities = model.predict_proba(world.X)
    return np.array(
        [
            log_loss(
                world.y[world.groups == g], probabilities[world.groups == g], labels=model.classes_
            )
            for g in np.unique(world.groups)
        ]
    )


@pytest.mark.parametrize("model", [LogisticRegression(), QRMClassifier(None, l2=0.01)])
@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0])
def test_the_score_is_minus_the_quantile_of_risk(model: Any, alpha: float) -> None:
    world = uneven(classes_world(3))
    fitted = clone(model).fit(world.X, world.y)
    risks = risks_by_hand(fitted, world)
    found = quantile_risk(alpha)(fitted, *world)
    assert found == pytest.approx(-np.quantile(risks, alpha, method="inverted_cdf"))
    worst = np.sort(risks)[-3:].mean()
    beyond = superquantile_risk(0.9)(fitted, *world)
    assert beyond == pytest.approx(-worst)  # 3 of 30 domains


@pytest.mark.parametrize("estimator", [QRMClassifier(), QRMRegressor()])
def test_the_path_finds_what_separate_fits_find(estimator: Any) -> None:
    classify = isinstance(estimator, QRMClassifier)
    world = classes_world(2) if classify else numbers_world()
    levels = [0.99, None, 0.5, 0.9]
    frontier = RiskRobustnessPath(estimator, levels).fit(*world).frontier_
    assert [model.alpha for model in frontier.estimators] == [
        None if a is None else Level(a) for a in levels
    ]
    for level, model, risks in zip(
        levels, frontier.estimators, frontier.training.risks, strict=True
    ):
        alone = clone(estimator).set_params(alpha=level).fit(*world)
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(risks, alone.domain_risks_, rtol=1e-5)


def test_held_out_domains_are_judged_and_seen_ones_refused() -> None:
    world = classes_world(2, domains=40)
    first, second = world.rows(world.groups < 25), world.rows(world.groups >= 25)
    path = RiskRobustnessPath(alpha=[None, 0.9]).fit(*first, held_out=second)
    frontier = path.frontier_
    assert frontier.held_out is not None
    assert frontier.held_out.risks.shape == (2, 15)
    expected = risks_by_hand(frontier.estimators[1], second)
    np.testing.assert_allclose(frontier.held_out.risks[1], expected)
    assert "held-out domains" in str(frontier)
    assert frontier.trained_for("0.9") is frontier.estimators[1]
    with pytest.raises(SettingError, match=r"alpha = 0.8 is not among .*ERM, alpha = 0.9"):
        frontier.trained_for(0.8)
    with pytest.raises(DomainDataError, match="was trained on"):
        path.fit(*first, held_out=world)


def test_a_path_of_a_pipeline_fits_its_first_steps_once() -> None:
    world = classes_world(2)
    whole = make_pipeline(StandardScaler(), QRMClassifier(l2=1e-3))
    frontier = RiskRobustnessPath(whole, [None, 0.9]).fit(*world).frontier_
    alone = QRMClassifier(0.9, l2=1e-3).fit(*world)
    np.testing.assert_allclose(
        frontier.estimators[1].predict_proba(world.X), alone.predict_proba(world.X), atol=1e-7
    )
    assert frontier.estimators[0][0] is frontier.estimators[1][0]


def test_cross_fitted_risks_are_those_of_models_that_have_not_seen_the_domain() -> None:
    world = numbers_world(domains=12)
    choice = choose_level(
        QRMRegressor(), *world, risk=1.0, alpha=0.5, candidates=[None], cv=GroupKFold(3)
    )
    predicted = cross_val_predict(
        QRMRegressor(None),
        world.X,
        world.y,
        cv=GroupKFold(3),
        groups=world.groups,
        method="predict",
    )
    # without groups the estimator minimises the mean over rows, which is the same here: all
    # domains have equally many
    expected = pd.Series((predicted - world.y) ** 2).groupby(world.groups).mean()
    np.testing.assert_allclose(choice.risks[0], expected, rtol=1e-6)


def test_the_level_chosen_meets_the_requirement_at_the_lowest_mean_risk() -> None:
    world = classes_world(2, domains=30, differ=0.25)
    levels: Any = [None, 0.75, 0.9]
    chosen = functools.partial(
        choose_level, QRMClassifier(), *world, alpha=0.9, candidates=levels, cv=3
    )
    free = chosen(risk=10.0)
    assert free.met
    assert free.means[free.levels.index(free.level)] == free.means.min()
    limit = float(free.risks_at_share.min()) + 1e-9  # only the best at the .9-quantile meets this
    strict = chosen(risk=limit)
    assert strict.met
    assert strict.level == strict.levels[int(strict.risks_at_share.argmin())]
    assert "meets the requirement" in strict.sentence
    none = chosen(risk=limit - 1e-3)
    assert not none.met
    assert none.level is None
    assert none.sentence.startswith("No level meets the requirement")


def test_a_confidence_asks_for_more_than_the_share_seen() -> None:
    world = classes_world(2, domains=60, differ=0.25)
    need: dict[str, Any] = {"risk": 0.65, "alpha": 0.8, "candidates": [None, 0.75, 0.9]}
    plain = choose_level(QRMClassifier(), *world, **need)
    sure = choose_level(QRMClassifier(), *world, confidence=0.95, **need)
    assert sure.bounds is not None
    for row, bound in zip(plain.risks, sure.bounds, strict=True):
        expected = eqrm.evaluation.probability_bound(row, 0.65, 1.0 - 0.05 / 3).bound
        assert bound == pytest.approx(expected)
        assert bound < (row <= 0.65).mean()
    header, *rows = str(sure).splitlines()
    assert header.split() == ["trained", "for", "mean", "risk", "q(0.8)", "within", "at", "least"]
    assert rows[0].split()[-1] == f"{np.floor(1e4 * sure.bounds[0]) / 100:g}%"
    assert "with 95% confidence" in sure.sentence
