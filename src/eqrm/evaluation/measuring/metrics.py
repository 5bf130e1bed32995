"""The losses that labels and predictions are measured with, as arrays and as SQL.

A loss that cannot be computed (a missing label, a probability outside [0, 1], log of 0) is NaN
in arrays and NULL in SQL; :mod:`~eqrm.evaluation.measuring.rows` then says which rows and
why. The help of commands names every metric, so numpy is imported only where it computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from eqrm.checks import OPEN_FRACTION, one_of
from eqrm.errors import SettingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
Numbers: TypeAlias = "NDArray[np.float64]"
Positions: TypeAlias = "NDArray[np.int64]"
SLACK_OF_SUM = 0.01
"""How far the probabilities of the classes may be from adding up to 1 (half precision)."""


@dataclass(frozen=True)
class ClassLoss:
    """The loss of probabilities of K classes.

    ``of_arrays`` takes the probability of the label's class (n,), all probabilities (n, K) and
    the position of the label's class (n,) from 0; ``sql`` takes the same as SQL expressions, the
    probabilities as a LIST and the position from 1. ``largest`` is the largest loss possible.
    """

    of_arrays: Callable[[Numbers, Numbers, Positions], Numbers]
    sql: Callable[[str, str, str], str]
    largest: float


@dataclass(frozen=True)
class Metric:
    """A loss of one label and one prediction.

    ``of_arrays`` takes labels and predictions as float64; ``sql`` takes two SQL expressions of
    type DOUBLE and gives one. ``bounds`` are the least and the largest loss possible. A metric
    with ``classes`` takes probabilities: of label 1, with labels 0 or 1, or of K classes.
    ``in_words`` and ``in_help`` are what sentences and the help call it, if not by its name.
    """

    name: str
    of_arrays: Callable[[Numbers, Numbers], Numbers]
    sql: Callable[[str, str], str]
    bounds: tuple[float, float] = (0.0, math.inf)
    classes: ClassLoss | None = None
    in_words: str = ""
    in_help: str = ""

    @property
    def has_references(self) -> bool:
        """Whether a base rate or a mean is the constant of least loss."""
        return self.classes is not None or self.name == "squared"

    @property
    def for_classes(self) -> ClassLoss:
        """The loss of probabilities of several classes; an error if there is none."""
        if self.classes is None:
            raise SettingError(
                f"The metric {self.name!r} does not apply to probabilities of several classes. "
                f"Choose from: {', '.join(name for name in METRICS if DECLARED[name].classes)}."
            )
        return self.classes


def loss_in_words(name: str) -> str:
    """What a sentence calls a loss."""
    return (name in DECLARED and DECLARED[name].in_words) or name


def name_of_function(function: object) -> str:
    """What a loss of the user's is called: by its name, or that of its class."""
    function = getattr(function, "func", function)  # of a functools.partial
    name = getattr(function, "__name__", type(function).__name__)
    return "loss" if name == "<lambda>" else name.strip("_").replace("_", " ") or "loss"


def metric_of(name: str, clip: float = 0.0) -> Metric:
    """The metric of a name; ``pinball:0.9`` is the pinball loss of the .9-quantile.

    ``clip`` keeps the probabilities of the log-loss at least that far from 0 and 1.
    """
    kind, _, option = name.partition(":")
    if kind == "pinball":
        return _pinball(option)
    one_of(name, METRICS, "metric")
    return _log_loss(clip) if kind == "log-loss" else DECLARED[kind]


def class_losses(metric: Metric, classes: Positions, probabilities: Numbers) -> Numbers:
    """The losses (n,) of probabilities (n, K), with the classes of the labels as 0 … K−1.

    A class of −1 (a label that is none of the classes) gives NaN, and so do impossible
    probabilities.
    """
    import numpy as np

    loss = metric.for_classes
    possible = (classes >= 0) & (classes < probabilities.shape[1])
    possible &= ((probabilities >= 0.0) & (probabilities <= 1.0)).all(axis=1)
    possible &= np.abs(probabilities.sum(axis=1) - 1.0) <= SLACK_OF_SUM
    rows = np.arange(len(classes))
    chosen = np.where(possible, probabilities[rows, np.where(possible, classes, 0)], np.nan)
    return loss.of_arrays(chosen, probabilities, classes)


def sql_class_losses(metric: Metric, position: str, probabilities: str) -> str:
    """The same in SQL: ``probabilities`` is a LIST, ``position`` of the label's class from 1."""
    possible = (
        f"list_min({probabilities}) >= 0 AND list_max({probabilities}) <= 1 "
        f"AND abs(list_sum({probabilities}) - 1) <= {SLACK_OF_SUM} "
        f"AND {position} BETWEEN 1 AND len({probabilities})"
    )
    chosen = f"(CASE WHEN {possible} THEN {probabilities}[{position}] END)"
    return metric.for_classes.sql(chosen, probabilities, position)


def positions_of(labels: Any) -> Positions:
    """The class of each label as 0 … K−1, −1 for what is not an integer from 0."""
    import numpy as np

    numbers = as_numbers(labels)
    whole = (numbers >= 0.0) & (numbers < 2.0**63) & (numbers == np.floor(numbers))
    return np.where(whole, numbers, -1.0).astype(np.int64)


def _probability_of_label(labels: Numbers, predictions: Numbers) -> Numbers:
    """p where the label is 1, 1 − p where it is 0; NaN where either is impossible."""
    import numpy as np

    chosen = np.where(labels == 1.0, predictions, np.where(labels == 0.0, 1 - predictions, np.nan))
    possible = (predictions >= 0.0) & (predictions <= 1.0)
    return np.where(possible, chosen, np.nan)


def _sql_probability_of_label(label: str, prediction: str) -> str:
    # NaN is larger than every number in DuckDB, so BETWEEN refuses it.
    return (
        f"(CASE WHEN {prediction} BETWEEN 0 AND 1 THEN "
        f"CASE {label} WHEN 1 THEN {prediction} WHEN 0 THEN 1 - {prediction} END END)"
    )


def _log_loss(clip: float) -> Metric:
    if not 0.0 <= clip < 0.5:
        raise SettingError(f"clip must be a number of at least 0 and below 0.5, got {clip!r}.")

    def minus_log(probabilities: Numbers) -> Numbers:
        import numpy as np

        if clip > 0.0:
            probabilities = probabilities.clip(clip, 1.0 - clip)
        return -np.log(np.where(probabilities > 0.0, probabilities, np.nan)) + 0.0

    def sql_minus_log(probability: str) -> str:
        if clip > 0.0:
            low, high = _literal(clip), _literal(1.0 - clip)
            kept = f"least(greatest({probability}, {low}), {high})"
            return f"(CASE WHEN {probability} IS NOT NULL THEN -ln({kept}) END)"
        # DuckDB's logarithm raises an error at 0, so 0 must not reach it.
        return f"(CASE WHEN {probability} > 0 THEN -ln({probability}) END)"

    largest = -math.log(clip) if clip > 0.0 else math.inf
    return Metric(
        "log-loss",
        lambda labels, predictions: minus_log(_probability_of_label(labels, predictions)),
        lambda label, prediction: sql_minus_log(_sql_probability_of_label(label, prediction)),
        (0.0, largest),
        ClassLoss(lambda p, _, __: minus_log(p), lambda p, _, __: sql_minus_log(p), largest),
    )


def _brier() -> Metric:
    def of_arrays(labels: Numbers, predictions: Numbers) -> Numbers:
        return (1.0 - _probability_of_label(labels, predictions)) ** 2

    def sql(label: str, prediction: str) -> str:
        miss = f"(1 - {_sql_probability_of_label(label, prediction)})"
        return f"({miss} * {miss})"

    def of_classes(chosen: Numbers, probabilities: Numbers, _: Positions) -> Numbers:
        losses: Numbers = (probabilities**2).sum(axis=1) - 2.0 * chosen + 1.0
        return losses

    def sql_of_classes(chosen: str, probabilities: str, _: str) -> str:
        return f"(list_inner_product({probabilities}, {probabilities}) - 2 * {chosen} + 1)"

    classes = ClassLoss(of_classes, sql_of_classes, 2.0)
    return Metric("brier", of_arrays, sql, (0.0, 1.0), classes, in_words="Brier score")


def _zero_one() -> Metric:
    def of_arrays(labels: Numbers, predictions: Numbers) -> Numbers:
        wrong: NDArray[np.bool_] = (predictions >= 0.5) != (labels == 1.0)
        return wrong + 0.0 * _probability_of_label(labels, predictions)  # NaN where impossible

    def sql(label: str, prediction: str) -> str:
        known = f"{_sql_probability_of_label(label, prediction)} IS NOT NULL"
        wrong = f"({prediction} >= 0.5) <> ({label} = 1)"
        return f"(CASE WHEN {known} THEN CAST({wrong} AS DOUBLE) END)"

    def of_classes(chosen: Numbers, probabilities: Numbers, classes: Positions) -> Numbers:
        wrong: NDArray[np.bool_] = probabilities.argmax(axis=1) != classes
        return wrong + 0.0 * chosen  # NaN where impossible

    def sql_of_classes(chosen: str, probabilities: str, position: str) -> str:
        likeliest = f"list_position({probabilities}, list_max({probabilities}))"
        wrong = f"CAST({likeliest} <> {position} AS DOUBLE)"
        return f"(CASE WHEN {chosen} IS NOT NULL THEN {wrong} END)"

    classes = ClassLoss(of_classes, sql_of_classes, 1.0)
    return Metric("0-1", of_arrays, sql, (0.0, 1.0), classes, in_words="0-1 loss")


def _pinball(option: str) -> Metric:
    level = _number_or_nan(option)
    if not OPEN_FRACTION.holds(level):
        raise SettingError(
            "The pinball loss needs the level of the quantile that was predicted, strictly "
            f"between 0 and 1, as in 'pinball:0.9', got {option!r}."
        )

    def of_arrays(labels: Numbers, predictions: Numbers) -> Numbers:
        gaps = labels - predictions
        return gaps * (level - (gaps < 0.0))

    def sql(label: str, prediction: str) -> str:
        gap = f"({label} - {prediction})"
        return f"greatest({_literal(level)} * {gap}, {_literal(level - 1.0)} * {gap})"

    return Metric(f"pinball:{level:g}", of_arrays, sql, in_help="pinball:LEVEL")


def _literal(number: float) -> str:
    """A DOUBLE in SQL with all its digits; without a cast, 0.9 would be a DECIMAL."""
    return f"CAST({number!r} AS DOUBLE)"


def single_column(values: NDArray[Any]) -> NDArray[Any]:
    """One value per example (n,), also where a model gave them as a column (n, 1)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def as_numbers(values: Any) -> Numbers:
    """float64, with NaN for what is not a number; texts and booleans are read."""
    import numpy as np

    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    return np.array([_number_or_nan(value) for value in array.tolist()], dtype=np.float64)


def _number_or_nan(value: Any) -> float:
    text = str(value).strip().lower()
    if text in ("true", "false"):
        return float(text == "true")
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


_SQUARED = Metric(
    "squared",
    lambda y, p: (y - p) ** 2,
    lambda y, p: f"(({y} - {p}) * ({y} - {p}))",
    in_words="squared error",
)
_ABSOLUTE = Metric(
    "absolute", lambda y, p: abs(y - p), lambda y, p: f"abs({y} - {p})", in_words="absolute error"
)
_ALL = (_log_loss(0.0), _brier(), _zero_one(), _SQUARED, _ABSOLUTE, _pinball("0.9"))
DECLARED = {each.name.partition(":")[0]: each for each in _ALL}
"""Every metric by name, in the order of the help."""
METRICS = tuple(sorted(DECLARED))
_SHOWN = [each.in_help or each.name for each in _ALL]
METRICS_IN_HELP = f"{', '.join(_SHOWN[:-1])} or {_SHOWN[-1]}"
