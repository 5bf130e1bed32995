"""The losses that labels and predictions are measured with, as arrays and as SQL.

A loss that cannot be computed (a missing label, a probability outside [0, 1], log of 0) is NaN
in arrays and NULL in SQL; :mod:`~eqrm.evaluation.measuring.unusable_rows` then says which rows and
why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import SettingError, did_you_mean

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A loss of one label and one prediction.

    ``of_arrays`` takes labels and predictions as float64; ``sql`` takes two SQL expressions of
    type DOUBLE and gives one. ``bounds`` are the least and the largest loss there can be.
    With ``probabilities``, predictions are probabilities of the label 1 and labels 0 or 1.
    """

    name: str
    of_arrays: Callable[[Numbers, Numbers], Numbers]
    sql: Callable[[str, str], str]
    bounds: tuple[float, float]
    probabilities: bool = False


METRICS = ("0-1", "absolute", "brier", "log-loss", "pinball", "squared")


def metric_of(name: str, clip: float = 0.0) -> Metric:
    """The metric of a name; ``pinball:0.9`` is the pinball loss of the .9-quantile.

    ``clip`` keeps the probabilities of the log-loss at least that far from 0 and 1.

    >>> metric_of("squared").of_arrays(np.array([1.0, 2.0]), np.array([1.5, 0.0])).tolist()
    [0.25, 4.0]
    >>> metric_of("pinball:0.9").of_arrays(np.array([1.0, 2.0]), np.array([2.0, 1.0])).round(2)
    array([0.1, 0.9])
    >>> metric_of("logloss")
    Traceback (most recent call last):
    ...
    eqrm.errors.SettingError: There is no metric 'logloss'. Did you mean 'log-loss'? ...
    """
    kind, _, option = name.partition(":")
    if kind == "pinball":
        return _pinball(option)
    if kind not in METRICS or option:
        raise SettingError(f"There is no metric {name!r}. {did_you_mean(name, METRICS)}")
    if kind == "log-loss":
        return _log_loss(clip)
    return {"0-1": _zero_one, "absolute": _absolute, "brier": _brier, "squared": _squared}[kind]()


def probability_of_label(labels: Numbers, predictions: Numbers) -> Numbers:
    """p where the label is 1, 1 − p where it is 0; NaN where either is impossible."""
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
        raise SettingError(f"clip must lie between 0 and 0.5, but it is {clip!r}.")

    def of_arrays(labels: Numbers, predictions: Numbers) -> Numbers:
        return minus_log(probability_of_label(labels, predictions), clip)

    def sql(label: str, prediction: str) -> str:
        return sql_minus_log(_sql_probability_of_label(label, prediction), clip)

    return Metric("log-loss", of_arrays, sql, (0.0, _largest_log_loss(clip)), True)


def _largest_log_loss(clip: float) -> float:
    return -math.log(clip) if clip > 0.0 else math.inf


def minus_log(probabilities: Numbers, clip: float) -> Numbers:
    """−log p, NaN where p is 0 or not there; p is kept within [clip, 1 − clip]."""
    if clip > 0.0:
        probabilities = probabilities.clip(clip, 1.0 - clip)
    usable = np.where(probabilities > 0.0, probabilities, np.nan)
    losses: Numbers = -np.log(usable) + 0.0
    return losses


def sql_minus_log(probability: str, clip: float) -> str:
    """The same in SQL; DuckDB's logarithm raises an error at 0, so 0 must not reach it."""
    if clip > 0.0:
        low, high = _literal(clip), _literal(1.0 - clip)
        kept = f"least(greatest({probability}, {low}), {high})"
        return f"(CASE WHEN {probability} IS NOT NULL THEN -ln({kept}) END)"
    return f"(CASE WHEN {probability} > 0 THEN -ln({probability}) END)"


def _brier() -> Metric:
    def of_arrays(labels: Numbers, predictions: Numbers) -> Numbers:
        return (1.0 - probability_of_label(labels, predictions)) ** 2

    def sql(label: str, prediction: str) -> str:
        miss = f"(1 - {_sql_probability_of_label(label, prediction)})"
        return f"({miss} * {miss})"

    return Metric("brier", of_arrays, sql, (0.0, 1.0), True)


def _zero_one() -> Metric:
    def of_arrays(labels: Numbers, predictions: Numbers) -> Numbers:
        known = ~np.isnan(probability_of_label(labels, predictions))
        wrong = (predictions >= 0.5) != (labels == 1.0)
        return np.where(known, wrong.astype(np.float64), np.nan)

    def sql(label: str, prediction: str) -> str:
        known = f"{_sql_probability_of_label(label, prediction)} IS NOT NULL"
        wrong = f"({prediction} >= 0.5) <> ({label} = 1)"
        return f"(CASE WHEN {known} THEN CAST({wrong} AS DOUBLE) END)"

    return Metric("0-1", of_arrays, sql, (0.0, 1.0), True)


def _squared() -> Metric:
    def sql(label: str, prediction: str) -> str:
        return f"(({label} - {prediction}) * ({label} - {prediction}))"

    return Metric("squared", lambda y, p: (y - p) ** 2, sql, (0.0, math.inf))


def _absolute() -> Metric:
    def of_arrays(labels: Numbers, predictions: Numbers) -> Numbers:
        return np.abs(labels - predictions)

    return Metric("absolute", of_arrays, lambda y, p: f"abs({y} - {p})", (0.0, math.inf))


def _pinball(option: str) -> Metric:
    try:
        level = float(option)
    except ValueError:
        level = math.nan
    if not 0.0 < level < 1.0:
        raise SettingError(
            "The pinball loss needs the level of the quantile that was predicted, between 0 and "
            f"1, as in 'pinball:0.9', but {option!r} came."
        )

    def of_arrays(labels: Numbers, predictions: Numbers) -> Numbers:
        gaps = labels - predictions
        return np.maximum(level * gaps, (level - 1.0) * gaps)

    def sql(label: str, prediction: str) -> str:
        gap = f"({label} - {prediction})"
        return f"greatest({_literal(level)} * {gap}, {_literal(level - 1.0)} * {gap})"

    return Metric(f"pinball:{level:g}", of_arrays, sql, (0.0, math.inf))


def _literal(number: float) -> str:
    """A DOUBLE in SQL with all its digits; without a cast, 0.9 would be a DECIMAL."""
    return f"CAST({number!r} AS DOUBLE)"


def as_numbers(values: Any) -> Numbers:
    """float64, with NaN for what is no number; texts and booleans are read.

    >>> as_numbers(["1", "x", None]).tolist(), as_numbers(np.array([True, False])).tolist()
    ([1.0, nan, nan], [1.0, 0.0])
    """
    array = np.asarray(values)
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
