"""Tables that tell little or mislead: few domains, no differences, one row each, rare classes."""

from __future__ import annotations

import numpy as np
import pytest

from eqrm.data import Table
from eqrm.errors import DomainDataError
from eqrm.tabular.training import TableTraining
from tabular.shifting_world import plan_of, some, told, trained_on, world

pytestmark = pytest.mark.usefixtures("no_figure")


def test_domains_of_one_row_are_named_as_a_probable_mistake() -> None:
    both = world()
    rows = np.arange(0, len(both), 20)
    alone = both.rows(rows)
    single = Table(alone.columns, alone.target, [f"r{i}" for i in range(len(rows))])
    found = trained_on(single, plan_of([0.9], surrogate="none"))
    assert "Mind every domain has one row: is this the right column for domain?" in told(found)


def test_a_certain_and_wrong_prediction_has_a_large_loss_not_an_infinite_one() -> None:
    """The classes part cleanly in training, and the other way round in a domain kept aside."""
    x = np.tile([-1.0, -0.5, 0.5, 1.0], 12)
    domains = np.repeat([f"d{i:02d}" for i in range(12)], 4)
    reversed_there = np.where(domains == "d11", -1.0, 1.0)
    table = Table({"x": 1000.0 * x}, (x * reversed_there > 0).astype(float), domains)
    train, test = table.split(["d10", "d11"])
    found = trained_on(train, plan_of(measure="mean", settings={"l2": 0.0}), test)
    assert found.aside is not None
    losses = found.aside["logistic, plain"].risks
    model = found.models["logistic, plain"]
    margins = model.estimator.decision_function(
        model.preprocessor.encoder.transform({"x": [1000.0, 500.0]})
    )
    assert losses[1] == pytest.approx(margins.mean())
    assert losses[0] < 1e-3


def test_with_few_domains_nothing_is_trained_for_the_level() -> None:
    found = trained_on(some(world(), 8), plan_of([0.9]))
    assert list(found.models) == ["logistic, plain"]
    assert "With fewer than 10 domains, nothing is trained for a level" in told(found)
    assert found.evaluation.models.keys() == {"logistic, plain", *found.constants}


def test_a_class_that_one_fold_alone_has_is_refused_with_a_remedy() -> None:
    table = some(world(), 40)
    words = np.where(table.target == 1.0, "ill", "well")
    rare = np.where(table.domains == table.domain_names[-1], "dead", words)
    with pytest.raises(DomainDataError, match=r"class 'dead' occurs in too few domains: models of"):
        trained_on(Table(table.columns, rare, table.domains), plan_of([0.9]))


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_constants_are_those_of_the_other_domains(task: str) -> None:
    table = some(world(), 15)
    found: TableTraining = trained_on(table, plan_of(measure="mean", task=task))
    own = table.domains == found.evaluation.domains[3]
    rest = table.target[~own].mean()
    if task == "regression":
        expected = ((table.target[own] - rest) ** 2).mean()
        assert found.evaluation["mean"].risks[3] == pytest.approx(expected)
        return
    expected = -np.where(table.target[own] == 1, np.log(rest), np.log(1 - rest)).mean()
    assert found.evaluation["base rate"].risks[3] == pytest.approx(expected)
    np.testing.assert_allclose(found.evaluation["50/50 guess"].risks, np.log(2.0))
