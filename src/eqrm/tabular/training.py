"""From a table to one model for the next domain: candidates are cross-fitted, one is chosen.

Every candidate is fitted to most of the domains and judged on the others, in turns, so that every
domain has a risk under models that have not seen it (in time: under models of earlier domains). One
rule decides (:mod:`eqrm.tabular.choosing.contest`), and the chosen model and plain training are
fitted again, to all domains. Domains that are kept aside have no part in this but in the last fit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import config_context

from eqrm.estimators.selection.surrogates import Surrogate, fitted
from eqrm.evaluation.controlling.operating_point import Asked, OperatingPoint
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.measuring.measured import Skill
from eqrm.level import Level
from eqrm.tabular.choosing.candidates import Candidate
from eqrm.tabular.choosing.contest import Contest, decide
from eqrm.tabular.choosing.cross_fitting import Comparison
from eqrm.tabular.choosing.decision import Decision
from eqrm.tabular.choosing.leaks import leaks_of
from eqrm.tabular.model import TableModel
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import EncodedPart, PreparedTraining, prepare
from eqrm.tabular.references import measured_rows, point_for, required_of, rows_of
from eqrm.tabular.steps import Inside


@dataclass(frozen=True, eq=False)
class TableTraining:
    """The models to use, the decisions, and what they rest on.

    ``models`` are fitted to all domains: the chosen ones and plain training. ``evaluation`` holds
    the cross-fitted risks of the candidates that are shown, and of constants; ``contests`` all
    candidates, by level. ``aside`` are the risks on domains that were kept aside of the chosen
    models and plain training, fitted without them; ``refitted`` says whether the models that are
    handed over were then fitted to these domains too.
    """

    models: Mapping[str, TableModel]
    evaluation: Evaluation
    decisions: tuple[Decision, ...]
    contests: Mapping[Level, Contest]
    constants: tuple[str, ...]
    skills: Mapping[str, Skill]
    notes: tuple[str, ...]
    rows: int
    domains: int
    chosen_on: int | None
    """How many rows candidates were fitted to while choosing; None: all that were not aside."""
    in_time: bool = False
    aside: Evaluation | None = None
    refitted: bool = False
    leaks: tuple[str, ...] = ()
    """Those of the notes that say why all numbers may be too good."""
    point: OperatingPoint | str | None = None
    """How the headline decision's model meets the requirement: on domains kept aside, if any."""

    @property
    def decision(self) -> Decision:
        """The one on the headline level, the closest to 0.9."""
        return min(self.decisions, key=lambda each: abs(each.alpha.alpha - 0.9))


def train_prepared(
    prepared: PreparedTraining,
    plan: TrainingPlan,
    progress: Callable[[str], None] = lambda what: None,
    confidence: float = 0.95,
) -> TableTraining:
    """Compare candidates, decide, and fit what was decided on to all domains."""
    # Refused before anything is fitted.
    required = None if plan.require is None else required_of(plan.require, prepared.task)
    notes = [*prepared.notes]
    compared, leaks = Comparison(plan, prepared, notes, progress), leaks_of(prepared)
    compared.fit()
    whole = prepared
    if prepared.everything is not None:
        whole = prepare(prepared.everything, None, plan)
    contests = {level: compared.contest(level) for level in plan.alpha or (Level(0.9),)}
    called = prepared.preprocessor.domain_name
    decided = {level: decide(each, confidence, called) for level, each in contests.items()}
    shown = {
        contests[level].candidates[place].name: contests[level].candidates[place]
        for level, (_, places) in decided.items()
        for place in places
    }
    decisions = tuple(decision for decision, _ in decided.values())
    headline = min(decisions, key=lambda each: abs(each.alpha.alpha - 0.9))
    wanted = {name for d in decisions for name in (d.plain, d.chosen)}
    progress("judging them")
    scores = {name: compared.scores_of(each) for name, each in shown.items()}
    evaluation, constants, skills = compared.judged(scores)
    refit = {n: c for n, c in shown.items() if n in wanted or plan.refit == "all"}
    aside, models = None, {}
    if prepared.test is not None:
        progress("fitting the models for the domains kept aside")
        models = dict(fitted_models(compared, refit, prepared))
        aside = _kept_aside(models, prepared, prepared.test)
    point = None
    if required is not None:
        name, asked = headline.chosen, Asked(headline.alpha.alpha, confidence)
        model, judged = rows_of(scores[name], compared.judged_rows, prepared.task), evaluation
        if prepared.test is not None and aside is not None:
            own = models[name].estimator._checked_scores(prepared.test.matrix)
            model = rows_of(own, prepared.test, prepared.task)
            # The model that is handed over may be fitted to these domains too.
            judged = replace(aside, cross_fitted=prepared.everything is not None)
        point = point_for(name, model, judged, asked, required)
    if prepared.test is None or prepared.everything is not None:
        progress("fitting the models to all domains")
        models = dict(fitted_models(compared, refit, whole))
    return TableTraining(
        models,
        evaluation,
        decisions,
        contests if plan.alpha else {},
        constants,
        skills,
        tuple(dict.fromkeys([*leaks, *notes])),
        len(whole.train.labels),
        len(whole.train.table.domain_names),
        None if compared.drawn is None else int(compared.drawn.sum()),
        plan.in_time,
        aside,
        prepared.everything is not None,
        tuple(leaks),
        point,
    )


def _kept_aside(
    models: Mapping[str, TableModel], prepared: PreparedTraining, rows: EncodedPart
) -> Evaluation:
    with config_context(assume_finite=True):
        scores = {n: each.estimator._checked_scores(rows.matrix) for n, each in models.items()}
    risks = measured_rows(scores, rows, prepared.task)
    split, nesting = prepared.in_time, rows.table.key if rows.table.unit == "group" else None
    judged = Evaluation(risks, prepared.metric, None, nesting=nesting)
    if split is not None:
        began = dict(zip(split.test, split.test_times, strict=True))
        times = np.array([began[str(name)] for name in judged.domains])
        judged = replace(judged, order=DomainOrder(times, split.order))
    return judged


def fitted_models(
    compared: Comparison, candidates: Mapping[str, Candidate], to: PreparedTraining
) -> Iterator[tuple[str, TableModel]]:
    """Candidates by name, fitted to all rows of a table."""
    rows, done = to.train, dict[tuple[str, Surrogate], Any]()
    for name, each in candidates.items():
        family = next(f for f in compared.families if f.name == each.family)
        way = Surrogate(each.way.measure, each.way.level)
        if (each.family, way) not in done:
            compared.progress(Inside(f"fitting {name}"))
            with compared.noting(name):
                done[each.family, way] = fitted(
                    family.template,
                    [way],
                    rows.matrix,
                    rows.labels,
                    rows.table.numbered_domains,
                    rows.weights,
                )[0]
        model = done[each.family, way]
        if each.way.correction is not None and each.level is not None:
            model = copy.copy(model)
            model._correct(compared.crossed[each.family].correction(each.way, each.level))
        yield name, TableModel(model, to.preprocessor, each.level, to.seen)
