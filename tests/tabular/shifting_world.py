"""A table in which the effect of a feature differs by domain."""

from __future__ import annotations

import numpy as np

from eqrm.data import Table

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
