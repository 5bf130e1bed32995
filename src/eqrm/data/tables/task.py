"""The task that the target of a table defines: classification or regression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import one_of
from eqrm.data.tables.columns import Column, is_numbers
from eqrm.domains import NumberedDomains
from eqrm.errors import DomainDataError, Setting

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

    >>> Task.of(np.array(["ill", "well", "ill"])).classes
    ('ill', 'well')
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
        classified = asked == CLASSIFICATION or not is_numbers(target) or len(distinct) == 2
        if asked == REGRESSION:
            if not is_numbers(target):
                raise DomainDataError(
                    f"Regression needs a target of numbers, but it holds text such as "
                    f"{str(distinct[0])!r}."
                )
            classified = False
        if not classified:
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
        """The classes in the type of the target: integers, other numbers, or strings.

        >>> Task(("0", "1"), numbers=True).values, Task(("0", "1")).values
        (array([0, 1]), array(['0', '1'], dtype='<U1'))
        """
        if not self.numbers:
            return np.array(self.classes)
        found = np.array([float(name) for name in self.classes])
        whole = (found == np.rint(found)).all() and (np.abs(found) < EXACT).all()
        return found.astype(np.int64) if whole else found

    def labels(self, target: Column) -> NDArray[Any]:
        """The number of each row's class, or the target itself for regression.

        Raises for unknown classes.

        >>> Task(("no", "yes")).labels(np.array(["yes", "no", "yes"]))
        array([1, 0, 1])
        """
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
        found: NDArray[Any] = numbers[np.unique(target, return_inverse=True)[1]]
        return found

    def predictions(self, scores: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """Columns of predictions: ``prediction``, and ``p_CLASS`` for every class.

        ``scores`` are probabilities (n,) of the second of two classes, (n, K) of K classes, or
        predicted numbers (n,). Predicted classes are of the type that the target has.

        >>> Task(("no", "yes")).predictions(np.array([0.75, 0.5]))["prediction"].tolist()
        ['yes', 'no']
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

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON."""
        return {"classes": list(self.classes), "numbers": self.numbers}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Task:
        """The task that :meth:`to_dict` described."""
        names = tuple(str(name) for name in content["classes"])
        return cls(names, bool(content["numbers"]))


def one_class_note(labels: NDArray[Any], domains: NumberedDomains) -> list[str]:
    """A note on how many domains have a single class; their risk counts like any other.

    >>> domains = NumberedDomains(np.array([0, 0, 1]), ("a", "b"))
    >>> one_class_note(np.array([0, 1, 1]), domains)
    ["1 of 2 domains hold one class only, 'b' among them: their risk is the loss on that class."]
    """
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
    """The name of a class; integers are written without a fraction.

    >>> _shown(np.float64(1.0)), _shown(np.str_("yes")), _shown(0.5)
    ('1', 'yes', '0.5')
    """
    if isinstance(value, (float, np.floating)):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return str(value)
