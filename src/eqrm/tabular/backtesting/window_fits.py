"""The predictors of a window of a backtest: ERM, ERM recalibrated for levels, trained ones."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from sklearn import config_context

from eqrm.data.tables.table import Table
from eqrm.errors import EqrmWarning
from eqrm.estimators.groups import as_groups
from eqrm.estimators.selection.surrogate_choice import choose
from eqrm.estimators.selection.surrogates import ERM as REFERENCE
from eqrm.estimators.selection.surrogates import (
    FEWEST_DOMAINS,
    Surrogate,
    cross_fit,
    fitted,
    trained_candidates,
)
from eqrm.level import Level
from eqrm.risks import MeasuredRisks
from eqrm.tabular.model import new_estimator
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import EncodedPart, PreparedTraining, prepare
from eqrm.tabular.references import constant_scores, measured_rows

ERM = "ERM"


def trained_name(level: Level) -> str:
    """What the predictor trained for a level is called.

    >>> trained_name(Level(0.9)), trained_name(Level(1.0))
    ('α = 0.9', 'worst')
    """
    return "worst" if level == Level(1.0) else f"α = {level}"


@dataclass(frozen=True, eq=False)
class WindowFits:
    """The risks of predictors on domains that none of them has seen, and what was noted."""

    predictors: dict[str, MeasuredRisks]
    notes: list[str] = field(default_factory=list)


def fit_window(train: Table, test: Table, plan: TrainingPlan) -> WindowFits:
    """Train ERM and every level on ``train``, and measure them and constants on ``test``.

    >>> rng = np.random.default_rng(0)
    >>> days, x = np.repeat(np.arange(40), 25).astype(str), rng.normal(size=1000)
    >>> late = (x + rng.normal(size=40).repeat(25) + rng.normal(size=1000) > 0).astype(float)
    >>> both = Table({"x": x}, late, days)
    >>> found = fit_window(*both.split(0.5), TrainingPlan.of([0.9], model="linear"))
    >>> list(found.predictors)
    ['ERM', 'ERM recalibrated for 0.9', 'α = 0.9', 'base rate', '50/50 guess']
    """
    prepared = prepare(train, test, plan)
    notes, judged = list(prepared.notes), _judged(prepared)
    models = dict(_models(prepared, plan, notes))
    constants = constant_scores(prepared.task, prepared.train.labels, prepared.train.weights)
    with config_context(assume_finite=True):  # the encoder has refused what is not
        scores = {n: each._checked_scores(judged.matrix) for n, each in models.items()}
    scores |= {n: np.repeat(each, len(judged.labels), axis=0) for n, each in constants.items()}
    return WindowFits(measured_rows(scores, judged, prepared.task), list(dict.fromkeys(notes)))


def _judged(prepared: PreparedTraining) -> EncodedPart:
    if prepared.test is None:
        raise TypeError("a window has domains to judge")
    return prepared.test


def _models(
    prepared: PreparedTraining, plan: TrainingPlan, notes: list[str]
) -> Iterator[tuple[str, Any]]:
    rows = prepared.train
    groups = as_groups(rows.table.numbered_domains, len(rows.labels))
    batches = plan.batches(len(rows.labels), len(groups))
    settings = {**batches, **(plan.settings or {})}
    template = new_estimator(plan.model, prepared.task, None, plan.seed, settings, plan.measure)
    auto = plan.surrogate == "auto" and plan.measure == "quantile"
    ways = {
        level: trained_candidates(level, template._takes_long)
        if auto
        else (Surrogate(plan.measure, level),)
        for level in plan.levels
    }
    own = (rows.matrix, rows.labels)
    with _noting(notes):
        erm = fitted(template, [REFERENCE], *own, rows.table.numbered_domains, rows.weights)[0]
        yield ERM, erm
        scored = None
        if plan.measure == "quantile" and len(groups) >= FEWEST_DOMAINS:
            several = tuple(dict.fromkeys([REFERENCE, *chain(*ways.values())]))
            scored = cross_fit(
                template, several, *own, groups, rows.weights, apart=rows.table.unit_ids
            )
        for level in plan.levels:
            way = Surrogate(plan.measure, level)
            if scored is not None:
                choice = choose(scored, level, ways[level])
                way = choice.trained
                corrected = copy.copy(erm)
                corrected._correct(scored.correction(choice.recalibrated, level))
                yield f"ERM recalibrated for {level}", corrected
            trained = fitted(template, [way], *own, rows.table.numbered_domains, rows.weights)
            yield trained_name(level), trained[0]


@contextmanager
def _noting(notes: list[str]) -> Iterator[None]:
    """Turn our warnings into notes; others are passed on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqrmWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, EqrmWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
