"""Networks behind the estimators: gradients do what the exact solver does, and runs repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqrm import QRMClassifier, QRMRegressor
from eqrm.estimators.fit_inputs import TrainingRows
from eqrm.estimators.groups import as_groups
from eqrm.estimators.network_training import Examples
from estimators.worlds import World, classes_world, numbers_world


def test_a_network_without_hidden_layers_reaches_the_exact_minimum() -> None:
    world = classes_world(2, differ=0.3)
    exact = QRMClassifier(0.9, l2=1e-3).fit(*world)
    trained = QRMClassifier(
        0.9, l2=1e-3, model="mlp", hidden=(), learning_rate=0.1, erm_steps=60, steps=200
    ).fit(*world)
    assert trained.quantile_risk_ == pytest.approx(exact.quantile_risk_, abs=2e-4)
    assert np.abs(trained.predict_proba(world.X) - exact.predict_proba(world.X)).max() < 0.02


def test_batches_of_domains_come_close_to_the_quantile_over_all() -> None:
    world = numbers_world(domains=40)
    exact = QRMRegressor(0.9).fit(*world)
    erm = QRMRegressor(None).fit(*world)
    batches = QRMRegressor(
        0.9, domains_per_batch=8, learning_rate=0.05, erm_steps=100, steps=200, random_state=0
    ).fit(*world)
    assert batches.quantile_risk_ < 0.5 * (exact.quantile_risk_ + erm.quantile_at(0.9))
    assert batches.quantile_risk_ < 1.05 * exact.quantile_risk_


def bent_world() -> World:
    """The class depends on the distance from 0: no linear model can tell."""
    world = classes_world(2, domains=20, differ=0.0)
    return World(world.X, (np.abs(world.X[:, 0]) > 1.0).astype(int), world.groups)


@pytest.mark.parametrize("batches", [{}, {"domains_per_batch": 5, "examples_per_domain": 20}])
def test_a_network_learns_what_no_linear_model_can(batches: dict[str, int]) -> None:
    world = bent_world()
    options: dict[str, Any] = {"hidden": (16,), "learning_rate": 0.03, "random_state": 0, **batches}
    network = QRMClassifier(0.9, model="mlp", erm_steps=150, steps=100, **options)
    assert network.fit(*world).score(world.X, world.y) > 0.93
    assert QRMClassifier(0.9).fit(*world).score(world.X, world.y) < 0.8


@pytest.mark.parametrize("batches", [{}, {"domains_per_batch": 4, "examples_per_domain": 10}])
def test_the_same_seed_gives_the_same_network(batches: dict[str, int]) -> None:
    world = classes_world(3)
    options: dict[str, Any] = {"model": "mlp", "erm_steps": 5, "steps": 5, **batches}
    one, same = (QRMClassifier(0.9, random_state=7, **options).fit(*world) for _ in "ab")
    other = QRMClassifier(0.9, random_state=8, **options).fit(*world)
    np.testing.assert_array_equal(one.predict_proba(world.X), same.predict_proba(world.X))
    assert np.abs(one.predict_proba(world.X) - other.predict_proba(world.X)).max() > 1e-4


def test_batches_visit_every_domain_before_any_comes_again() -> None:
    world = classes_world(2, domains=7, rows=6)
    rows = TrainingRows(world.X, world.y, as_groups(world.groups, len(world.y)), None)
    batches = Examples.of(rows, classes=2).batches(2, 4, np.random.RandomState(0))
    chosen = [next(batches) for _ in range(14)]
    visits = [np.unique(world.groups[batch], return_counts=True) for batch in chosen]
    assert all(counts.tolist() == [4, 4] for _, counts in visits)
    seen = np.concatenate([world.groups[batch[::4]] for batch in chosen])
    for start in range(0, 28, 7):
        assert sorted(seen[start : start + 7]) == list(range(7))


def test_training_leaves_the_random_state_of_torch_and_numpy_alone() -> None:
    import torch

    world = classes_world(2)
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    QRMClassifier(model="mlp", erm_steps=2, steps=2, random_state=0).fit(*world)
    assert (torch.rand(1), np.random.rand()) == expected  # noqa: NPY002
