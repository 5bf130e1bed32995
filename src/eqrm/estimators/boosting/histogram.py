"""scikit-learn's histogram boosting, for plain training where no other library is installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from eqrm.checks import POSITIVE_INTEGER, Rule, integer, number, optional
from eqrm.errors import SettingError
from eqrm.estimators.base import DomainEstimator
from eqrm.estimators.boosting.losses import blocks
from eqrm.estimators.boosting.tree_checks import (
    DEEPEST,
    check_finite,
    check_links,
    check_sizes,
    checked_integers,
)
from eqrm.estimators.fit_inputs import training_rows
from eqrm.estimators.goal import Goal
from eqrm.estimators.tasks import Classification, Regression
from eqrm.level import Level
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

    @classmethod
    def checked(
        cls, arrays: dict[str, NDArray[Any]], features: int, outputs: int
    ) -> HistogramTrees:
        """What a file holds, for this many features and outputs; else ``ValueError``."""
        found = cls(**{field.name: arrays[field.name].reshape(-1) for field in fields(cls)})
        nodes = len(found.values)
        starts = checked_integers(found.starts, 0, nodes, "starts")
        if len(starts) < 2 or starts[0] or starts[-1] != nodes or (np.diff(starts) < 1).any():
            raise ValueError("its 'starts' do not begin and end with its nodes")
        if (len(starts) - 1) % outputs:
            raise ValueError(f"it has {len(starts) - 1} trees, not a multiple of {outputs}")
        sizes = {name: len(array) for name, array in vars(found).items()}
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


@dataclass(eq=False, repr=False)
class Histogram(DomainEstimator):
    """The parameters, training and results of histogram boosting."""

    alpha: Level | float | str | None = None
    _: KW_ONLY
    learning_rate: float = 0.1
    max_iter: int = 100
    max_leaf_nodes: int | None = 31
    min_samples_leaf: int = 20

    _rules: ClassVar[Mapping[str, Rule]] = {
        "learning_rate": number(above=0),
        "max_iter": POSITIVE_INTEGER,
        "max_leaf_nodes": optional(integer(2)),
        "min_samples_leaf": POSITIVE_INTEGER,
    }
    _takes_long = True
    _allows_nan = True
    _hidden: ClassVar[tuple[str, ...]] = ("_model",)

    def _checked_goal(self) -> Goal:
        goal = super()._checked_goal()
        if goal.level is not None:
            raise SettingError(
                f"{type(self).__name__} minimises the mean risk only, so alpha must be None, got "
                f"alpha={self.alpha!r}. For a level, wrap it in eqrm.Recalibrated, or install "
                "LightGBM: pip install 'eqrm[boosting]'."
            )
        return goal

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:
        """Boost ``max_iter`` rounds of the mean of domain risks; without groups, of all rows."""
        goal = self._checked_goal()
        self._forget()
        rows = training_rows(self, X, y, groups, sample_weight, level_asked=False)
        kind = HistGradientBoostingRegressor
        if is_classifier(self):
            kind = HistGradientBoostingClassifier
        names = ("learning_rate", "max_iter", "max_leaf_nodes", "min_samples_leaf", "random_state")
        settings = {name: getattr(self, name) for name in names}
        model = kind(early_stopping=False, **settings)
        # The mean loss is then the mean of the domains' risks.
        share = np.full(len(rows.groups), len(rows.y) / len(rows.groups))
        weights = rows.groups.row_weights(share, rows.sample_weight)
        self._model = model.fit(rows.X, rows.y, sample_weight=weights)
        self.trees_ = HistogramTrees.of(self._model)
        self.n_iter_ = self.max_iter
        self._keep_risks(goal, rows)
        return self

    def _scores(self, X: Array) -> Array:
        if not hasattr(self, "_model"):
            return self.trees_.scores(X)
        predict = self._model.decision_function if is_classifier(self) else self._model.predict
        return np.asarray(predict(X))

    def _own_state(self) -> dict[str, Any]:
        return {**super()._own_state(), "trees": vars(self.trees_)}

    def _restore_own(self, state: dict[str, Any]) -> None:
        super()._restore_own(state)
        outputs = self._num_class or 1
        self.trees_ = HistogramTrees.checked(state["trees"], self.n_features_in_, outputs)


class HistogramClassifier(Classification, Histogram):
    """scikit-learn's ``HistGradientBoostingClassifier``, with risks by domain and model files.

    Args:
        alpha: None: nothing is trained for a level. :class:`eqrm.Recalibrated` corrects the scores
            for one.
        learning_rate, max_iter, max_leaf_nodes, min_samples_leaf, random_state: scikit-learn's.

    Every domain has the same weight. After ``fit``: ``domains_``, ``domain_counts_``,
    ``domain_risks_``, ``quantile_risk_`` (the mean risk), ``level_`` (None), ``n_iter_`` and
    ``trees_``.

    >>> X, day = np.random.default_rng(0).normal(size=(600, 2)), np.repeat(np.arange(20), 30)
    >>> model = HistogramClassifier(max_iter=20).fit(X, X[:, 0] > 0, groups=day)
    >>> model.score(X, X[:, 0] > 0), len(model.domain_risks_)
    (1.0, 20)
    """


class HistogramRegressor(Regression, Histogram):
    """scikit-learn's ``HistGradientBoostingRegressor``, with risks by domain and model files.

    Parameters and attributes are those of :class:`HistogramClassifier`.
    """
