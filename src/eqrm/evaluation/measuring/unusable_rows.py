"""Why the loss of a row cannot be used, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eqrm.checks import is_missing
from eqrm.domains import Name, name_order, named_domains
from eqrm.errors import DomainDataError, Setting
from eqrm.evaluation.measuring.metrics import Metric, as_numbers
from eqrm.risks import MeasuredRisks
from eqrm.text import listed, shortened

SHOWN = 3


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
    where a label is no number.
    """

    metric: Metric | None = None
    classes: Sequence[str] | None = None
    several: bool = False
    as_classes: bool = False
    instead: str = ""

    def complaint(self, row: Row) -> str:
        """What is wrong with a row, and what to do."""
        if self.metric is None:
            return _of_loss(row.prediction)
        if self.as_classes:
            missing = "label" if _absent(row.label) or is_missing(row.label) else "prediction"
            return f"the {missing} is missing. Fill it in or drop the row"
        if self.several:
            return self._of_classes(row)
        return _of_numbers(row) if self.metric.classes is None else _of_probability(row)

    def _of_classes(self, row: Row) -> str:
        if _absent(row.label):
            return "the label is missing. Fill it in or drop the row"
        if self.classes is not None and str(row.label) not in self.classes:
            return (
                f"the label {row.label!r} is never predicted: no column holds its probability "
                f"(classes: {listed(self.classes, most=10)}). Add the column, or fix the label"
            )
        if self.classes is None and not _is_position(row.label, row.prediction):
            return (
                f"the label {row.label!r} is never predicted: labels must be positions in the "
                "list of probabilities, counted from 0"
            )
        if any(number is None or math.isnan(number) for number in map(_number, _each(row))):
            return "a probability is missing or not a number. Fill it in or drop the row"
        return (
            "probabilities must lie between 0 and 1, add up to 1 within 1%, and not be 0 for "
            "the label under the log-loss. Normalise them (softmax), or set "
            f"{Setting('clip', 1e-7)}"
        )


def refuse_rows(
    predictor: str,
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
    in_words = any(math.isnan(_number(row.label) or 0.0) for row in rows[:SHOWN])
    raise DomainDataError(
        f"{predictor}: {bad:,} of {total:,} rows have no usable loss, in {where}. First: {first}"
        f"{expected.instead * in_words}"
    )


def refuse_if_never_right(predictor: str, risks: MeasuredRisks, expected: Expected) -> None:
    """Raise if no class predicted is the label's, in any row: they must be coded differently."""
    if expected.as_classes and risks.risks.min() == 1.0:
        raise DomainDataError(
            f"{predictor}: no prediction equals its label in any of {int(risks.counts.sum()):,} "
            "rows. Use the same codes for labels and predictions: 'cat' is not 0, and '1' is not "
            "'1.0'."
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


def _of_loss(value: Any) -> str:
    number = _number(value)
    if number is None:
        return "the loss is missing. Fill it in or drop the row"
    if math.isnan(number):
        return "the loss is not a number. Check where the model produces NaN, or drop the row"
    return "losses must be finite. Check where the model overflows, or bound the loss"


def _of_probability(row: Row) -> str:
    label, prediction = _number(row.label), _number(row.prediction)
    if label is None or math.isnan(label):
        return (
            "the label is missing or not a number. Fill it in, recode it as 0 or 1, or drop the row"
        )
    if label not in (0.0, 1.0):
        return (
            "labels must be 0 or 1 when each row has one probability. If the labels are numbers, "
            f"use {Setting('metric', 'squared')}; if they are classes, recode them as 0 and 1, "
            "or give a probability per class (prediction 'p_{class}')"
        )
    if prediction is None or math.isnan(prediction):
        return "the prediction is missing or not a number. Fill it in or drop the row"
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
        number = _number(value)
        if number is None:
            return f"the {what} is missing. Fill it in or drop the row"
        if not math.isfinite(number):
            return f"the {what} is not a finite number. Fix it or drop the row"
    return "the loss overflows. Rescale labels and predictions"


def _number(value: Any) -> float | None:
    """The number; None where the value is missing, NaN where it is not a number."""
    return None if _absent(value) else float(as_numbers([value])[0])


def _each(row: Row) -> Sequence[Any]:
    """The probabilities of a row, where it holds several."""
    return row.prediction if isinstance(row.prediction, (list, tuple)) else []


def _is_position(label: Any, probabilities: Any) -> bool:
    number = _number(label)
    if number is None or not math.isfinite(number) or number != int(number):
        return False
    return probabilities is None or 0 <= number < len(probabilities)
