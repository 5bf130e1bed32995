"""From two tables to what models are fitted to; everything that can be refused is refused here.

Nothing in here imports torch or scikit-learn, so that a table that cannot be used is refused at
once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import Problems
from eqrm.data.seen_domains import SeenDomains
from eqrm.data.splits import TimeSplit
from eqrm.data.tables.encoder import TableEncoder
from eqrm.data.tables.frames import refuse_absent
from eqrm.data.tables.preprocessor import TablePreprocessor, Task, one_class_note
from eqrm.data.tables.table import Table
from eqrm.domains import named_domains
from eqrm.errors import DomainDataError, EqrmWarning, Setting, SettingError
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.tabular.plan import BALANCED, TrainingPlan
from eqrm.text import counted, did_you_mean, listed

Array = NDArray[np.float64]
FEWEST_DOMAINS = 2


@dataclass(frozen=True, eq=False)
class EncodedPart:
    """The rows of one of the two tables: matrix, labels, and weights where there are any."""

    table: Table
    matrix: Array
    labels: NDArray[Any]
    weights: Array | None


@dataclass(frozen=True, eq=False)
class PreparedTraining:
    """What a training fits to and, where domains are kept aside, evaluates on.

    ``in_time`` is how later domains were kept aside. ``everything`` is the table that models are
    finally fitted to, where that is more than ``train``. ``metric`` is what risks are means of.
    """

    train: EncodedPart
    test: EncodedPart | None
    preprocessor: TablePreprocessor
    seen: SeenDomains
    notes: tuple[str, ...]
    metric: str
    in_time: TimeSplit | None = None
    everything: Table | None = None

    @property
    def task(self) -> Task:
        """Classes or numbers."""
        return self.preprocessor.task


def prepare(
    train: Table,
    test: Table | None,
    plan: TrainingPlan,
    in_time: TimeSplit | None = None,
    everything: Table | None = None,
) -> PreparedTraining:
    """Encode the tables by what the training domains tell; all problems are one error.

    ``test`` are domains that are kept aside, if any. ``in_time`` is the result of
    :meth:`Table.in_time`, where that made the two tables; ``everything`` is as in
    :class:`PreparedTraining`.
    """
    problems, seen = Problems(), SeenDomains.of(train.unit_names)
    parts = [train, *([] if test is None else [test])]
    with problems.noted():
        refuse_few_domains(train)
    if test is not None:
        with problems.noted():
            refuse_shared_domains(train, test)
    with problems.noted():
        preprocessor = TablePreprocessor.fit(
            train,
            plan.task,
            max_missing=plan.max_missing,
            native=plan.takes_missing,
            missing_values=train.missing_values,
            rows="training rows",
        )
    problems.refuse("The table", alone=True)
    task, encoder = preprocessor.task, preprocessor.encoder
    labels: list[Any] = []
    noted: list[str] = []
    with warnings_noted(noted.append):
        matrices = [encoder.transform(train.columns)]
        if test is not None:
            with problems.noted():
                matrices.append(encoder.transform(test.columns, plan.unseen))
    for table in parts:
        with problems.noted():
            labels.append(task.labels(table.target))
        with problems.noted():
            _refuse_weightless(table)
    with problems.noted():
        class_weights = weights_of_classes(plan.class_weight, task, labels[0])
    problems.refuse("The table", alone=True)
    told = [*task.note(train.target), *train.notes, *encoder.notes, *noted]
    told += _order_note(train, in_time) if plan.in_time else _mixed_dates(train, test)
    if task.classes:
        told += one_class_note(labels[0], train.numbered_domains)
    metric, weighted = task.metric, _weighted_by(train, task, class_weights)
    if weighted:
        metric = f"{loss_in_words(metric)} weighted by {weighted}"
        told.append(
            f"Rows are weighted by {weighted}: risks are weighted means of losses, in training and "
            "in the evaluation; AUC, accuracy, calibration and R² are not weighted."
        )
    encoded = []
    for table, matrix, own in zip(parts, matrices, labels, strict=True):
        weights = table.weights
        if class_weights is not None:
            weights = class_weights[own] * (1.0 if weights is None else weights)
        encoded.append(EncodedPart(table, matrix, own, weights))
    first, *rest = encoded
    aside = rest[0] if rest else None
    once = tuple(dict.fromkeys(told))
    return PreparedTraining(first, aside, preprocessor, seen, once, metric, in_time, everything)


def inspect_columns(
    columns: Mapping[str, Any], target: Any, plan: TrainingPlan, asked: tuple[str, ...]
) -> None:
    """Raise for what is wrong with columns of a table that has other problems too."""
    problems = Problems()
    rows = np.arange(len(next(iter(columns.values()), ())))
    with problems.noted():  # every row its own domain: identifiers are still noticed
        TableEncoder.fit(
            columns,
            max_missing=plan.max_missing,
            native=plan.takes_missing,
            domains=rows,
            asked=asked,
        )
    if target is not None:
        with problems.noted():
            Task.of(target, plan.task)
    problems.refuse("The table", alone=True)


def weights_of_classes(given: Any, task: Task, labels: NDArray[Any]) -> Array | None:
    """The weight of each class (K,): as given, or "balanced": rows over classes and their rows.

    >>> weights_of_classes("balanced", Task(("no", "yes")), np.array([0, 0, 0, 1])).round(2)
    array([0.67, 2.  ])
    >>> weights_of_classes({"yes": 5}, Task(("no", "yes")), np.array([0, 1]))
    array([1., 5.])
    """
    if given is None:
        return None
    if not task.classes:
        raise SettingError("class_weight is for classes: the target is predicted as a number.")
    if given == BALANCED:
        counts = np.bincount(labels, minlength=len(task.classes))
        return np.asarray(len(labels) / (len(counts) * counts), dtype=np.float64)
    if isinstance(given, str):  # the plan has refused it
        return None
    for name in given:
        if name not in task.classes:
            raise SettingError(
                f"class_weight has the class {name!r}, which the target has not. "
                f"{did_you_mean(name, task.classes)}"
            )
    return np.array([float(given.get(name, 1.0)) for name in task.classes])


def _refuse_weightless(table: Table) -> None:
    """Raise if a domain has no row with a weight above 0."""
    if table.weights is None:
        return
    domains = table.numbered_domains
    total = np.bincount(domains.ids, table.weights, len(domains.names))
    if not total.all():
        names = [domains.names[place] for place in np.flatnonzero(total == 0.0)]
        raise DomainDataError(
            f"The weights ({table.weight_name!r}) are 0 in all rows of {named_domains(names)}. "
            "Leave such domains out of the table."
        )


def _weighted_by(train: Table, task: Task, of_classes: Array | None) -> str:
    parts = []
    if train.weights is not None:
        parts.append(f"the column {train.weight_name!r}")
    if of_classes is not None:
        named = zip(task.classes, of_classes.tolist(), strict=True)
        parts.append(f"class weights ({', '.join(f'{name} {w:.4g}' for name, w in named)})")
    return " and ".join(parts)


def _order_note(train: Table, in_time: TimeSplit | None) -> list[str]:
    """Which domains are kept aside, and whether the column that orders them is a feature."""
    name, told = train.domain_name if train.order is None else train.order_name, _cut(in_time)
    if name == train.domain_name:
        return told
    if name in train.columns:
        note = "is a feature: its values in later domains were never seen in training."
    else:
        note = f"is not used as a feature. To use it, list it in {Setting('features')}."
    return [*told, f"The order column {name!r} {note}"]


def _cut(split: TimeSplit | None) -> list[str]:
    """Which later domains are kept aside, and which took no part before the last fit."""
    if split is None:
        return []
    found = [
        f"{counted(len(split.test), 'domain')} from {' to '.join(split.tested)} are kept aside; "
        f"models were compared on {len(split.train):,} from {' to '.join(split.trained)}."
    ]
    if split.left_out:
        have = counted(len(split.left_out), "domain")
        found.append(
            f"{have} with rows both before and after the cut took part in the last fit alone: "
            f"{listed(split.left_out)}."
        )
    return found


def _mixed_dates(train: Table, test: Table | None) -> list[str]:
    """Whether domains are dates, and models of later ones are judged on earlier ones."""
    order = DomainOrder.of_names(train.unit_names)
    later = None if test is None else DomainOrder.of_names(test.unit_names)
    if order is None or (later is not None and later.times.min() > order.times.max()):
        return []
    return [
        f"The domains are dates, and models were judged on earlier ones too. For domains to come, "
        f"judge by the past alone: {Setting('order', train.domain_name)}."
    ]


def refuse_few_domains(table: Table, what: str = "train on") -> None:
    """Raise if there is a single domain (or group, where domains are nested)."""
    unit = table.unit
    if len(table.unit_names) < FEWEST_DOMAINS:
        raise DomainDataError(
            f"There is {len(table.unit_names)} {unit} to {what}; a quantile over {unit}s needs at "
            f"least {FEWEST_DOMAINS}, and dozens to be useful. Is {table.domain_name!r} the right "
            "column?"
        )


def refuse_shared_domains(train: Table, test: Table) -> None:
    """Raise if a domain (or group) is in both tables, or if the test table lacks something."""
    seen, unit, problems = SeenDomains.of(train.unit_names), train.unit, Problems()
    shared = seen.among(test.unit_names)
    if shared:
        units = f"1 {unit} is" if len(shared) == 1 else f"{len(shared)} {unit}s are"
        with problems.noted():
            raise DomainDataError(
                f"{units} in both training and test: {listed(shared, 3)}. Test {unit}s must be "
                "unseen: remove them from one of the two."
            )
    with problems.noted():
        refuse_absent(list(train.columns), list(test.columns))
    with problems.noted():
        refuse_few_domains(test, "evaluate on")
    problems.refuse("The table", alone=True)


@contextmanager
def warnings_noted(note: Callable[[str], object]) -> Iterator[None]:
    """Note our warnings instead of giving them; others are passed on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EqrmWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, EqrmWarning):
            note(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
