"""A table in which the effect of a feature differs by domain, and what is said of a training."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.data import Table
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import prepare
from eqrm.tabular.result import TrainingResult
from eqrm.tabular.training import TableTraining, train_prepared

DOMAINS, ROWS = 220, 40


def world(seed: int = 0, spread: float = 0.9, classes: int = 2) -> Table:
    """A feature whose effect on the label differs by domain, by ``spread``."""
    rng = np.random.default_rng(seed)
    n = DOMAINS * ROWS
    stable = rng.normal(size=n)
    level = np.digitize(stable + rng.normal(size=n), np.linspace(-1, 1, classes - 1))
    strength = np.repeat(1 + spread * rng.normal(size=DOMAINS), ROWS)
    shifting = strength * 2 * (level - level.mean()) + rng.normal(size=n)
    domains = np.repeat([f"d{i:03d}" for i in range(DOMAINS)], ROWS)
    kind = rng.choice(["a", "b"], n)
    return Table({"stable": stable, "shifting": shifting, "kind": kind}, level, domains)


def some(table: Table, number: int = 60) -> Table:
    """Its first domains."""
    return table.in_domains(table.domain_names[:number])


def plan_of(levels: Any = None, **settings: Any) -> TrainingPlan:
    """A plan of linear models, unless another is asked for."""
    return TrainingPlan.of(levels, **{"model": "linear", **settings})


def trained_on(table: Table, plan: TrainingPlan, test: Table | None = None) -> TableTraining:
    """A training on a table; the domains of ``test`` are kept aside."""
    return train_prepared(prepare(table, test, plan), plan)


def told(training: TableTraining) -> str:
    """What is said about a training, details too, on one line."""
    return " ".join(TrainingResult.of(training).summary.split())
