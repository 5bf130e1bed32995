"""From a table to the inputs of models: a feature matrix, numeric targets, numbered domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import Problems, one_of
from eqrm.data.tables.columns import Column, is_numbers
from eqrm.data.tables.encoded_columns import Matrix
from eqrm.data.tables.encoder import TableEncoder
from eqrm.data.tables.reading import read_columns
from eqrm.data.tables.table import Table
from eqrm.domains import DomainKey, NumberedDomains
from eqrm.errors import DomainDataError, Setting
from eqrm.files.plain import plain_values, read_as

if TYPE_CHECKING:
    from eqrm.data.domain_data import DomainData


AUTO, CLASSIFICATION, REGRESSION = "auto", "classification", "regression"
TASKS = (AUTO, CLASSIFICATION, REGRESSION)
MOST_CLASSES = 100
FEW_NUMBERS = 10
PREDICTION = "prediction"
EXACT = 2.0**53
"""Up to this number, float64 represents every integer."""


@dataclass(frozen=True)
class Task:
    """Classes by name, in order, or none for regression.

    ``numbers`` is True if the classes are numbers, not strings that look like numbers.
    """

    classes: tuple[str, ...] = ()
    numbers: bool = False

    @classmethod
    def of(cls, target: Column, asked: str = AUTO) -> Task:
        """Classes if the target is text or has two values, else a number, unless asked for."""
        one_of(asked, TASKS, "task")
        distinct = np.unique(target)
        if len(distinct) == 1:
            raise DomainDataError(
                f"The target is {_shown(distinct[0])} in every row, so there is nothing to predict."
            )
        if asked == REGRESSION and not is_numbers(target):
            raise DomainDataError(
                f"Regression needs a target of numbers, but it holds text such as "
                f"{str(distinct[0])!r}."
            )
        if asked == REGRESSION or (asked == AUTO and is_numbers(target) and len(distinct) > 2):
            return cls()
        if len(distinct) > MOST_CLASSES:
            raise DomainDataError(
                f"The target has {len(distinct):,} different values, such as "
                f"{_shown(distinct[0])} and {_shown(distinct[1])}: too many for classes (at most "
                f"{MOST_CLASSES}). Is it the right column?"
            )
        return cls(tuple(_shown(value) for value in distinct), is_numbers(target))

    @property
    def kind(self) -> str:
        """ "classification" or "regression"."""
        return CLASSIFICATION if self.classes else REGRESSION

    @property
    def metric(self) -> str:
        """The loss that a risk is the mean of."""
        return "log-loss" if self.classes else "squared"

    @property
    def values(self) -> NDArray[Any]:
        """The classes in the type of the target: integers, other numbers, or strings."""
        if not self.numbers:
            return np.array(self.classes)
        found = np.array([float(name) for name in self.classes])
        whole = (found == np.rint(found)).all() and (np.abs(found) < EXACT).all()
        return found.astype(np.int64) if whole else found

    def labels(self, target: Column) -> NDArray[Any]:
        """The number of each row's class, or the target itself; unknown classes are refused."""
        if not self.classes:
            return target
        values = [_shown(value) for value in np.unique(target)]
        unknown = [value for value in values if value not in self.classes]
        if unknown:
            raise DomainDataError(
                f"The class {unknown[0]!r} does not occur in any training domain. Train on domains "
                "that have it, or leave such rows out."
            )
        numbers = np.array([self.classes.index(value) for value in values])
        return numbers[np.unique(target, return_inverse=True)[1]]

    def predictions(self, scores: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """Columns of predictions: ``prediction``, and ``p_CLASS`` for every class.

        ``scores`` are probabilities (n,) of the second of two classes, (n, K) of K classes, or
        predicted numbers (n,).
        """
        if not self.classes:
            return {PREDICTION: scores}
        if scores.ndim == 1:
            scores = np.column_stack([1.0 - scores, scores])
        columns = {f"p_{name}": scores[:, place] for place, name in enumerate(self.classes)}
        return {PREDICTION: self.values[scores.argmax(axis=1)], **columns}

    def note(self, target: Column) -> list[str]:
        """A note where the task was ambiguous."""
        distinct = np.unique(target)
        if self.classes or len(distinct) > FEW_NUMBERS or not is_numbers(target):
            return []
        return [
            f"The target has {len(distinct)} different numbers and is predicted as a number; "
            f"to predict classes, set {Setting('task', 'classification')}."
        ]


def one_class_note(labels: NDArray[Any], domains: NumberedDomains) -> list[str]:
    """A note on how many domains have a single class; their risk counts like any other."""
    number = len(domains.names)
    low, high = np.full(number, np.inf), np.full(number, -np.inf)
    np.minimum.at(low, domains.ids, labels)
    np.maximum.at(high, domains.ids, labels)
    alone = np.flatnonzero(low == high)
    if alone.size == 0:
        return []
    return [
        f"{alone.size} of {number} domains hold one class only, {domains.names[alone[0]]!r} "
        "among them: their risk is the loss on that class."
    ]


def _shown(value: Any) -> str:
    """The name of a class; integers are written without a fraction."""
    if isinstance(value, (float, np.floating)):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return str(value)


@dataclass(frozen=True)
class TablePreprocessor:
    """Everything that a model learns from its table besides its parameters; saved with the model.

    Fit it on the domains that the model is trained on, and on no others: means, scales and
    categories of test domains would leak into training. ``encoder`` turns feature columns into a
    matrix, ``task`` turns targets into class numbers and scores into predictions.
    """

    encoder: TableEncoder
    task: Task
    target_name: str
    key: DomainKey

    @property
    def domain_name(self) -> str:
        """What messages call the domains."""
        return self.key.label

    @classmethod
    def fit(cls, table: Table, task: str = AUTO, **options: Any) -> TablePreprocessor:
        """Learn from training domains; ``options`` are those of :meth:`TableEncoder.fit`."""
        problems, ids = Problems(), table.numbered_domains.ids
        with problems.noted():
            encoder = TableEncoder.fit(
                table.columns,
                domains=ids,
                asked=table.asked,
                date_forms=table.date_forms,
                **options,
            )
        with problems.noted():
            kind = Task.of(table.target, task)
        problems.refuse("The table", alone=True)
        return cls(encoder, kind, table.target_name, table.domain_key)

    def matrix(self, frame: Any, unseen: str = "warn") -> Matrix:
        """The features of a frame of any kind with (at least) the columns of training."""
        return self.encoder.transform(self.read(frame), unseen)

    def read(
        self, frame: Any, also: Sequence[str] = (), needed: Sequence[str] = ()
    ) -> dict[str, Column]:
        """The columns of training from a file or frame; ``also`` others as text, where there."""
        encoder = self.encoder
        missing, forms = encoder.missing_values, encoder.forms()
        return read_columns(frame, encoder.kinds(), also, missing, needed, forms)

    def encode(self, table: Table, unseen: str = "warn") -> DomainData:
        """A table with the same columns as a dataset: x (n, features) float32, y (n,).

        A class that training did not have is refused; ``unseen`` as for
        :meth:`TableEncoder.transform`.
        """
        from eqrm.data.domain_data import DomainData  # torch, which reading a table needs not

        return DomainData.from_arrays(
            self.encoder.transform(table.columns, unseen),
            self.task.labels(table.target),
            table.domains,
            target_names=self.task.classes,
            notes=self.encoder.notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON; :meth:`from_dict` reads them."""
        groups, members = list(self.key.groups), list(self.key.members)
        return {
            "target": self.target_name,
            "domain": groups[0] if len(groups) == 1 else groups,
            **({"within": members} if members else {}),
            "task": plain_values(self.task),
            "encoder": self.encoder.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TablePreprocessor:
        """The preprocessor that :meth:`to_dict` described."""
        return cls(
            TableEncoder.from_dict(content["encoder"]),
            read_as(Task, content["task"], "task"),
            str(content["target"]),
            DomainKey.of(content["domain"], content.get("within")),
        )
