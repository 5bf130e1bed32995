"""A table in which the effect of a feature differs by domain, and what is said of a training."""

from __future__ import annotations

import numpy as np

from eqrm.data import Table
from eqrm.tabular.comparison import compare_training
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import in_words

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


def told(training: TableTraining) -> str:
    """What is said about a training, on one line."""
    return " ".join(in_words(training, compare_training(training)).split())
