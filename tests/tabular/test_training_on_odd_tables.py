"""Tables that tell little or mislead: few domains, no differences, one row each, rare classes."""

from __future__ import annotations

import numpy as np
import pytest

from eqrm.data import Table
from eqrm.evaluation.measuring.skill import skill_of_classes
from eqrm.level import Level
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.training import train_on_table
from tabular.shifting_world import DOMAINS, ROWS, some, told, world

pytestmark = pytest.mark.usefixtures("no_figure")


def test_where_domains_do_not_differ_no_help_is_claimed_and_noise_is_named() -> None:
    rng = np.random.default_rng(3)
    n = DOMAINS * ROWS
    x = rng.normal(size=n)
    domains = np.repeat(np.arange(DOMAINS), ROWS).astype(str)
    table = Table({"x": x}, (x + rng.normal(size=n) > 0).astype(float), domains)
    found = train_on_table(*table.split(0.5), TrainingPlan.of([0.9]))
    words = told(found)
    assert " helps: " not in words
    assert "This is weak evidence" in words
    assert "of the spread of the measured risks is sampling noise" in words
    assert "Warning (ERM" in words


def test_few_domains_get_a_refusal_in_place_of_a_certificate() -> None:
    few = some(world(), 16)
    words = told(train_on_table(*few.split(0.5), TrainingPlan.of([0.9])))
    assert "No certificate: 8 domains are too few" in words


def test_domains_of_one_row_claim_no_help_and_say_why() -> None:
    both = world()
    rows = np.arange(0, len(both), 20)
    alone = both.rows(rows)
    single = Table(alone.columns, alone.target, [f"r{i}" for i in range(len(rows))])
    found = train_on_table(*single.split(0.5), TrainingPlan.of([0.9], surrogate="none"))
    words = told(found)
    assert "It helped" not in words
    assert "Every held-out domain has one row" in words


def test_a_certain_and_wrong_prediction_has_a_large_loss_not_an_infinite_one() -> None:
    """The classes part cleanly in training, and the other way round in one test domain."""
    x = np.tile([-1.0, -0.5, 0.5, 1.0], 12)
    domains = np.repeat([f"d{i:02d}" for i in range(12)], 4)
    reversed_there = np.where(domains == "d11", -1.0, 1.0)
    table = Table({"x": 1000.0 * x}, (x * reversed_there > 0).astype(float), domains)
    plan = TrainingPlan.of([0.9], settings={"l2": 0.0})
    found = train_on_table(*table.split(["d10", "d11"]), plan)
    losses = found.evaluation["ERM"].risks
    margins = found.models["ERM"].estimator.decision_function(
        found.models["ERM"].preprocessor.encoder.transform({"x": [1000.0, 500.0]})
    )
    assert losses[1] == pytest.approx(margins.mean())
    assert losses[0] < 1e-3


def test_with_few_training_domains_the_level_itself_is_trained_for() -> None:
    few = some(world(), 16)
    found = train_on_table(*few.split(0.5), TrainingPlan.of([0.9]))
    assert found.models["α = 0.9"].estimator.level_ == Level(0.9)
    assert any("each level minimises its own quantile" in note for note in found.notes)
    words = told(found)
    assert "left out):" in words
    assert "the notes below say why" in words
    assert "minimised left out" not in words
    assert "predictor held out mean risk certified ERM" in words


def test_a_class_of_few_domains_is_trained_without_cross_fitting() -> None:
    table = some(world(), 40)
    rare = np.where((table.domains == table.domain_names[0]) & (table.target > 0), 2.0, 0.0)
    rare[table.domains == table.domain_names[-1]] = 2.0
    train, test = Table(table.columns, rare, table.domains).split(table.domain_names[20:])
    found = train_on_table(train, test, TrainingPlan.of([0.9], task="classification"))
    assert list(found.models) == ["ERM", "α = 0.9"]
    assert any("occurs in too few domains for cross-fitting" in note for note in found.notes)


def test_equal_predictions_are_calibrated_in_any_order() -> None:
    labels = np.repeat([0, 1], 500)
    assert skill_of_classes(labels, np.full((1000, 2), 0.5)).calibration_error == 0.0


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_constants_on_training_domains_are_those_of_the_other_domains(task: str) -> None:
    parts = some(world(), 30).split(0.5)
    plan = TrainingPlan.of([0.9], task=task, surrogate="none")
    found = train_on_table(*parts, plan)
    own = parts[0].domains == found.models["ERM"].estimator.domains_[3]
    rest = parts[0].target[~own].mean()
    if task == "regression":
        expected = ((parts[0].target[own] - rest) ** 2).mean()
        assert found.constants["mean"][3] == pytest.approx(expected)
        return
    expected = -np.where(parts[0].target[own] == 1, np.log(rest), np.log(1 - rest)).mean()
    assert found.constants["base rate"][3] == pytest.approx(expected)
    np.testing.assert_allclose(found.constants["equal odds"], np.log(2.0))
