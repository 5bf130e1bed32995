"""Several goals boosted together: the data and the rounds of ERM are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import clone

from eqrm.estimators.boosting.rounds import Boosting, number_of_rounds
from eqrm.estimators.fit_inputs import TrainingRows, training_rows
from eqrm.estimators.goal import Goal

ERM = Goal.of(None)
KINDS = frozenset({"booster", "boosting", "boosting_type", "boost", "process_type", "linear_tree"})
"""Parameters of the libraries with which rounds are no longer trees that are added up."""


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

    >>> import numpy as np
    >>> from eqrm import LGBMQRMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, day = rng.normal(size=(1200, 2)), np.repeat(np.arange(30), 40)
    >>> y = X[:, 0] + rng.normal(size=30)[day] > 0
    >>> goals = [{"alpha": None}, {"alpha": 0.9}, {"alpha": 0.75, "measure": "superquantile"}]
    >>> erm, quantile, tail = fit_together(LGBMQRMClassifier(n_estimators=20), goals, X, y, day)
    >>> erm.erm_rounds_, quantile.erm_rounds_, tail.erm_rounds_
    (20, 14, 14)
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
            own, trees = boosting(goal, total - shared), begun
            if begun is None:
                trees = first._train(library, own)
            elif shared == total:
                own = erm
            else:
                trees = first._train_after(library, own, begun, erm.margins)
            plain = total if goal.level is None else shared
            model._keep_rounds(library, goal, rows, own, trees, plain)
