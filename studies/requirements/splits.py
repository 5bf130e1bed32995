"""Domains to train, to calibrate and to judge: of simulated worlds and of real tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data import coloured_digits
from studies.frontiers.tables import SOURCES, StudyTable
from studies.requirements.settings import DIGITS, REVERSED, STABLE, WORLDS, RequirementsSettings

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Features (n, d), targets (n,), integers where they are classes, and domains 0 … m − 1."""

    X: Array
    y: NDArray[Any]
    ids: NDArray[np.int64]

    @classmethod
    def of(cls, X: Any, y: Any, domains: Any, classes: int = 2) -> Rows:
        """Domains are numbered anew."""
        ids = np.unique(np.asarray(domains), return_inverse=True)[1]
        return cls(np.asarray(X, np.float64), np.asarray(y, int if classes else np.float64), ids)

    def totals(self, of: NDArray[Any]) -> Array:
        """Sums over the rows of each domain (m,)."""
        return np.asarray(np.bincount(self.ids, of.astype(np.float64)), np.float64)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of domains that do not overlap."""

    train: Rows
    calibration: Rows
    test: Rows
    numbers: bool = False


def sources(settings: RequirementsSettings, seed: int) -> dict[str, Callable[[int], Split]]:
    """How the split of a number is made, of each world and table."""
    found: dict[str, Callable[[int], Split]] = {
        name: partial(_world, slope, settings, seed) for name, slope in WORLDS.items()
    }
    for name in settings.tables:
        if name == DIGITS:
            found[name] = partial(_digits, seed)
        else:
            table = SOURCES[name].load()
            found[name] = partial(_thirds, table, table.some(settings.most_rows, seed), seed)
    return found


def _world(slope: float, settings: RequirementsSettings, seed: int, number: int) -> Split:
    """Two features with two slopes, of which the second is reversed in some domains."""
    rng = np.random.default_rng([seed, number, round(10.0 * slope)])

    def drawn(domains: int) -> Rows:
        ids = np.repeat(np.arange(domains), settings.rows)
        X = rng.normal(size=(len(ids), 2))
        own = np.where(rng.random(domains) < REVERSED, -slope, slope)
        chance = 1.0 / (1.0 + np.exp(-STABLE * X[:, 0] - own[ids] * X[:, 1]))
        return Rows.of(X, rng.random(len(ids)) < chance, ids)

    return Split(drawn(settings.domains), drawn(settings.domains), drawn(settings.fresh))


def _digits(seed: int, number: int) -> Split:
    """Three deals of the same digits, with colours and sources of their own."""
    deals = [coloured_digits(seed=1_000 * seed + 3 * number + part) for part in range(3)]
    train, calibration, test = (
        Rows.of(np.column_stack([*t.columns.values()]), t.target, t.domains) for t in deals
    )
    return Split(train, calibration, test)


def _thirds(table: StudyTable, kept: NDArray[np.bool_], seed: int, number: int) -> Split:
    """Random thirds of the domains."""
    order = np.random.default_rng([seed, number]).permutation(table.domains)

    def rows_of(part: NDArray[np.int64]) -> Rows:
        own = kept & np.isin(table.ids, part)
        return Rows.of(table.X[own], table.y[own], table.ids[own], table.classes)

    train, calibration, test = map(rows_of, np.array_split(order, 3))
    return Split(train, calibration, test, numbers=not table.classes)
