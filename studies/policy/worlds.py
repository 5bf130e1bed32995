"""Kinds of worlds: how domains differ, and tables drawn from them.

A row has five features, of which the last two say nothing. The third one has a slope of its own in
every domain, where slopes differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FEATURES = 5
ROWS = 60


@dataclass(frozen=True)
class DrawnTable:
    """Features (n, 5), targets and domains (n,) of a table."""

    X: Array
    y: NDArray[np.int64] | Array
    domain: NDArray[np.int64]

    @property
    def columns(self) -> dict[str, object]:
        """As :func:`eqrm.train` takes it."""
        found: dict[str, object] = {f"x{j + 1}": self.X[:, j] for j in range(FEATURES)}
        whole = self.y.dtype.kind == "i"  # classes: names, so that three are no amounts
        y = np.array([f"class {k}" for k in range(10)])[self.y] if whole else self.y
        names = np.array([f"d{number:04d}" for number in range(int(self.domain.max()) + 1)])
        return {**found, "y": y, "site": names[self.domain]}


@dataclass(frozen=True)
class Kind:
    """A kind of world: ``draw`` makes the targets of rows, given features and domains."""

    name: str
    what: str
    draw: Callable[[np.random.Generator, Array, NDArray[np.int64]], NDArray[np.int64] | Array]
    reversed_share: float = 0.0
    shifts: bool = False

    def table(self, domains: int, seed: int, rows: int = ROWS) -> DrawnTable:
        """Domains of so many rows each."""
        rng = np.random.default_rng([seed, domains, sum(map(ord, self.name))])
        ids = np.repeat(np.arange(domains), rows)
        X = rng.normal(size=(len(ids), FEATURES))
        if self.shifts:
            X += rng.normal(size=(domains, FEATURES))[ids]
        return DrawnTable(X, self.draw(rng, X, ids), ids)


def _labels(rng: np.random.Generator, logits: Array) -> NDArray[np.int64]:
    chance = 1.0 / (1.0 + np.exp(-logits))
    found: NDArray[np.int64] = (rng.random(len(logits)) < chance).astype(np.int64)
    return found


def _reversed(share: float) -> Kind:
    def draw(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        slope = np.where(rng.random(ids.max() + 1) < share, -1.2, 1.2)
        return _labels(rng, X[:, 0] + slope[ids] * X[:, 2])

    return Kind(f"slope reversed in {share:.0%}", "one slope changes its sign", draw, share)


def _bad(share: float) -> Kind:
    def draw(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        factor = np.where(rng.random(ids.max() + 1) < share, -0.5, 1.0)
        return _labels(rng, factor[ids] * (1.2 * X[:, 0] + 1.2 * X[:, 2]))

    return Kind(f"bad domains, {share:.0%}", "nothing holds in a few domains", draw)


def _base_rates(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    return _labels(rng, X[:, 0] + 0.8 * X[:, 2] + rng.normal(size=ids.max() + 1)[ids])


def _noise(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    factor = rng.choice([0.2, 1.0, 2.5], size=ids.max() + 1)
    return _labels(rng, factor[ids] * (1.2 * X[:, 0] + X[:, 2]))


def _nothing(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    return _labels(rng, X[:, 0] + 0.8 * X[:, 2])


def _nonlinear(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    slope = np.where(rng.random(ids.max() + 1) < 0.15, -1.0, 1.0)
    steps = 1.8 * np.sign(X[:, 0]) * np.sign(X[:, 1])
    return _labels(rng, steps + slope[ids] * X[:, 2])


def _classes(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    slope = np.where(rng.random(ids.max() + 1) < 0.15, -1.2, 1.2)[ids]
    logits = np.column_stack([X[:, 0], -X[:, 0] + slope * X[:, 2], X[:, 1] - slope * X[:, 2]])
    found: NDArray[np.int64] = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return found


def _slopes(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> Array:
    slope = 1.0 + 0.8 * rng.normal(size=ids.max() + 1)
    found: Array = X[:, 0] + slope[ids] * X[:, 2] + rng.normal(size=len(ids))
    return found


def _heavy(rng: np.random.Generator, X: Array, ids: NDArray[np.int64]) -> Array:
    size = np.exp(0.5 * rng.normal(size=ids.max() + 1))
    slope = np.where(rng.random(ids.max() + 1) < 0.15, -1.0, 1.0)
    noise = size[ids] * rng.standard_t(4, size=len(ids))
    found: Array = X[:, 0] + slope[ids] * X[:, 2] + noise
    return found


KINDS = (
    *map(_reversed, (0.05, 0.08, 0.12, 0.15, 0.3)),
    *map(_bad, (0.04, 0.08, 0.12)),
    Kind("base rates differ", "an intercept for every domain", _base_rates),
    Kind("noise differs", "labels are more or less random", _noise),
    Kind("covariates shift", "the features of domains have other means", _nothing, shifts=True),
    Kind("nothing differs", "all domains are alike", _nothing),
    Kind("nonlinear", "steps; one slope reversed in 15%", _nonlinear),
    Kind("three classes", "one slope reversed in 15%", _classes),
    Kind("regression, slopes differ", "a normal slope for every domain", _slopes),
    Kind("regression, heavy tails", "t-distributed noise; a slope reversed in 15%", _heavy),
)
