"""The trees of scikit-learn's histogram boosting as arrays, which predict without scikit-learn.

A file holds these arrays; every index in them is checked before it is followed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.estimators.boosting.losses import blocks
from eqrm.estimators.boosting.tree_checks import (
    DEEPEST,
    check_finite,
    check_links,
    check_sizes,
    checked_integers,
)
from eqrm.linear.solving.risk_functions import Array

LARGEST = np.finfo(np.float64).max
"""In place of an infinite threshold, which sends only missing values to the right."""
MOST_NODES = 2**31 - 1


@dataclass(frozen=True, eq=False)
class HistogramTrees:
    """All nodes, tree after tree: that of output k in round r is number r·K + k.

    ``starts`` has the first node of each tree, and their number at the end. ``left`` and ``right``
    count from the first node of the tree; a leaf has −1. ``base`` (K,) is where scores begin.
    """

    starts: NDArray[np.int64]
    features: NDArray[np.int64]
    thresholds: Array
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    values: Array
    base: Array

    @classmethod
    def of(cls, model: Any) -> HistogramTrees:
        """Those of a fitted ``HistGradientBoostingClassifier`` or ``…Regressor``."""
        trees = [tree.nodes for each in model._predictors for tree in each]
        nodes, leaf = np.concatenate(trees), np.concatenate([t["is_leaf"] for t in trees]) != 0
        return cls(
            np.cumsum([0, *map(len, trees)]),
            np.where(leaf, 0, nodes["feature_idx"].astype(np.int64)),
            np.where(leaf, 0.0, np.minimum(nodes["num_threshold"], LARGEST)),
            nodes["missing_go_to_left"] != 0,
            np.where(leaf, -1, nodes["left"].astype(np.int64)),
            np.where(leaf, -1, nodes["right"].astype(np.int64)),
            nodes["value"].astype(np.float64),
            np.asarray(model._baseline_prediction, np.float64).reshape(-1),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file holds."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def checked(
        cls, arrays: dict[str, NDArray[Any]], features: int, outputs: int
    ) -> HistogramTrees:
        """What :meth:`arrays` gave, for this many features and outputs; else ``ValueError``."""
        found = cls(**{field.name: arrays[field.name].reshape(-1) for field in fields(cls)})
        nodes = len(found.values)
        starts = checked_integers(found.starts, 0, nodes, "starts")
        if len(starts) < 2 or starts[0] or starts[-1] != nodes or (np.diff(starts) < 1).any():
            raise ValueError("its 'starts' do not begin and end with its nodes")
        if (len(starts) - 1) % outputs:
            raise ValueError(f"it has {len(starts) - 1} trees, not a multiple of {outputs}")
        sizes = {name: len(array) for name, array in found.arrays().items()}
        check_sizes({"base": sizes.pop("base")}, outputs)
        check_sizes({name: size for name, size in sizes.items() if name != "starts"}, nodes)
        checked_integers(found.features, 0, features - 1, "features")
        for name in ("left", "right"):
            checked_integers(getattr(found, name), -1, MOST_NODES, name)
        for name in ("thresholds", "values", "base"):
            if getattr(found, name).dtype != np.float64:
                raise ValueError(f"its {name!r} are not numbers of 64 bits")
            check_finite(getattr(found, name), name)
        if found.missing_left.dtype != np.bool_:
            raise ValueError("its 'missing_left' are not true or false")
        for begin, end in pairwise(starts.tolist()):
            if not check_links(found.left[begin:end], found.right[begin:end]).all():
                raise ValueError("a tree in it has a node without a parent")
        return found

    def scores(self, X: Array) -> Array:
        """Scores (n,), or (n, K) of several classes, of features (n, d) in which NaN is missing."""
        found = np.repeat(self.base[None, :], len(X), axis=0)
        for block in blocks(len(X)):
            part = np.ascontiguousarray(X[block])
            for tree, start in enumerate(self.starts[:-1]):
                found[block, tree % len(self.base)] += self.values[self._leaves(part, int(start))]
        return found[:, 0] if len(self.base) == 1 else found

    def _leaves(self, X: Array, start: int) -> NDArray[np.int64]:
        """The node in which each row ends."""
        at = np.full(len(X), start)
        rows = np.arange(len(X)) if self.left[start] >= 0 else np.empty(0, np.int64)
        for _ in range(DEEPEST):
            if not len(rows):
                break
            node = at[rows]
            value = X[rows, self.features[node]]
            goes_left = (value <= self.thresholds[node]) | (
                self.missing_left[node] & np.isnan(value)
            )
            at[rows] = node = start + np.where(goes_left, self.left[node], self.right[node])
            rows = rows[self.left[node] >= 0]
        return at
