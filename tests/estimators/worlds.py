"""Small worlds of many domains for the estimators' tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eqrm.estimators.model_files import FORMAT
from eqrm.files.archive import flatten, read_archive, unflatten, write_archive


class World(NamedTuple):
    X: Any
    y: Any
    groups: Any

    def rows(self, chosen: Any) -> World:
        return World(self.X[chosen], self.y[chosen], self.groups[chosen])


def classes_world(
    classes: int = 2,
    domains: int = 30,
    rows: int = 40,
    features: int = 3,
    seed: int = 0,
    differ: float = 0.7,
) -> World:
    """Coefficients of their own in every domain, around common ones."""
    generator = np.random.default_rng(seed)
    n = domains * rows
    groups = np.repeat(np.arange(domains), rows)
    X = generator.normal(size=(n, features)) * generator.uniform(0.5, 3.0, features)
    table = generator.normal(size=(classes, features))
    shift = generator.normal(size=(domains, classes, features)) * differ
    logits = np.einsum("nd,nkd->nk", X, (table + shift)[groups])
    logits += generator.gumbel(size=logits.shape)
    return World(X, logits.argmax(axis=1), groups)


def numbers_world(domains: int = 30, rows: int = 40, features: int = 3, seed: int = 0) -> World:
    generator = np.random.default_rng(seed)
    n = domains * rows
    groups = np.repeat(np.arange(domains), rows)
    X = generator.normal(size=(n, features)) * generator.uniform(0.5, 3.0, features) + 2.0
    slopes = generator.normal(size=features) + 0.5 * generator.normal(size=(domains, features))
    y = (X * slopes[groups]).sum(axis=1) + generator.normal(size=n) + 5.0
    return World(X, y, groups)


def forged(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the model in a file, with a digest that fits: what a forger would write."""
    archive = read_archive(path, FORMAT, "a model file")
    state = unflatten(archive.content["model"], archive.tensors)
    change(state)
    plain, tensors = flatten(state, "model")
    write_archive(path, FORMAT, {**archive.content, "model": plain}, tensors)


def in_first_tree(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """A change of the first tree of XGBoost's booster, as a change of its bytes."""

    def changed(content: bytes) -> bytes:
        booster = json.loads(content)
        change(booster["learner"]["gradient_booster"]["model"]["trees"][0])
        return json.dumps(booster).encode()

    return changed


def change_booster(state: dict[str, Any], change: Callable[[bytes], bytes]) -> None:
    """Other bytes for the booster of a boosted estimator."""
    state["own"]["booster"] = change(state["own"]["booster"].tobytes())
