"""Tables, targets and plans that cannot be trained on are refused, with the reason."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm.data import Table
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


def test_plans_are_checked_before_any_work() -> None:
    with pytest.raises(SettingError, match="At least one level"):
        TrainingPlan.of([])
    with pytest.raises(SettingError, match="no setting 'alpha'"):
        plan_of([0.9], settings={"alpha": 0.1})
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


def test_arrays_in_place_of_a_table_or_of_names_of_columns_are_refused() -> None:
    frame = pd.DataFrame({"x": [0.5, 1.0], "ill": [0, 1], "ward": ["a", "b"]})
    for data, target, domain in (
        (frame, frame["ill"], "ward"),
        (frame, "ill", frame["ward"].to_numpy()),
        (frame.to_numpy(), "ill", "ward"),
    ):
        with pytest.raises(SettingError, match=r"takes a table with named columns.*evaluate\."):
            eqrm.train(data, target, domain)
