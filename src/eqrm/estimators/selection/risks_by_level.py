"""Levels fitted side by side, and the risk of each domain under each of them.

A risk is either measured on given rows, or cross-fitted: by a model of other domains only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from eqrm.checks import integer
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.fit_inputs import target_values
from eqrm.estimators.groups import as_groups, required_groups
from eqrm.estimators.selection.splitters import DomainKFold
from eqrm.estimators.tasks import row_losses
from eqrm.level import Level
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import aligned, listed

LevelOrMean = Level | None
LEVELS = (None, 0.5, 0.75, 0.9, 0.95, 0.99)
WHOLE = "use DomainKFold or GroupKFold as cv, which keep domains whole."


@dataclass(frozen=True, eq=False)
class RisksByLevel:
    """Risks (L, m) of the predictors of L levels (None is ERM) on m domains."""

    levels: tuple[LevelOrMean, ...]
    domains: tuple[Any, ...]
    risks: Array

    @property
    def columns(self) -> tuple[Level, ...]:
        """The K levels that are not ERM: those that quantiles are shown of."""
        return tuple(level for level in self.levels if level is not None)

    @property
    def means(self) -> Array:
        """The mean risk of each predictor (L,)."""
        return np.asarray(self.risks.mean(axis=1))

    @property
    def quantiles(self) -> Array:
        """The quantiles (L, K) at ``columns``."""
        return self.quantile([level.alpha for level in self.columns]).T

    def at(self, level: Level) -> Array:
        """The quantiles (L,) at one level."""
        return self.quantile(level.alpha)

    def quantile(self, share: float | Sequence[float]) -> Array:
        """The smallest risk (L,) that this share of the domains does not exceed."""
        found: Array = np.quantile(self.risks, share, axis=1, method="inverted_cdf")
        return found

    def table(self, header: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
        """Columns of text with a row for each level."""
        named = [[level_name(a), *row] for a, row in zip(self.levels, cells, strict=True)]
        return aligned([["trained for", *header], *named])


def measured(models: Sequence[Any], levels: Sequence[LevelOrMean], part: Any) -> RisksByLevel:
    """The risks of fitted models, one for each level, on the domains of (X, y, groups)."""
    X, y, groups = part
    losses = [row_losses(model, X, y) for model in models]
    domains = as_groups(groups, len(losses[0]))
    return RisksByLevel(tuple(levels), domains.names, np.stack([domains.means(r) for r in losses]))


def cross_fitted(
    estimator: Any, levels: Sequence[LevelOrMean], X: Any, y: Any, groups: Any, cv: Any
) -> RisksByLevel:
    """Fit every level on the training domains of every fold, and measure it on the others.

    ``cv`` is a splitter, a number of folds, or None for :class:`DomainKFold` in 5 folds.
    """
    if not hasattr(cv, "split"):
        cv = DomainKFold(5 if cv is None else integer(2).check(cv, "cv"))
    named, target = (
        required_groups(groups, _num_samples(X), "A risk on new domains"),
        target_values(y),
    )
    found = np.full((len(levels), len(named)), np.nan)
    for train, test in cv.split(X, target, groups=named.ids):
        both = np.intersect1d(named.ids[train], named.ids[test])
        if both.size:  # it would be judged by a model that has seen it
            raise DomainDataError(
                "A fold trains and tests on the same domains: "
                f"{listed([named.names[e] for e in both.tolist()])}. To fix this, {WHOLE}"
            )
        models = fit_levels(
            estimator, levels, _safe_indexing(X, train), target[train], named.ids[train]
        )
        held, inside = named.only(test), np.unique(named.ids[test])
        for place, model in enumerate(models):
            losses = row_losses(model, _safe_indexing(X, test), target[test])
            found[place, inside] = held.means(losses)
    if np.isnan(found).any():
        raise DomainDataError(f"Every domain must be tested on once: {WHOLE}")
    return RisksByLevel(tuple(levels), named.names, found)


def fit_levels(
    estimator: Any,
    levels: Sequence[LevelOrMean],
    X: Any,
    y: Any,
    groups: Any,
    sample_weight: Any = None,
) -> list[Any]:
    """A fitted estimator per level: by its own ``fit_levels``, or one after the other.

    Of a pipeline, the last step has the level; the steps before it are fitted once.
    """
    if isinstance(estimator, Pipeline):
        whole = clone(estimator)
        name, last = whole.steps[-1]
        features = whole[:-1].fit_transform(X, y) if len(whole) > 1 else X
        models = fit_levels(last, levels, features, y, groups)
        return [Pipeline([*whole.steps[:-1], (name, model)]) for model in models]
    if hasattr(estimator, "fit_levels"):
        found: list[Any] = clone(estimator).fit_levels(levels, X, y, groups, sample_weight)
        return found
    if "alpha" not in estimator.get_params():
        raise SettingError(
            f"{type(estimator).__name__} has no parameter alpha, so it cannot be fitted to levels. "
            "Use one of eqrm's estimators, such as QRMClassifier."
        )
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    each = [clone(estimator).set_params(alpha=a) for a in levels]
    return [model.fit(X, y, groups=groups, **weights) for model in each]


def distinct_levels(levels: Sequence[Level | float | str | None]) -> tuple[LevelOrMean, ...]:
    """A list of levels that do not repeat; None is ERM."""
    if not isinstance(levels, (list, tuple, np.ndarray)) or not len(levels):
        raise SettingError(f"levels must be a list of levels, such as [0.5, 0.9], got {levels!r}.")
    found = tuple(None if level is None else Level.of(level) for level in levels)
    if len(set(found)) < len(found):
        raise SettingError("levels must not repeat.")
    return found


def level_name(level: LevelOrMean) -> str:
    """What tables call it.

    >>> level_name(None), level_name(Level(0.9)), level_name(Level(1.0))
    ('ERM', 'alpha = 0.9', 'worst')
    """
    if level is None:
        return "ERM"
    return "worst" if level == Level(1.0) else f"alpha = {level}"
