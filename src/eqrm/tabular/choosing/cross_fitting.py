"""Candidates judged on domains that they have not seen: folds of domains, or windows in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.times import domain_spans
from eqrm.domains import places_among
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.estimators.boosting.rounds import tree_settings
from eqrm.estimators.groups import Groups, as_groups
from eqrm.estimators.network import STEPS_TOLD
from eqrm.estimators.selection.splitters import DomainTimeSplit, Split
from eqrm.estimators.selection.surrogates import (
    ERM,
    CrossFitted,
    Surrogate,
    cross_fit,
    whole_domain_folds,
)
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.inference.nested.findings import INDEPENDENT
from eqrm.evaluation.measuring.measured import (
    LabelStatistics,
    Skill,
    skill_of_classes,
    skill_of_numbers,
)
from eqrm.evaluation.measuring.metrics import metric_of
from eqrm.evaluation.references import cross_fitted_constants
from eqrm.level import Level
from eqrm.linear.scored_rows import probabilities_of
from eqrm.linear.solving.search import SOLVES_TOLD
from eqrm.tabular.choosing.candidates import Candidate, Family, families
from eqrm.tabular.choosing.contest import Contest
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import EncodedPart, PreparedTraining, warnings_noted
from eqrm.tabular.references import Array, kept_of, measured_rows, required_of
from eqrm.tabular.steps import Inside
from eqrm.text import listed

FOLDS, FEW_FOLDS, WINDOWS = 8, 5, 7
"""Folds of small tables and of large ones; parts of time, of which the first two are not judged."""
SMALL = 20_000
"""Rows of a table whose candidates are judged in more folds."""
FEWEST_DOMAINS = 10
"""With fewer domains nothing is trained for a level: there is too little to choose by."""
ROWS_TO_CHOOSE, MOST_OF_A_DOMAIN, LEAST_OF_A_DOMAIN = 100_000, 20_000, 100
"""Candidates are fitted to about so many rows, and to so many of a domain at most and at least."""
ROWS_TO_RANK = 50_000
"""AUC and spread of every candidate are taken from so many rows."""
CHOOSING = "comparing models on domains that they have not seen"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Candidates fitted to most of the domains and judged on the others, in turns."""

    plan: TrainingPlan
    prepared: PreparedTraining
    notes: list[str]
    progress: Callable[[str], None]
    crossed: dict[str, CrossFitted] = field(default_factory=dict)
    """The scores of all rows by family, by models that have not seen their domain."""
    _scores: dict[Candidate, Array] = field(default_factory=dict)

    @property
    def rows(self) -> EncodedPart:
        """Those that candidates are compared on."""
        return self.prepared.train

    @cached_property
    def groups(self) -> Groups:
        """The domains of all rows."""
        return as_groups(self.rows.table.numbered_domains, len(self.rows.labels))

    @cached_property
    def families(self) -> list[Family]:
        """The kinds of models that compete."""
        batches = self.plan.batches(len(self.rows.labels), len(self.groups))
        if batches:
            self.notes.append(
                f"The networks are trained on mini-batches ({batches['domains_per_batch']} domains "
                f"× {batches['examples_per_domain']} rows). All rows are used in each step with "
                f"{Setting('settings', {'domains_per_batch': None})}."
            )
        settings = {**batches, **(self.plan.settings or {})}
        table = self.rows.table
        trees = partial(tree_settings, rows=len(table), categories=bool(table.categories))
        return families(self.plan, self.prepared.task, settings, trees)

    @cached_property
    def splits(self) -> list[Split]:
        """The rows to fit to and to judge on of each fold."""
        if self.plan.in_time:
            return self._windows()
        small = len(self.rows.labels) <= SMALL and self.plan.model != "mlp"
        return whole_domain_folds(self.rows.table.unit_ids, FOLDS if small else FEW_FOLDS)

    def _windows(self) -> list[Split]:
        """Consecutive windows of time, each predicted by models of the windows before it.

        There are fewer windows where domains overlap in time.
        """
        table, ids = self.rows.table, self.groups.ids
        for parts in range(min(WINDOWS, len(self.groups)) - 1, 1, -1):
            with suppress(SettingError):
                splitter = DomainTimeSplit(parts)
                found = list(splitter.split(ids, None, table.domains, table.order))
                if len(np.unique(ids[np.concatenate([test for _, test in found[1:]])])) > 1:
                    return found
        raise DomainDataError(
            f"{len(self.groups)} domains are too few, or overlap too much in time, to be judged by "
            "earlier ones: at least 4 that follow each other are needed. Without "
            f"{Setting('order')}, each domain is judged by all others."
        )

    @cached_property
    def drawn(self) -> NDArray[np.bool_] | None:
        """The rows that candidates are fitted to while choosing; None for all of them."""
        ids, sizes = self.groups.ids, self.groups.counts
        each = max(ROWS_TO_CHOOSE // len(sizes), LEAST_OF_A_DOMAIN)
        most = min(each, MOST_OF_A_DOMAIN)
        if len(ids) <= ROWS_TO_CHOOSE or sizes.max() <= most:
            return None
        mixed = np.random.default_rng(self.plan.seed).permutation(len(ids))
        weights = self.rows.weights
        last = np.zeros(len(ids)) if weights is None else (weights[mixed] <= 0.0)
        order = mixed[np.lexsort((last, ids[mixed]))]  # rows without a weight at the end
        place = np.arange(len(ids)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found = np.zeros(len(ids), dtype=bool)
        found[order[place < most]] = True
        return found

    def candidates(self, level: Level) -> list[tuple[Family, Candidate]]:
        """All that compete for a level; with too few domains, plain training alone."""
        few = len(np.unique(self.rows.table.unit_ids)) < FEWEST_DOMAINS
        if few:
            self.notes.append(
                f"With fewer than {FEWEST_DOMAINS} {self.rows.table.unit}s, nothing is trained for "
                "a level: there is too little to choose by."
            )
        if few or not self.plan.alpha:
            return [(each, Candidate(each.name, ERM)) for each in self.families]
        return [(f, c) for f in self.families for c in f.candidates(self.plan, level)]

    def fit(self) -> None:
        """Fit all candidates, family by family, and score the rows that they have not seen."""
        self.progress(CHOOSING)
        self._refuse_rare_classes()
        rows, levels = self.rows, self.plan.alpha or (Level(0.9),)
        for family in self.families:
            own = [c for level in levels for f, c in self.candidates(level) if f is family]
            fits = tuple(dict.fromkeys(Surrogate(c.way.measure, c.way.level) for c in own))
            with self.noting(family.name, len(self.splits) * max(1, len(fits) - 1)):
                self.crossed[family.name] = cross_fit(
                    family.template,
                    fits,
                    rows.matrix,
                    rows.labels,
                    self.groups,
                    rows.weights,
                    splits=self.splits,
                    in_time=self.plan.in_time,
                    drawn=self.drawn,
                )

    def _refuse_rare_classes(self) -> None:
        """Raise for a class that the models of some fold cannot know."""
        classes, drawn = self.prepared.task.classes, self.drawn
        for train, _ in self.splits if classes else ():
            kept = train if drawn is None else train[drawn[train]]
            rare = np.bincount(self.rows.labels[kept], minlength=len(classes)) == 0
            if rare.any():
                raise DomainDataError(
                    f"The class {listed([classes[place] for place in np.flatnonzero(rare)])} "
                    "occurs in too few domains: models of the other domains cannot know it. Join "
                    "it with another class, or leave its rows out."
                )

    @cached_property
    def judged_rows(self) -> EncodedPart:
        """The rows of the domains that candidates are judged on; in time not the first ones."""
        judged = next(iter(self.crossed.values())).judged
        if judged.all():
            return self.rows
        weights = None if self.rows.weights is None else self.rows.weights[judged]
        table, labels = self.rows.table.rows(judged), self.rows.labels[judged]
        return EncodedPart(table, self.rows.matrix[judged], labels, weights)

    def scores_of(self, candidate: Candidate) -> Array:
        """The scores of judged rows."""
        if candidate not in self._scores:
            crossed = self.crossed[candidate.family]
            scores = crossed.scores_of(candidate.way, candidate.level or Level(0.9))
            self._scores[candidate] = scores if crossed.judged.all() else scores[crossed.judged]
        return self._scores[candidate]

    def contest(self, level: Level) -> Contest:
        """The candidates for a level with their risks, one domain after the other in time."""
        own = [candidate for _, candidate in self.candidates(level)]
        rows = self.judged_rows
        step = max(1, len(rows.labels) // ROWS_TO_RANK)
        risks, rankings, spreads = [], [], []
        for candidate in own:
            scores = self.scores_of(candidate)
            found = measured_rows({"": scores}, rows, self.prepared.task)[""]
            risks.append(found.risks)
            rankings.append(self._skill(scores[::step], rows.labels[::step]).above_chance)
            spreads.append(float(np.std(scores[::step], axis=0).max()))
        matrix = np.stack(risks)
        order = self.order(found.domains)
        block, table = None, rows.table
        if table.unit == "group":  # members of a group stand together, and are drawn together
            numbered = table.numbered_domains
            group = np.zeros(len(numbered.names), dtype=np.int64)
            group[numbered.ids] = table.unit_ids
            groups = group[places_among(found.domains, numbered.names)]
            matrix = matrix[:, np.argsort(groups, kind="stable")]
            block = max(2, -(-matrix.shape[1] // len(np.unique(groups))))
        elif order is not None:
            matrix = matrix[:, np.argsort(order.times, kind="stable")]
            block = max(2, round(matrix.shape[1] ** (1.0 / 3.0)))
        given = np.array(rankings), np.array(spreads), self.plan.mean_budget, block
        contest = Contest(level, tuple(own), matrix, *given, measure=self.plan.measure)
        if self.plan.require is None:
            return contest
        required = required_of(self.plan.require, self.prepared.task)
        of = rows, self.prepared.task, required, level
        kept = np.array([kept_of(self.scores_of(each), *of) for each in own])
        return replace(contest, required=required, kept=kept)

    def order(self, domains: Sequence[Any]) -> DomainOrder | None:
        """When the judged domains began, where that is known."""
        table = self.rows.table
        if not self.plan.in_time:
            return DomainOrder.of_names(domains)
        numbered = table.numbered_domains
        name = table.domain_name if table.order is None else table.order_name
        spans = domain_spans(numbered.ids, numbered.names, table.order, repr(name), "")
        return DomainOrder(spans.first[places_among(domains, numbered.names)], name)

    def _skill(self, scores: Array, target: NDArray[Any]) -> Skill:
        if not self.prepared.task.classes:
            return skill_of_numbers(target, scores)
        return skill_of_classes(target, probabilities_of(scores))

    def judged(
        self, scores: Mapping[str, Array]
    ) -> tuple[Evaluation, tuple[str, ...], dict[str, Skill]]:
        """The evaluation of candidates and constants, which of them are constants, and skills."""
        rows, task = self.judged_rows, self.prepared.task
        risks = measured_rows(scores, rows, task)
        skills = {name: self._skill(each, rows.labels) for name, each in scores.items()}
        names = next(iter(risks.values())).domains
        constants = {}
        for name, (each, skill) in self._constants().items():
            constants[name], skills[name] = each.only(list(names)), skill
        order = self.order(names) if self.plan.in_time else None
        nesting = rows.table.key if rows.table.unit == "group" else None
        if nesting is not None:
            self.notes.append(INDEPENDENT)
        found = Evaluation(
            {**risks, **constants},
            self.prepared.metric,
            None,
            nesting=nesting,
            order=order,
            cross_fitted=True,
        )
        return found, tuple(constants), skills

    def _constants(self) -> Mapping[str, Any]:
        """Each domain by constants of the others."""
        task, labels = self.prepared.task, self.rows.labels.astype(np.float64)
        domains = self.rows.table.numbered_domains
        classes, names = len(task.classes), tuple(domains.names)
        counted = LabelStatistics.of_rows(names, domains.ids, labels, classes, self.rows.weights)
        return cross_fitted_constants(counted, metric_of(task.metric), several=classes > 2)

    @contextmanager
    def noting(self, name: str, fits: int = 0) -> Iterator[None]:
        """Turn our warnings into notes, and tell how far fits are: steps of networks, and how many
        of so many exact linear fits are done (besides those of ERM)."""
        done = count(1)

        def tell_fit() -> None:
            self.progress(Inside(f"{CHOOSING}: {name}, {next(done):,} of {fits:,} fits done"))

        def tell_step(step: int, steps: int) -> None:
            self.progress(Inside(f"fitting {name}: step {step:,} of {steps:,}"))

        steps, solves = STEPS_TOLD.set(tell_step), SOLVES_TOLD.set(tell_fit if fits else None)
        try:
            with warnings_noted(lambda text: self.notes.append(f"{name}: {text}")):
                yield
        finally:
            STEPS_TOLD.reset(steps)
            SOLVES_TOLD.reset(solves)
