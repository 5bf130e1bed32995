"""Rounds of boosting: one training call, several goals that share rounds, how large trees are.

Boosting for a level begins with rounds of ERM. Early stopping watches the measure over validation
domains from then on; the rounds of ERM end early where the mean risk of these domains no longer
falls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from eqrm.checks import Rule, integer, is_integer, number
from eqrm.estimators.boosting.objective import ERM, BoostingObjective
from eqrm.estimators.fit_inputs import TrainingRows, training_rows
from eqrm.estimators.goal import Goal

ROUNDS_OR_SHARE = Rule(
    "a number of rounds, or a share of n_estimators such as 0.7",
    lambda v: integer(0).holds(v) if is_integer(v) else number(0, 1).holds(v),
)
KINDS = frozenset({"booster", "boosting", "boosting_type", "boost", "process_type", "linear_tree"})
"""Parameters of the libraries with which rounds are no longer trees that are added up."""
FEW_ROWS = 20_000
"""Trees of 31 leaves, which the libraries grow by default, learn the noise of smaller tables
(docs/boosting.md: 60 domains × 60 rows to 182 days of flights)."""
LEAVES_OF_FEW, LEAVES = 15, 31
ROWS_OF_A_LEAF, ROWS_OF_A_CATEGORY = 50, 20
"""The fewest rows of a leaf; fewer where categories have a column each, which few rows may have."""


def number_of_rounds(given: float, total: int) -> int:
    """A number of rounds, or a share of all of them, as a number."""
    return min(int(given), total) if is_integer(given) else round(given * total)


@dataclass(eq=False)
class Boosting:
    """``validation`` is a dataset or None; ``patience`` the rounds that early stopping waits.

    While training, ``curve`` gets the measure of the validation domains after each round. A library
    that knows them leaves the margins of training rows after the last round in ``margins``.
    """

    train: Any
    validation: Any
    objective: BoostingObjective
    rounds: int
    patience: int | None = None
    curve: list[float] = field(default_factory=list)
    margins: NDArray[Any] | None = None
    _means: list[float] = field(default_factory=list)

    def metric(self, margins: NDArray[Any], dataset: Any) -> tuple[Any, ...]:
        """What the library is told of the validation domains after each round."""
        found = self.objective.metric(margins, dataset)
        self.curve.append(found[1])
        if self.patience is not None and len(self.curve) <= self.objective.erm_rounds:
            self._means.append(self.objective.metric_at(None)(margins, dataset)[1])
        return found

    # The libraries' own early stopping differs: XGBoost's reads metrics from text with six
    # decimals, which is nothing where squared errors are small.
    def over(self) -> bool:
        """Whether training ends after this round."""
        done = len(self.curve)
        if self.patience is None or not done:
            return False
        if done < self.objective.erm_rounds:
            if done - _best(self._means) >= self.patience:
                self.objective.erm_rounds = done
            return False
        return done - max(_best(self.curve), self.objective.erm_rounds) >= self.patience

    @property
    def best(self) -> int | None:
        """The rounds to keep, where early stopping decides."""
        return None if self.patience is None else _best(self.curve)


def _best(curve: Sequence[float]) -> int:
    return int(np.argmin(curve)) + 1


def fit_together(
    estimator: Any,
    settings: Sequence[Mapping[str, Any]],
    X: Any,
    y: Any,
    groups: Any = None,
    sample_weight: Any = None,
) -> list[Any]:
    """Clones of a boosted estimator that is not fitted, each fitted to a goal of its own.

    ``settings`` are the parameters in which they differ: ``alpha``, ``measure``, ``distribution``,
    ``bandwidth``. The models are those that ``fit`` gives, but for subsampling, which draws other
    rows. With early stopping, callbacks or another kind of boosting (such as DART, which changes
    trees of earlier rounds) each is fitted by itself.
    """
    models = [clone(estimator).set_params(**each) for each in settings]
    goals = [model._checked_goal() for model in models]
    changed = not KINDS.isdisjoint(estimator.booster_params or {})
    alone = changed or estimator.early_stopping_rounds is not None or estimator.callbacks
    if alone or len(models) == 1 or any(model.surrogate is not None for model in models):
        return [model.fit(X, y, groups, sample_weight) for model in models]
    first: Any = clone(estimator)
    asked = any(goal.level is not None for goal in goals)
    rows = training_rows(first, X, y, groups, sample_weight, level_asked=asked)
    _boost_together(first, models, goals, rows)
    return models


def _boost_together(
    first: Any, models: Sequence[Any], goals: Sequence[Goal], rows: TrainingRows
) -> None:
    """Boost by ERM as far as is needed, and continue from there for each goal."""
    library, data = first._prepared(rows)
    learned = {name: vars(first)[name] for name in first._learned()}
    total = first.n_estimators
    shared = number_of_rounds(first.erm_rounds, total)

    def boosting(goal: Goal, rounds: int) -> Boosting:
        return Boosting(data, None, first._objective_of(goal, {data: rows.groups}), rounds)

    with first._naming_settings(library):
        erm = boosting(ERM, shared)
        begun = first._train(library, erm) if shared else None
        for model, goal in zip(models, goals, strict=True):
            vars(model).update(learned)
            own, trees = erm, begun
            if shared < total:
                own = boosting(goal, total - shared)
                trees = first._train(library, own, begun, erm.margins)
            plain = total if goal.level is None else shared
            model._keep_rounds(library, goal, rows, own, trees, plain)


def tree_settings(model: str, rows: int, categories: bool = False) -> dict[str, Any]:
    """The size of the trees of ``lightgbm`` or ``xgboost``; nothing for others."""
    leaves = LEAVES_OF_FEW if rows <= FEW_ROWS else LEAVES
    least = ROWS_OF_A_CATEGORY if categories else ROWS_OF_A_LEAF
    if model == "lightgbm":
        return {"num_leaves": leaves, "min_child_samples": least}
    if model == "xgboost":  # which counts Hessians, not rows
        grown = {"grow_policy": "lossguide", "max_leaves": leaves}
        return {"max_depth": 0, "booster_params": grown}
    return {}
