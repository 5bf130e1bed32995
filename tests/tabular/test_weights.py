"""Weights of rows and classes: a row of weight 2 is two rows, in training and in the evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqrm.data import Table
from eqrm.errors import DomainDataError, SettingError
from eqrm.tabular.plan import MODEL_SETTINGS, MODELS
from eqrm.tabular.references import weighted_losses
from tabular.shifting_world import plan_of, trained_on, world

PLAN = plan_of([0.9], refit="all")


def weighted(classes: int = 2) -> Table:
    table = world(classes=classes)
    weights = np.random.default_rng(3).integers(1, 4, len(table)).astype(float)
    return replace(table, weights=weights)


@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.full)])
def test_a_weight_counts_rows(classes: int) -> None:
    """To 0.5%: means and scales of features are those of rows, whatever these weigh."""
    table = weighted(classes)
    domains = [f"d{number:03d}" for number in range(30)]
    parts = [table.in_domains(domains[:15]), table.in_domains(domains[15:])]
    repeated = [
        replace(part, weights=None).rows(np.repeat(np.arange(len(part)), part.weights.astype(int)))  # type: ignore[union-attr]
        for part in parts
    ]
    one, two = (trained_on(train, PLAN, test) for train, test in (parts, repeated))
    assert one.decision.chosen == two.decision.chosen
    for name in one.evaluation.models:
        found, expected = (each.evaluation[name].risks for each in (one, two))
        # Constants do not depend on how features are scaled.
        np.testing.assert_allclose(found, expected, rtol=5e-3 if name in one.models else 1e-12)
    assert one.evaluation.examples < two.evaluation.examples
    assert one.aside is not None
    loss = {2: "log-loss", 3: "squared error"}[classes]  # three numbers are no classes
    assert one.aside.loss == one.evaluation.loss == f"{loss} weighted by the column 'weight'"
    for name in one.models:
        found, expected = (each.aside[name].risks for each in (one, two))  # type: ignore[union-attr]
        np.testing.assert_allclose(found, expected, rtol=5e-3)


def test_the_variance_of_a_weighted_risk_is_that_of_a_ratio() -> None:
    rng = np.random.default_rng(0)
    from eqrm.domains import NumberedDomains

    one = NumberedDomains(np.zeros(200, dtype=np.int64), ("a",))
    means, stated = [], []
    for _ in range(2000):
        losses, weights = rng.exponential(size=200), rng.integers(1, 6, 200).astype(float)
        found = weighted_losses(losses, weights, one)
        means.append(found.mean())
        stated.append(found.var(ddof=1) / 200)
    assert np.mean(stated) == pytest.approx(np.var(means), rel=0.1)


def test_wrong_weights_are_refused() -> None:
    table = weighted()
    with pytest.raises(DomainDataError, match="must be numbers of at least 0, got -1"):
        replace(table, weights=np.where(table.domains == "d000", -1.0, 1.0))
    none = replace(table, weights=(table.domains != "d000").astype(float))
    with pytest.raises(DomainDataError, match="are 0 in all rows of domain 'd000'"):
        trained_on(none, PLAN)
    numbers = Table({"x": np.arange(60.0) % 7}, np.arange(60.0), np.arange(60) % 6)
    with pytest.raises(SettingError, match="class_weight is for classes"):
        trained_on(numbers, plan_of([0.9], class_weight="balanced"))


def test_settings_of_models_are_those_of_the_estimators() -> None:
    """They are listed, so that their names are checked before the estimators are imported."""
    from eqrm.estimators.model_files import ESTIMATORS
    from eqrm.tabular.plan import DECIDED

    for model, classes in MODELS.items():
        for name in classes:
            assert sorted(MODEL_SETTINGS[model]) == sorted(ESTIMATORS.settings(name, DECIDED))
