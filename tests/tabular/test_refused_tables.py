"""Tables, targets and plans that cannot be trained on are refused, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from eqrm.data import Table
from eqrm.data.tables.preprocessor import Task
from eqrm.errors import DomainDataError, SettingError
from eqrm.tabular.plan import TrainingPlan
from tabular.shifting_world import plan_of, trained_on, world


def test_unseen_categories_in_test_domains_are_noted_or_refused() -> None:
    table = world()
    kinds = np.where(table.domains == "d219", "c", table.columns["kind"])
    table = Table({**table.columns, "kind": kinds}, table.target, table.domains)
    train, test = table.split(["d218", "d219"])
    found = trained_on(train, plan_of(measure="mean"), test)
    assert any(
        "'kind' has categories that did not occur in training: 'c', in 40 of 80" in n
        for n in found.notes
    )
    with pytest.raises(DomainDataError, match="'c'"):
        trained_on(train, plan_of(measure="mean", unseen="error"), test)


def test_a_class_that_training_never_saw_is_refused() -> None:
    table = world(classes=3)
    target = np.where((table.domains != "d000") & (table.target == 2), 1, table.target)
    train, test = Table(table.columns, target, table.domains).split(["d000", "d001"])
    with pytest.raises(DomainDataError, match="class '2' does not occur in any training domain"):
        trained_on(train, plan_of([0.9], task="classification"), test)


def test_plans_are_checked_before_any_work() -> None:
    with pytest.raises(SettingError, match="At least one level"):
        TrainingPlan.of([])
    with pytest.raises(SettingError, match="Unknown model 'tree'"):
        TrainingPlan.of([0.9], model="tree")
    with pytest.raises(SettingError, match="no setting 'alpha'"):
        plan_of([0.9], settings={"alpha": 0.1})
    with pytest.raises(SettingError, match=r"Settings \(l2\) belong to one kind of model: name it"):
        TrainingPlan.of([0.9], settings={"l2": 0.1})
    with pytest.raises(SettingError, match="mean_budget"):
        plan_of(mean_budget=-0.1)
    with pytest.raises(SettingError, match=r"levels 0\.975, 0\.9751 have the same name in tables"):
        plan_of([0.975, 0.9751])
    with pytest.raises(SettingError, match="Unknown refit 'some'"):
        plan_of(refit="some")


def test_tables_must_share_columns_but_no_domain() -> None:
    train, test = world().split(0.5)
    with pytest.raises(DomainDataError, match="110 domains are in both training and test"):
        trained_on(train, plan_of([0.9]), train)
    fewer = Table({"stable": test.columns["stable"]}, test.target, test.domains)
    with pytest.raises(DomainDataError, match="no columns 'shifting', 'kind'"):
        trained_on(train, plan_of([0.9]), fewer)


def test_the_task_follows_from_the_target() -> None:
    assert Task.of(np.array(["b", "a"])).classes == ("a", "b")
    assert Task.of(np.array([1.0, 0.0, 1.0])).classes == ("0", "1")
    assert Task.of(np.array([1.0, 2.0, 3.5])).kind == "regression"
    assert Task.of(np.array([1.0, 2.0, 3.0]), "classification").classes == ("1", "2", "3")
    numbers = np.array([1.0, 2.0, 3.0])
    assert "3 different numbers" in Task.of(numbers).note(numbers)[0]
    with pytest.raises(DomainDataError, match="nothing to predict"):
        Task.of(np.array([1.0, 1.0]))
    with pytest.raises(DomainDataError, match="500 different values"):
        Task.of(np.arange(500.0), "classification")


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(SettingError, match="seed must be an integer from 0"):
        TrainingPlan.of([0.9], seed=-1)
