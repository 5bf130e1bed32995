"""Labels and predictions, row by row; why the loss of a row cannot be used, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.domains import Name, name_order, named_domains
from eqrm.errors import DomainDataError, Setting
from eqrm.evaluation.measuring.metrics import Metric, as_numbers, positions_of
from eqrm.risks import MeasuredRisks
from eqrm.text import listed, shortened

SHOWN = 3
ENDS_IN_ORDER = (
    "labels and predictions must be finite numbers, the lower end not above the upper one, and the "
    "scale above 0. Fix the row or drop it"
)


@dataclass(frozen=True, eq=False)
class RowsOfPredictions:
    """Consecutive rows: the ``domain`` (k,) as a number, the ``label`` and the ``prediction``.

    Labels are 0 … K−1 where predictions are probabilities, (k,) of label 1 or (k, K); else both
    are numbers (k,).
    """

    domain: NDArray[np.int32]
    label: NDArray[np.float64]
    prediction: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence[RowsOfPredictions]) -> RowsOfPredictions:
        """The rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        names = ("domain", "label", "prediction")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def of(self, kept: slice) -> RowsOfPredictions:
        """Some of the rows."""
        return RowsOfPredictions(self.domain[kept], self.label[kept], self.prediction[kept])


@dataclass(frozen=True)
class Row:
    """A row without a usable loss: where it is and what it holds.

    ``label`` and ``prediction`` are as found; for given losses, the loss is the prediction.
    """

    place: str
    domain: Any
    label: Any
    prediction: Any


@dataclass(frozen=True)
class Expected:
    """What a row should hold: a loss, or the label and prediction of a metric.

    ``classes`` names the classes that have a probability, when predictions are of classes;
    ``several`` says that they are. ``instead`` is a sentence on columns of probabilities, said
    where a label is no number, ``rule`` what else must hold of numbers.
    """

    metric: Metric | None = None
    classes: Sequence[str] | None = None
    several: bool = False
    as_classes: bool = False
    instead: str = ""
    rule: str = ""

    def complaint(self, row: Row) -> str:
        """What is wrong with a row, and what to do."""
        if self.metric is None:
            return (
                "losses must be finite numbers. Check where the model produces NaN or overflows, "
                "or drop the row"
            )
        for what, value in (("label", row.label), ("prediction", row.prediction)):
            if _absent(value) or (self.as_classes and is_missing(value)):
                return f"the {what} is missing. Fill it in or drop the row"
        if self.several:
            return self._of_classes(row)
        if self.metric.classes is not None:
            return _of_probability(row)
        return self.rule or _of_numbers(row)

    def _of_classes(self, row: Row) -> str:
        if self.classes is not None and str(row.label) not in self.classes:
            return (
                f"the label {row.label!r} is never predicted: no column holds its probability "
                f"(classes: {listed(self.classes, most=10)}). Add the column, or fix the label"
            )
        (place,) = positions_of([row.label])
        if self.classes is None and not 0 <= place < len(row.prediction):
            return (
                f"the label {row.label!r} is never predicted: labels must be positions in the "
                "list of probabilities, counted from 0"
            )
        return (
            "probabilities must be numbers between 0 and 1, add up to 1 within 1%, and not be 0 "
            "for the label under the log-loss. Normalise them (softmax), or set "
            f"{Setting('clip', 1e-7)}"
        )


def refuse_rows(
    model: str,
    rows: Sequence[Row],
    bad: int,
    total: int,
    domains: Sequence[Name],
    expected: Expected,
) -> None:
    """Raise the error about rows without a usable loss."""
    where = named_domains(sorted(domains, key=name_order))
    shown: dict[str, list[str]] = {}
    for row in rows[:SHOWN]:
        shown.setdefault(expected.complaint(row), []).append(_shown(row, expected))
    first = " ".join(f"{'; '.join(each)}: {complaint}." for complaint, each in shown.items())
    labels = [row.label for row in rows[:SHOWN] if not _absent(row.label)]
    in_words = any(map(math.isnan, map(_number, labels)))
    raise DomainDataError(
        f"{model}: {bad:,} of {total:,} rows have no usable loss, in {where}. First: {first}"
        f"{expected.instead * in_words}"
    )


def refuse_if_never_right(model: str, risks: MeasuredRisks, expected: Expected) -> None:
    """Raise if no class predicted is the label's, in any row: they must be coded differently."""
    if expected.as_classes and risks.risks.min() == 1.0:
        raise DomainDataError(
            f"{model}: no prediction equals its label in any of {int(risks.counts.sum()):,} "
            "rows. Use the same codes for labels and predictions: 'cat' is not 0, and '1' is not "
            "'1.0'."
        )


def refuse_probabilities(model: str, found: object) -> None:
    """Raise where intervals would be made around predictions of two classes."""
    if found:
        raise DomainDataError(
            f"{model}: labels have two values only, like classes, around which intervals make no "
            "sense. Require 'wrong <= 10%', or give a probability of each class "
            f"({Setting('predictions', 'p_{class}')}) for sets of classes."
        )


def _shown(row: Row, expected: Expected) -> str:
    parts = [f"domain {_short(row.domain)}"]
    if expected.metric is not None:
        parts.append(f"label {_short(row.label)}")
    what = "loss" if expected.metric is None else "prediction"
    parts.append(f"{what} {_short(row.prediction)}")
    return f"{row.place} ({', '.join(parts)})"


def _short(value: Any) -> str:
    return "missing" if _absent(value) else shortened(repr(value))


def _absent(value: Any) -> bool:
    """Whether there is no value; NaN is a value that a model may give."""
    return (is_missing(value) and not isinstance(value, float)) or value == ""


def _of_probability(row: Row) -> str:
    label, prediction = _number(row.label), _number(row.prediction)
    if label not in (0.0, 1.0):
        return (
            "labels must be 0 or 1 when each row has one probability. If the labels are numbers, "
            f"use {Setting('metric', 'squared')}; if they are classes, recode them as 0 and 1, "
            "or give a probability per class (prediction 'p_{class}')"
        )
    if not 0.0 <= prediction <= 1.0:
        return (
            "the prediction is not a probability between 0 and 1. If it is a logit, give "
            "1/(1 + exp(-logit)); if it is a class, give it as an integer or a string"
        )
    return (
        "the label was given probability 0, which makes the log-loss infinite. Set "
        f"{Setting('clip', 1e-7)} to keep probabilities away from 0 and 1, or choose the Brier loss"
    )


def _of_numbers(row: Row) -> str:
    for what, value in (("label", row.label), ("prediction", row.prediction)):
        if not math.isfinite(_number(value)):
            return f"the {what} is not a finite number. Fix it or drop the row"
    return "the loss overflows. Rescale labels and predictions"


def _number(value: Any) -> float:
    """The number, NaN where it is none."""
    return float(as_numbers([value])[0])
