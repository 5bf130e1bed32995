"""What every trained model is compared with: constants, ERM, and ERM recalibrated for the level."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from eqrm.data.tables.task import Task
from eqrm.level import Level
from eqrm.linear.scored_rows import Correction

Array = NDArray[np.float64]
ERM = "ERM"
BASE_RATE, EQUAL_ODDS, MEAN = "base rate", "equal odds", "mean"
BINS = 15
"""Of predicted probabilities, each with as many rows, for the calibration error."""


def trained_name(level: Level) -> str:
    """What the predictor trained for a level is called.

    >>> trained_name(Level(0.9)), trained_name(Level(1.0)), recalibrated_name(Level(0.9))
    ('α = 0.9', 'worst', 'ERM recalibrated for 0.9')
    """
    return "worst" if level == Level(1.0) else f"α = {level}"


def recalibrated_name(level: Level) -> str:
    """What ERM recalibrated for a level is called."""
    return f"ERM recalibrated for {level}"


def constant_scores(task: Task, labels: NDArray[Any]) -> dict[str, Array]:
    """The scores (1,) or (1, K) of constant predictors: the base rate and equal odds, or the mean.

    >>> found = constant_scores(Task(("no", "yes")), np.array([0, 0, 0, 1]))
    >>> {name: scores.round(2).tolist() for name, scores in found.items()}
    {'base rate': [-1.1], 'equal odds': [0.0]}
    """
    if not task.classes:
        return {MEAN: np.array([labels.mean()])}
    shares = np.bincount(labels, minlength=len(task.classes)) / len(labels)
    if len(shares) == 2:
        return {BASE_RATE: np.array([math.log(shares[1] / shares[0])]), EQUAL_ODDS: np.zeros(1)}
    return {BASE_RATE: np.log(shares)[None], EQUAL_ODDS: np.zeros((1, len(shares)))}


def recalibrated_copy(estimator: Any, correction: Correction) -> Any:
    """A fitted estimator of eqrm with corrected scores; the original stays as it is."""
    found = copy.copy(estimator)
    found._correct(correction)
    return found


@dataclass(frozen=True)
class Skill:
    """How well rows are predicted, all domains together.

    ``ranking`` is the area under the ROC curve of classes (one against the rest where there are
    several), or R² of numbers; ``accuracy`` and ``calibration_error`` are of classes only. The
    calibration error is the mean distance between predicted probability and observed frequency.
    """

    ranking: float
    accuracy: float | None = None
    calibration_error: float | None = None


def skill_of_numbers(target: Array, predictions: Array) -> Skill:
    """Of predicted numbers (n,)."""
    spread = float(((target - target.mean()) ** 2).sum())
    return Skill(1.0 - float(((target - predictions) ** 2).sum()) / spread if spread else math.nan)


def skill_of_classes(labels: NDArray[Any], probabilities: Array) -> Skill:
    """Of probabilities (n, K).

    >>> labels, certain = np.array([0, 1, 1, 0]), np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> skill_of_classes(labels, certain[[0, 1, 1, 0]])
    Skill(ranking=1.0, accuracy=1.0, calibration_error=0.15)
    """
    present = np.unique(labels)
    ranked = (1,) if probabilities.shape[1] == 2 else present
    ranking = math.nan
    if len(present) > 1:
        ranking = float(np.mean([_area(labels == k, probabilities[:, k]) for k in ranked]))
    guesses = probabilities.argmax(axis=1)
    if probabilities.shape[1] == 2:
        predicted, observed = probabilities[:, 1], labels == 1
    else:
        predicted, observed = probabilities.max(axis=1), guesses == labels
    order = np.argsort(predicted, kind="stable")
    parts = np.array_split(order, min(BINS, len(order)))
    away = [len(p) * abs(predicted[p].mean() - observed[p].mean()) for p in parts]
    error = round(float(np.sum(away)) / len(order), 12)
    return Skill(ranking, float((labels == guesses).mean()), error)


def _area(positive: NDArray[np.bool_], scores: Array) -> float:
    """The area under the ROC curve: how often a positive scores higher than a negative."""
    inside = int(positive.sum())
    above = rankdata(scores)[positive].sum() - inside * (inside + 1) / 2
    return float(above / (inside * (len(positive) - inside)))
