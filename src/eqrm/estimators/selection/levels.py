"""Levels fitted side by side, and the risk of each domain under each.

A risk is either measured on given rows (:class:`RiskRobustnessPath`), or cross-fitted, by a model
of other domains only (:func:`choose_level`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from eqrm.checks import CONFIDENCE, number, optional
from eqrm.errors import DomainDataError, SettingError
from eqrm.estimators.base import refuse_seen
from eqrm.estimators.fit_inputs import target_values
from eqrm.estimators.groups import as_groups, required_groups
from eqrm.estimators.qrm_estimators import QRMClassifier
from eqrm.estimators.selection.splitters import WHOLE, domain_folds
from eqrm.estimators.tasks import row_losses
from eqrm.evaluation.inference.certificates import probability_bound
from eqrm.evaluation.inference.risk_checks import checked_alpha
from eqrm.evaluation.rounding import as_percent, percent_rounded_down
from eqrm.level import WITHOUT_LEVEL, Level
from eqrm.linear.solving.risk_functions import Array
from eqrm.text import aligned

LevelOrMean = Level | None
Self = TypeVar("Self", bound="RiskRobustnessPath")
LEVELS = (None, 0.5, 0.75, 0.9, 0.95, 0.99)


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

    def quantile(self, share: float | Sequence[float]) -> Array:
        """The smallest risk (L,) that this share of the domains does not exceed."""
        return np.quantile(self.risks, share, axis=1, method="inverted_cdf")

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
    named = required_groups(groups, _num_samples(X), "A risk on new domains")
    target = target_values(y)
    losses = np.full((len(levels), len(target)), np.nan)
    for train, test in domain_folds(5 if cv is None else cv, X, target, named, named.ids):
        rows = _safe_indexing(X, train)
        models = fit_levels(estimator, levels, rows, target[train], named.ids[train])
        for own, model in zip(losses, models, strict=True):
            own[test] = row_losses(model, _safe_indexing(X, test), target[test])
    if np.isnan(losses).any():
        raise DomainDataError(f"Every domain must be tested on once: {WHOLE}")
    return RisksByLevel(tuple(levels), named.names, np.stack([named.means(r) for r in losses]))


def fit_levels(
    estimator: Any, levels: Sequence[LevelOrMean], X: Any, y: Any, groups: Any
) -> list[Any]:
    """A fitted estimator per level.

    Of a pipeline, the last step has the level; the steps before it are fitted once.
    """
    if isinstance(estimator, Pipeline):
        whole = clone(estimator)
        name, last = whole.steps[-1]
        features = whole[:-1].fit_transform(X, y) if len(whole) > 1 else X
        models = fit_levels(last, levels, features, y, groups)
        return [Pipeline([*whole.steps[:-1], (name, model)]) for model in models]
    if not hasattr(estimator, "fit_levels"):
        raise SettingError(
            f"{type(estimator).__name__} cannot be fitted to levels. Use one of eqrm's estimators, "
            "such as QRMClassifier."
        )
    return list(clone(estimator).fit_levels(levels, X, y, groups))


def distinct_levels(levels: Sequence[Level | float | str | None]) -> tuple[LevelOrMean, ...]:
    """A list of levels that do not repeat; None is ERM."""
    found = tuple(None if level is None else Level.of(level) for level in levels)
    if not found or len(set(found)) < len(found):
        raise SettingError(f"alpha must be different levels, such as [0.5, 0.9], got {levels!r}.")
    return found


def level_name(level: LevelOrMean) -> str:
    """What tables call it."""
    if level is None:
        return "ERM"
    return "worst" if level == Level(1.0) else f"alpha = {level}"


@dataclass(frozen=True, eq=False)
class LevelChoice(RisksByLevel):
    """What :func:`choose_level` found. Printing it gives a table and a sentence.

    All numbers are cross-fitted: each domain's risk is measured by models that have not seen it.
    """

    risk: float
    probability: float
    confidence: float | None

    @cached_property
    def risks_at_share(self) -> Array:
        """The quantile of risk of each level at the required probability (L,)."""
        return self.quantile(self.probability)

    @cached_property
    def shares(self) -> Array:
        """The share of domains within the required risk, for each level (L,)."""
        return np.asarray((self.risks <= self.risk).mean(axis=1))

    @cached_property
    def bounds(self) -> Array | None:
        """Lower bounds (L,) on that share among new domains, where a confidence was asked for."""
        if self.confidence is None:
            return None
        together = 1.0 - (1.0 - self.confidence) / len(self.levels)
        return np.array([probability_bound(r, self.risk, together).bound for r in self.risks])

    @property
    def met(self) -> bool:
        """Whether any level meets the requirement."""
        return bool(self._meets.any())

    @property
    def level(self) -> LevelOrMean:
        """The level that meets the requirement with the lowest mean risk; None is ERM, or none."""
        if not self.met:
            return None
        return self.levels[int(np.argmin(np.where(self._meets, self.means, np.inf)))]

    @property
    def sentence(self) -> str:
        """The answer as a sentence."""
        share = as_percent(self.probability)
        wanted = f"a risk of at most {self.risk:.6g} on {share} of new domains"
        if self.confidence is not None:
            wanted += f" with {as_percent(self.confidence)} confidence"
        if self.met:
            best = self.levels.index(self.level)
            return (
                f"{level_name(self.level)} meets the requirement of {wanted}: "
                f"{self._within(best)}, and of all levels that meet it this one has the lowest "
                f"mean risk, {self.means[best]:.4g}."
            )
        best = int(np.lexsort((self.means, self.risks_at_share, -self._reached))[0])
        return (
            f"No level meets the requirement of {wanted}. The closest is "
            f"{level_name(self.levels[best])}: {self._within(best)}, and {share} have at most "
            f"{self.risks_at_share[best]:.4g}."
        )

    @property
    def _reached(self) -> Array:
        return self.shares if self.bounds is None else self.bounds

    @property
    def _meets(self) -> NDArray[np.bool_]:
        return self._reached >= self.probability - 1e-12

    def _within(self, i: int) -> str:
        bound = ""
        if self.bounds is not None:
            bound = f", and at least {percent_rounded_down(self.bounds[i])} of new ones are"
        return (
            f"of {self.risks.shape[1]} domains, each evaluated by models that had not seen it, "
            f"{percent_rounded_down(self.shares[i])} are within it{bound}"
        )

    def __str__(self) -> str:
        columns = {
            "mean risk": [f"{value:.4f}" for value in self.means],
            f"q({self.probability:g})": [f"{value:.4f}" for value in self.risks_at_share],
            "within": [f"{100.0 * value:.1f}%" for value in self.shares],
        }
        if self.bounds is not None:
            columns["at least"] = [percent_rounded_down(value) for value in self.bounds]
        table = self.table(list(columns), list(zip(*columns.values(), strict=True)))
        return f"{table}\n\n{self.sentence}"


def choose_level(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    *,
    risk: float,
    alpha: Level | float | str = 0.9,
    confidence: float | None = None,
    candidates: Sequence[Level | float | str | None] = LEVELS,
    cv: Any = None,
) -> LevelChoice:
    """The level that meets a requirement on new domains with the lowest mean risk, if any does.

    The requirement: a risk of at most ``risk`` on a share ``alpha`` of new domains. Every
    level in ``candidates`` (None is ERM) is fitted to some of the domains and evaluated on the
    others, by ``cv``: a splitter, a number of folds, or None for :class:`DomainKFold` in 5 folds.
    With a ``confidence``, reaching the share on these domains is not enough: a Clopper–Pearson
    bound on the share of new ones must reach it, with a confidence that covers all levels together.
    The models of different folds differ a little, so this is a bound for their kind, not for one of
    them: for a guarantee of the final predictor, use its ``certificate`` on domains that were not
    used at all.
    """
    limit, share = number().check(risk, "risk"), checked_alpha(alpha)
    asked = optional(CONFIDENCE).check(confidence, "confidence")
    by_level = cross_fitted(estimator, distinct_levels(candidates), X, y, groups, cv)
    return LevelChoice(**vars(by_level), risk=limit, probability=share, confidence=asked)


@dataclass(frozen=True, eq=False)
class RiskFrontier:
    """A fitted predictor per level, with its risks on training and on held-out domains.

    See :class:`RiskRobustnessPath`.
    """

    estimators: tuple[Any, ...]
    training: RisksByLevel
    held_out: RisksByLevel | None

    @property
    def levels(self) -> tuple[LevelOrMean, ...]:
        """The level of each estimator; None is ERM."""
        return self.training.levels

    def trained_for(self, alpha: Level | float | str | None) -> Any:
        """The predictor of one level of the grid; None is ERM."""
        level = None if alpha is None else Level.of(alpha)
        if level not in self.levels:
            known = ", ".join(level_name(each) for each in self.levels)
            raise SettingError(f"{level_name(level)} is not among the levels fitted: {known}.")
        return self.estimators[self.levels.index(level)]

    def __str__(self) -> str:
        parts = [("training domains", self.training)]
        if self.held_out is not None:
            parts.append(("held-out domains", self.held_out))
        return "\n\n".join(self._table(title, part) for title, part in parts)

    def _table(self, title: str, part: RisksByLevel) -> str:
        numbers = np.column_stack([part.means, part.quantiles])
        best = numbers.argmin(axis=0)
        cells = [
            [f"{v:.4f}{'*' if best[j] == i else ' '}" for j, v in enumerate(row)]
            for i, row in enumerate(numbers)
        ]
        header = ["mean", *(f"q({level})" for level in part.columns)]
        table = part.table(header, cells)
        return f"risk on {len(part.domains)} {title} (* = best)\n{table}"


@dataclass(eq=False, repr=False)
class RiskRobustnessPath(BaseEstimator):  # type: ignore[misc]
    """Fits a grid of levels, each from its neighbour's solution: the risk-robustness frontier.

    Args:
        estimator: what is fitted at each level, :class:`eqrm.QRMClassifier` unless given; its own
            alpha is not used. A pipeline's last step has the level, and the steps before it are
            fitted once. Its measure is what is minimised at each level.
        alpha: the levels to fit; None among them is ERM. The measures ``"worst"`` and ``"mean"``
            have none: the path is then ERM and the smallest worst risk, or ERM alone.

    After ``fit``, ``frontier_`` has ``levels``, ``estimators``, and their risks on ``training`` and
    ``held_out`` domains (``risks`` (L, m), ``means`` (L,), ``quantiles`` (L, K)). Printing it gives
    a table, and ``frontier_.trained_for(0.9)`` one of the predictors.
    """

    estimator: Any = None
    alpha: Sequence[Level | float | str | None] = LEVELS

    def fit(self: Self, X: Any, y: Any, groups: Any, held_out: Any = None) -> Self:
        """Fit every level to X, y and groups, and evaluate it on ``held_out`` = (X, y, groups) too.

        Raises if held-out domains are also among the training domains.
        """
        base = QRMClassifier() if self.estimator is None else clone(self.estimator)
        last = base[-1] if isinstance(base, Pipeline) else base
        measure = getattr(last, "measure", "quantile")
        levels = distinct_levels(self.alpha)
        if measure in WITHOUT_LEVEL:
            levels = (None,) if measure == "mean" else (None, Level(1.0))
        names = as_groups(groups, _num_samples(X)).names
        if held_out is not None:
            refuse_seen(as_groups(held_out[2], len(held_out[1])).names, names)
        models = fit_levels(base, levels, X, y, groups)
        self.frontier_ = RiskFrontier(
            tuple(models),
            measured(models, levels, (X, y, groups)),
            None if held_out is None else measured(models, levels, held_out),
        )
        return self
