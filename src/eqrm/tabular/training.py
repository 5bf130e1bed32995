"""From a table to models for several levels, evaluated on domains that none of them has seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from eqrm.checks import NON_NEGATIVE_INTEGER, one_of
from eqrm.data.splits import TimeSplit
from eqrm.data.tables.frames import refuse_absent
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.data.tables.table import Table
from eqrm.data.tables.task import Task, one_class_note
from eqrm.domains import NumberedDomains
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.evaluation.evaluate import evaluate
from eqrm.evaluation.evaluation import Evaluation
from eqrm.level import Level
from eqrm.measures import MEASURES, WITHOUT_LEVEL
from eqrm.tabular.model import MODELS, TableModel, new_estimator
from eqrm.text import listed

ERM = "ERM"
LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99)
FEWEST_DOMAINS = 2
FEWEST_MODELS = 2
"""ERM and one level: what can be compared, and so kept when training is interrupted."""


def predictor_name(level: Level | None) -> str:
    """What a predictor is called in tables, figures and reports.

    >>> predictor_name(Level(0.9)), predictor_name(Level(1.0)), predictor_name(None)
    ('α = 0.9', 'worst', 'ERM')
    """
    if level is None:
        return ERM
    return "worst" if level == Level(1.0) else f"α = {level}"


@dataclass(frozen=True)
class TrainingPlan:
    """What to train: ERM and a measure at every level, by one kind of model.

    The measure "worst" has the level 1 alone, and "mean" is ERM alone. ``settings`` go to the
    estimator as they are; ``unseen`` says what to do about categories that only test domains have.
    """

    levels: tuple[Level, ...]
    model: str = "linear"
    task: str = "auto"
    seed: int = 0
    settings: Mapping[str, Any] | None = None
    unseen: str = "warn"
    measure: str = "quantile"

    @classmethod
    def of(cls, levels: Sequence[Level | float | str] | None = None, **rest: Any) -> TrainingPlan:
        """Levels in any form, each once, in order; None is :data:`LEVELS`.

        >>> TrainingPlan.of(["0.9", 0.5, 0.9]).levels
        (Level(0.5), Level(0.9))
        >>> TrainingPlan.of(measure="worst").levels
        (Level(1.0),)
        """
        NON_NEGATIVE_INTEGER.check(rest.get("seed", 0), "seed")
        one_of(rest.get("model", "linear"), MODELS, "model")
        measure = one_of(rest.get("measure", "quantile"), MEASURES, "measure")
        if measure in WITHOUT_LEVEL:
            if levels is not None:
                raise SettingError(f"The measure {measure!r} has no level: leave out alpha.")
            return cls(() if measure == "mean" else (Level(1.0),), **rest)
        given = LEVELS if levels is None else levels
        found = {Level.of(level).interior("A quantile of risks") for level in given}
        if not found:
            raise SettingError("At least one level to train for is required, such as 0.9.")
        return cls(tuple(sorted(found)), **rest)


@dataclass(frozen=True, eq=False)
class TableTraining:
    """The result: a model per predictor, and their evaluation on held-out domains.

    ``in_time`` is how the domains were split, where the held-out ones are later.
    """

    models: Mapping[str, TableModel]
    evaluation: Evaluation
    levels: tuple[Level, ...]
    notes: tuple[str, ...]
    train_rows: int
    train_domains: int
    in_time: TimeSplit | None = None
    measure: str = "quantile"


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
    (['ERM', 'α = 0.9'], 20, 20)
    """
    refuse_shared_domains(train, test)
    progress("encoding the table")
    preprocessor = TablePreprocessor.fit(train, plan.task)
    task, encoder = preprocessor.task, preprocessor.encoder
    labels, test_labels = task.labels(train.target), task.labels(test.target)
    new_estimator(
        plan.model, task, None, plan.seed, plan.settings, plan.measure
    )  # refuses wrong settings
    seen = encoder.transform(train.columns)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqrmWarning)
        unseen = encoder.transform(test.columns, plan.unseen)
    domains = train.numbered_domains
    notes = [*encoder.notes, *(str(warning.message) for warning in caught)]
    notes += [*task.note(train.target), *_order_note(train, in_time)]
    if task.classes:
        notes += one_class_note(labels, domains)
    models: dict[str, TableModel] = {}
    levels = (None, *plan.levels)
    fits = fitted_in_turn(plan, task, levels, seen, labels, domains)
    for level in levels:
        name = predictor_name(level)
        try:
            progress(f"training {name}")
            with _noting(notes, name):
                estimator = next(fits)
        except KeyboardInterrupt:
            if len(models) < FEWEST_MODELS:
                raise
            notes.append(f"Interrupted: {name} and the levels after it were not trained.")
            break
        models[name] = TableModel(estimator, preprocessor, level)
    progress("evaluating on held-out domains")
    # From the margins: a probability that is rounded to 0 would make a loss infinite.
    with config_context(assume_finite=True):  # the encoder has refused what is not
        losses = {name: each.estimator.losses(unseen, test_labels) for name, each in models.items()}
    return TableTraining(
        models,
        replace(evaluate(domains=test.numbered_domains, losses=losses), loss=task.metric),
        tuple(model.level for model in models.values() if model.level is not None),
        tuple(dict.fromkeys(notes)),
        len(train),
        len(train.domain_names),
        in_time,
        plan.measure,
    )


def _order_note(train: Table, in_time: TimeSplit | None) -> list[str]:
    """Whether the column that orders the domains is a feature."""
    if in_time is None or in_time.order == train.domain_name:
        return []
    if in_time.order in train.columns:
        return [
            f"The order column {in_time.order!r} is a feature: its values in later domains were "
            "never seen in training."
        ]
    return [
        f"The order column {in_time.order!r} is not used as a feature. To use it, list it in "
        "--feature."
    ]


def fitted_in_turn(
    plan: TrainingPlan,
    task: Task,
    levels: Sequence[Level | None],
    matrix: NDArray[np.float64],
    labels: NDArray[Any],
    domains: NumberedDomains,
) -> Iterator[Any]:
    """Fitted estimators, one per level, as if each were fitted alone."""
    estimator = new_estimator(plan.model, task, None, plan.seed, plan.settings, plan.measure)
    if hasattr(estimator, "fit_one_by_one"):
        yield from estimator.fit_one_by_one(levels, matrix, labels, domains)
        return
    for level in levels:
        estimator = new_estimator(plan.model, task, level, plan.seed, plan.settings, plan.measure)
        yield estimator.fit(matrix, labels, groups=domains)


@contextmanager
def _noting(notes: list[str], name: str) -> Iterator[None]:
    """Turn our warnings into notes; others are passed on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqrmWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, EqrmWarning):
            notes.append(f"{name}: {warning.message}")
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def refuse_shared_domains(train: Table, test: Table) -> None:
    """Raise if a domain is in both tables, or a column of training is not in the test table."""
    known = set(test.domain_names)
    shared = [name for name in train.domain_names if name in known]
    if shared:
        domains = "1 domain is" if len(shared) == 1 else f"{len(shared)} domains are"
        raise DomainDataError(
            f"{domains} in both training and test: {listed(shared, 3)}. Test domains must be "
            "unseen: remove them from one of the two."
        )
    refuse_absent(list(train.columns), list(test.columns))
    for table, what in ((train, "train on"), (test, "evaluate on")):
        if len(table.domain_names) < FEWEST_DOMAINS:
            raise DomainDataError(
                f"There is {len(table.domain_names)} domain to {what}; a quantile over domains "
                f"needs at least {FEWEST_DOMAINS}, and dozens to be useful. Is "
                f"{table.domain_name!r} the right column?"
            )
