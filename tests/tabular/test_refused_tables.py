"""Tables, targets and plans that cannot be trained on are refused, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from eqrm.data import Table
from eqrm.data.tables.task import Task
from eqrm.errors import DomainDataError, SettingError
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.training import train_on_table
from tabular.shifting_world import world


def test_unseen_categories_in_test_domains_are_noted_or_refused() -> None:
    table = world()
    kinds = np.where(table.domains == "d219", "c", table.columns["kind"])
    table = Table({**table.columns, "kind": kinds}, table.target, table.domains)
    parts = table.split(["d218", "d219"])
    found = train_on_table(*parts, TrainingPlan.of([0.9]))
    assert any(
        "'kind' has categories that did not occur in training: 'c', in 40 of 80" in n
        for n in found.notes
    )
    with pytest.raises(DomainDataError, match="'c'"):
        train_on_table(*parts, TrainingPlan.of([0.9], unseen="error"))


def test_a_class_that_training_never_saw_is_refused() -> None:
    table = world(classes=3)
    target = np.where((table.domains != "d000") & (table.target == 2), 1, table.target)
    parts = Table(table.columns, target, table.domains).split(["d000", "d001"])
    with pytest.raises(DomainDataError, match="class '2' does not occur in any training domain"):
        train_on_table(*parts, TrainingPlan.of([0.9], task="classification"))


def test_plans_are_checked_before_any_work() -> None:
    with pytest.raises(SettingError, match="At least one level"):
        TrainingPlan.of([])
    with pytest.raises(SettingError, match="Unknown model 'tree'"):
        TrainingPlan.of([0.9], model="tree")
    with pytest.raises(SettingError, match="no setting 'alpha'"):
        train_on_table(*world().split(), TrainingPlan.of([0.9], settings={"alpha": 0.1}))


def test_tables_must_share_columns_but_no_domain() -> None:
    train, test = world().split(0.5)
    with pytest.raises(DomainDataError, match="110 domains are in both training and test"):
        train_on_table(train, train, TrainingPlan.of([0.9]))
    fewer = Table({"stable": test.columns["stable"]}, test.target, test.domains)
    with pytest.raises(DomainDataError, match="no columns 'shifting', 'kind'"):
        train_on_table(train, fewer, TrainingPlan.of([0.9]))


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
