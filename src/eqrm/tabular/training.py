"""From a table to models for several levels, judged on domains that none of them has seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import NON_NEGATIVE_INTEGER
from eqrm.data.tables.frames import refuse_absent
from eqrm.data.tables.preprocessor import TablePreprocessor
from eqrm.data.tables.table import Table
from eqrm.data.tables.task import one_class_note
from eqrm.errors import DomainDataError, EqrmWarning, SettingError
from eqrm.evaluation.evaluate import evaluate
from eqrm.evaluation.evaluation import Evaluation
from eqrm.level import Level
from eqrm.tabular.gains import predictor_name
from eqrm.tabular.model import TableModel, known_model, new_estimator

FEWEST_DOMAINS = 2
FEWEST_MODELS = 2
"""ERM and one level: what can be compared, and so kept when training is interrupted."""


@dataclass(frozen=True)
class TrainingPlan:
    """What to train: ERM and every level, by one kind of model.

    ``settings`` go to the estimator as they are; ``unseen`` says what to do about categories
    that only test domains have.
    """

    levels: tuple[Level, ...]
    model: str = "linear"
    task: str = "auto"
    seed: int = 0
    settings: Mapping[str, Any] | None = None
    unseen: str = "warn"

    @classmethod
    def of(cls, levels: Sequence[Level | float | str], **rest: Any) -> TrainingPlan:
        """Levels in any form, each once, in order.

        >>> TrainingPlan.of(["0.9", 0.5, 0.9]).levels
        (Level(0.5), Level(0.9))
        """
        NON_NEGATIVE_INTEGER.check(rest.get("seed", 0), "seed")
        found = {Level.of(level).interior("A quantile of risks") for level in levels}
        if not found:
            raise SettingError("There is no level to train for: give at least one, such as 0.9.")
        known_model(rest.get("model", "linear"))
        return cls(tuple(sorted(found)), **rest)


@dataclass(frozen=True, eq=False)
class TableTraining:
    """What came out: a model per predictor, and their evaluation on unseen domains."""

    models: Mapping[str, TableModel]
    evaluation: Evaluation
    levels: tuple[Level, ...]
    notes: tuple[str, ...]
    train_rows: int
    train_domains: int


def train_on_table(
    train: Table,
    test: Table,
    plan: TrainingPlan,
    progress: Callable[[str], None] = lambda what: None,
) -> TableTraining:
    """Train ERM and every level on ``train``, and judge all of them on ``test``.

    The two tables must share no domain. ``progress`` is told what begins. Ctrl-C while a level
    is trained keeps the models that are ready, and judges those.

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
    new_estimator(plan.model, task, None, plan.seed, plan.settings)  # wrong settings, before work
    seen = encoder.transform(train.columns)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqrmWarning)
        unseen = encoder.transform(test.columns, plan.unseen)
    notes = [*encoder.notes, *(str(warning.message) for warning in caught)]
    notes += task.note(train.target)
    if task.classes:
        notes += one_class_note(labels, train.domains)
    models: dict[str, TableModel] = {}
    for level in (None, *plan.levels):
        name = predictor_name(level)
        try:
            progress(f"training {name}")
            estimator = new_estimator(plan.model, task, level, plan.seed, plan.settings)
            notes += _fitted(estimator, seen, labels, train.domains, name)
        except KeyboardInterrupt:
            if len(models) < FEWEST_MODELS:
                raise
            notes.append(f"Interrupted: {name} and what was to follow were not trained.")
            break
        models[name] = TableModel(estimator, preprocessor, level)
    progress("judging on unseen domains")
    # From the margins: a probability that is rounded to 0 would make a loss infinite.
    losses = {name: each.estimator.losses(unseen, test_labels) for name, each in models.items()}
    return TableTraining(
        models,
        replace(evaluate(domains=test.domains, losses=losses), loss=task.metric),
        tuple(model.level for model in models.values() if model.level is not None),
        tuple(dict.fromkeys(notes)),
        len(train),
        len(train.domain_names),
    )


def _fitted(
    estimator: Any,
    matrix: NDArray[np.float64],
    labels: NDArray[Any],
    domains: NDArray[np.str_],
    name: str,
) -> list[str]:
    """Fit, and give what was warned of on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqrmWarning)
        estimator.fit(matrix, labels, groups=domains)
    for warning in caught:
        if not issubclass(warning.category, EqrmWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return [
        f"{name}: {warning.message}"
        for warning in caught
        if issubclass(warning.category, EqrmWarning)
    ]


def refuse_shared_domains(train: Table, test: Table) -> None:
    """Raise if a domain is in both tables, or a column of training is not in the test table."""
    shared = sorted(set(train.domain_names) & set(test.domain_names))
    if shared:
        names = ", ".join(repr(name) for name in shared[:3])
        more = f" and {len(shared) - 3} more" if len(shared) > 3 else ""
        domains = "1 domain is" if len(shared) == 1 else f"{len(shared)} domains are"
        raise DomainDataError(
            f"{domains} in both training and test: {names}{more}. Test domains must be unseen: "
            "remove them from one of the two."
        )
    refuse_absent(list(train.columns), list(test.columns))
    for table, what in ((train, "train on"), (test, "judge by")):
        if len(table.domain_names) < FEWEST_DOMAINS:
            raise DomainDataError(
                f"There is {len(table.domain_names)} domain to {what}, and a quantile over domains "
                f"needs at least {FEWEST_DOMAINS}, better dozens. Is {table.domain_name!r} the "
                "column of the domains?"
            )
