"""Risks of domains under models that have not seen them: fitted to the other domains only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from eqrm.errors import DomainDataError
from eqrm.estimators.groups import Groups, as_groups
from eqrm.estimators.row_losses import row_losses
from eqrm.level import Level
from eqrm.linear.solving.risk_functions import Array

LevelOrMean = Level | None
WHOLE = "use DomainKFold or GroupKFold as cv, which keep domains whole."


@dataclass(frozen=True, eq=False)
class CrossFittedRisks:
    """``risks`` (L, m): of each level's predictor on each domain, by a model of other domains."""

    levels: tuple[LevelOrMean, ...]
    domains: tuple[Any, ...]
    risks: Array


def cross_fitted_risks(
    estimator: Any, levels: Sequence[LevelOrMean], X: Any, y: Any, groups: Any, cv: Any
) -> CrossFittedRisks:
    """Fit every level on the training domains of every fold, and measure it on the others."""
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    named = as_groups(groups, rows)
    target = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    found = np.full((len(levels), len(named)), np.nan)
    for train, test in cv.split(X, target, groups=named.ids):
        _refuse_leak(named, train, test)
        fitted = fit_levels(estimator, levels, _take(X, train), target[train], named.ids[train])
        inside = np.unique(named.ids[test])
        held = Groups(
            np.searchsorted(inside, named.ids[test]),
            tuple(named.names[e] for e in inside.tolist()),
            named.counts[inside],
        )
        for place, model in enumerate(fitted):
            losses = row_losses(model, _take(X, test), target[test])
            found[place, inside] = held.means(losses)
    if np.isnan(found).any():
        raise DomainDataError(f"Every domain must be tested on once: {WHOLE}")
    return CrossFittedRisks(tuple(levels), named.names, found)


def _refuse_leak(groups: Groups, train: Any, test: Any) -> None:
    """A domain in both parts would be judged by a model that has seen it."""
    both = np.intersect1d(groups.ids[train], groups.ids[test])
    if both.size:
        raise DomainDataError(
            f"A fold trains and tests on the same domain, {groups.names[both[0]]!r} for one "
            f"({both.size} in all): {WHOLE}"
        )


def fit_levels(
    estimator: Any, levels: Sequence[LevelOrMean], X: Any, y: Any, groups: Any
) -> list[Any]:
    """A fitted estimator per level: by its own ``fit_levels``, or one after the other.

    Of a pipeline, the last step has the level.
    """
    if hasattr(estimator, "fit_levels"):
        found: list[Any] = clone(estimator).fit_levels(levels, X, y, groups)
        return found
    if not isinstance(estimator, Pipeline):
        return [clone(estimator).set_params(alpha=a).fit(X, y, groups=groups) for a in levels]
    # The steps before the last have no level: they are fitted once.
    whole = clone(estimator)
    before, last = whole[:-1], whole[-1]
    features = before.fit_transform(X, y) if len(before) else X
    models = fit_levels(last, levels, features, y, groups)
    name = whole.steps[-1][0]
    return [_joined(whole, name, model) for model in models]


def _joined(pipeline: Any, name: str, model: Any) -> Any:
    return Pipeline([*pipeline.steps[:-1], (name, model)])


def _take(X: Any, rows: Any) -> Any:
    return _safe_indexing(X, rows)
