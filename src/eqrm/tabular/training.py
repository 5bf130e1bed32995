"""From a table to models for several levels, evaluated on domains that none of them has seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from eqrm.data.splits import TimeSplit
from eqrm.data.tables.table import Table
from eqrm.data.tables.task import Task
from eqrm.errors import DomainDataError, EqrmWarning
from eqrm.estimators.groups import Groups, as_groups
from eqrm.estimators.network import STEPS_TOLD
from eqrm.estimators.selection.surrogate_choice import SurrogateChoice, choose
from eqrm.estimators.selection.surrogates import ERM as REFERENCE
from eqrm.estimators.selection.surrogates import FEWEST_DOMAINS as FEWEST_TO_CHOOSE
from eqrm.estimators.selection.surrogates import (
    FOLDS,
    CrossFitted,
    Surrogate,
    cross_fit,
    fitted,
    trained_candidates,
)
from eqrm.evaluation.evaluate import evaluate
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.inference.nested.findings import INDEPENDENT
from eqrm.evaluation.measuring.constants import LabelStatistics, cross_fitted_constants
from eqrm.evaluation.measuring.metrics import metric_of
from eqrm.evaluation.measuring.skill import Skill, skill_of_classes, skill_of_numbers
from eqrm.level import Level
from eqrm.linear.scored_rows import probabilities_of
from eqrm.linear.solving.search import SOLVES_TOLD
from eqrm.tabular.model import TableModel, new_estimator
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import EncodedPart, PreparedTraining, prepare
from eqrm.tabular.references import (
    ERM,
    Array,
    constant_scores,
    recalibrated_copy,
    recalibrated_name,
    trained_name,
    weighted_losses,
)
from eqrm.tabular.steps import INSIDE

CROSS_FITTING = "cross-fitting over training domains"
FEWEST_MODELS = 2
"""ERM and one level: what can be compared, and so kept when training is interrupted."""
ZERO = "scores scaled by 0 have the lowest quantile on training domains left out."


@dataclass(frozen=True, eq=False)
class TableTraining:
    """The result: a model per predictor, and their evaluation on held-out domains.

    ``evaluation`` and ``skills`` also hold the constants, which are ``references`` without a
    model. ``choices`` says for each level how the candidates did on training domains left out,
    where there were enough of these. ``in_time`` is how the domains were split, where the held-out
    ones are later.
    """

    models: Mapping[str, TableModel]
    evaluation: Evaluation
    levels: tuple[Level, ...]
    notes: tuple[str, ...]
    train_rows: int
    train_domains: int
    in_time: TimeSplit | None = None
    measure: str = "quantile"
    constants: Mapping[str, Array] = field(default_factory=dict)
    """The risks of training domains by the constants of the other domains."""
    skills: Mapping[str, Skill] = field(default_factory=dict)
    choices: Mapping[Level, SurrogateChoice] = field(default_factory=dict)


def train_on_table(
    train: Table,
    test: Table,
    plan: TrainingPlan,
    progress: Callable[[str], None] = lambda what: None,
    in_time: TimeSplit | None = None,
) -> TableTraining:
    """Train ERM and every level on ``train``, and evaluate all of them on ``test``.

    The two tables must share no domain. ``progress`` is called with the name of each step. Ctrl-C
    while a level is trained keeps the models that are ready, and evaluates those. ``in_time`` is
    the result of :meth:`Table.in_time`, where that made the two tables: the summary then states
    the periods.

    >>> rng = np.random.default_rng(0)
    >>> days, x = np.repeat(np.arange(40), 25).astype(str), rng.normal(size=1000)
    >>> late = (x + rng.normal(size=40).repeat(25) + rng.normal(size=1000) > 0).astype(float)
    >>> both = Table({"x": x}, late, days)
    >>> found = train_on_table(*both.split(0.5), TrainingPlan.of([0.9]))
    >>> list(found.models), found.train_domains, len(found.evaluation.domains)
    (['ERM', 'ERM recalibrated for 0.9', 'α = 0.9'], 20, 20)
    """
    progress("encoding the table")
    return train_prepared(prepare(train, test, plan, in_time), plan, progress)


def train_prepared(
    prepared: PreparedTraining,
    plan: TrainingPlan,
    progress: Callable[[str], None] = lambda what: None,
) -> TableTraining:
    """The same of tables that are encoded already."""
    train, test, task = prepared.train, prepared.test, prepared.task
    nesting = test.table.key if test.table.unit == "group" else None
    notes = [*prepared.notes, *([] if nesting is None else [INDEPENDENT])]
    job = _Job(plan, task, train, notes, progress)
    models = {
        name: TableModel(estimator, prepared.preprocessor, level, prepared.seen)
        for name, level, estimator in job.fitted()
    }
    progress("evaluating on held-out domains")
    constants = constant_scores(task, train.labels, train.weights)
    rows, domains = len(test.labels), test.table.numbered_domains
    with config_context(assume_finite=True):  # the encoder has refused what is not
        scores = {n: each.estimator._checked_scores(test.matrix) for n, each in models.items()}
        any_model = next(iter(models.values())).estimator
        repeated = {k: np.repeat(v, rows, axis=0) for k, v in constants.items()}
        # From the scores: a probability that is rounded to 0 would make a loss infinite.
        losses = {k: any_model._losses_of(v, test.labels) for k, v in (scores | repeated).items()}
    if test.weights is not None:
        losses = {k: weighted_losses(v, test.weights, domains) for k, v in losses.items()}
    judged, in_time = evaluate(domains=domains, losses=losses), prepared.in_time
    return TableTraining(
        models,
        replace(judged, loss=task.metric, order=_order_of(judged, in_time), nesting=nesting),
        tuple(dict.fromkeys(m.level for m in models.values() if m.level is not None)),
        tuple(dict.fromkeys(notes)),
        len(train.labels),
        len(train.table.domain_names),
        in_time,
        plan.measure,
        job.constants_left_out,
        {k: _skill(v, test.labels, bool(task.classes)) for k, v in (scores | repeated).items()},
        job.choices,
    )


def _skill(scores: Array, target: NDArray[Any], classes: bool) -> Skill:
    if not classes:
        return skill_of_numbers(target, scores)
    return skill_of_classes(target, probabilities_of(scores))


@dataclass(frozen=True, eq=False)
class _Job:
    """The fits of a training, one after the other."""

    plan: TrainingPlan
    task: Task
    rows: EncodedPart
    notes: list[str]
    progress: Callable[[str], None]
    choices: dict[Level, SurrogateChoice] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Groups:
        """The domains of all rows."""
        return as_groups(self.rows.table.numbered_domains, len(self.rows.labels))

    @property
    def constants_left_out(self) -> dict[str, Array]:
        """The risk of each training domain by constants of the others, as models are measured."""
        labels, names = self.rows.labels.astype(np.float64), tuple(self.groups.names)
        classes, weights = len(self.task.classes), self.rows.weights
        counted = LabelStatistics.of_rows(names, self.groups.ids, labels, classes, weights)
        found = cross_fitted_constants(counted, metric_of(self.task.metric), several=classes > 2)
        return {name: constant.risks.risks for name, constant in found.items()}

    def fitted(self) -> Iterator[tuple[str, Level | None, Any]]:
        """ERM; then for each level ERM recalibrated for it, and the predictor trained for it."""
        plan, batches = self.plan, self.plan.batches(len(self.rows.labels), len(self.groups))
        settings = {**batches, **(plan.settings or {})}
        template = new_estimator(plan.model, self.task, None, plan.seed, settings, plan.measure)
        if batches:
            self.notes.append(
                "The networks are trained on mini-batches ({domains_per_batch} domains × "
                "{examples_per_domain} rows). All rows are used in each step with --set "
                "domains_per_batch=null.".format(**batches)
            )
        ways = {level: self._ways(level, template) for level in plan.levels}
        scored = self._cross_fitted(template, (REFERENCE, *chain(*ways.values())))
        self.progress("training ERM")
        with self._noting(ERM):
            erm = self._fit(template, REFERENCE)
        yield ERM, None, erm
        ready = 1
        for level in plan.levels:
            name, way = trained_name(level), Surrogate(plan.measure, level)
            try:
                self.progress(f"training {name}")
                with self._noting(name):
                    recalibrated = None
                    if scored is not None:
                        choice = choose(scored, level, ways[level])
                        way = choice.trained
                        correction = scored.correction(choice.recalibrated, level)
                        recalibrated = recalibrated_copy(erm, correction)
                        if correction.scale == 0.0:
                            self.notes.append(f"{recalibrated_name(level)!r} is a constant: {ZERO}")
                        self.choices[level] = choice
                    trained = self._fit(template, way)
            except KeyboardInterrupt:
                if ready < FEWEST_MODELS:
                    raise
                self.notes.append(f"Interrupted: {name} and the levels after it were not trained.")
                self.choices.pop(level, None)
                return
            if recalibrated is not None:
                yield recalibrated_name(level), level, recalibrated
            yield name, level, trained
            ready += 1

    def _ways(self, level: Level, template: Any) -> tuple[Surrogate, ...]:
        """What may be minimised for a level: its own measure, or one of several."""
        if self.plan.surrogate == "auto" and self.plan.measure == "quantile":
            return trained_candidates(level, template._takes_long)
        return (Surrogate(self.plan.measure, level),)

    def _cross_fitted(self, template: Any, fits: Sequence[Surrogate]) -> CrossFitted | None:
        """Scores of all training domains by predictors that have not seen them, if enough."""
        if self.plan.measure != "quantile" or not self.plan.levels:
            return None  # references and verdicts are about quantiles
        unit, ids = self.rows.table.unit, self.rows.table.unit_ids
        if len(np.unique(ids)) < FEWEST_TO_CHOOSE:
            self.notes.append(
                f"With fewer than {FEWEST_TO_CHOOSE} training {unit}s, nothing is recalibrated and "
                "no surrogate is chosen by cross-fitting: each level minimises its own quantile."
            )
            return None
        self.progress(CROSS_FITTING)
        several = tuple(dict.fromkeys(fits))
        folds = min(FOLDS, len(np.unique(ids)))
        try:
            with self._noting("cross-fitting"), self._counting_fits(folds * (len(several) - 1)):
                return cross_fit(
                    template,
                    several,
                    self.rows.matrix,
                    self.rows.labels,
                    self.groups,
                    self.rows.weights,
                    apart=ids,
                )
        except DomainDataError as error:  # a class that most training domains do not have
            told = str(error).partition(" to choose")[0]
            self.notes.append(
                f"{told} for cross-fitting: nothing is recalibrated, and each level minimises its "
                "own quantile."
            )
            return None

    def _fit(self, template: Any, surrogate: Surrogate) -> Any:
        rows = self.rows
        domains = rows.table.numbered_domains
        return fitted(template, [surrogate], rows.matrix, rows.labels, domains, rows.weights)[0]

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Turn our warnings into notes; others are passed on. Steps of networks are told."""
        told = STEPS_TOLD.set(partial(self._tell_steps, name))
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", EqrmWarning)
                yield
        finally:
            STEPS_TOLD.reset(told)
        for warning in caught:
            if issubclass(warning.category, EqrmWarning):
                self.notes.append(f"{name}: {warning.message}")
            else:
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )

    @contextmanager
    def _counting_fits(self, total: int) -> Iterator[None]:
        """Tell how many exact linear fits are done, besides those of ERM."""
        done = count(1)

        def tell() -> None:
            self.progress(f"{INSIDE}{CROSS_FITTING}: {next(done):,} of {total:,} fits done")

        told = SOLVES_TOLD.set(tell)
        try:
            yield
        finally:
            SOLVES_TOLD.reset(told)

    def _tell_steps(self, name: str, done: int, total: int) -> None:
        self.progress(f"{INSIDE}training {name}: step {done:,} of {total:,}")


def _order_of(judged: Evaluation, in_time: TimeSplit | None) -> DomainOrder | None:
    """When the held-out domains began, where they are later ones."""
    if in_time is None:
        return None
    began = dict(zip(in_time.test, in_time.test_times, strict=True))
    return DomainOrder(np.array([began[str(name)] for name in judged.domains]), in_time.order)
