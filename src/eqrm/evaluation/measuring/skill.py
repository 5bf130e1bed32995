"""How well rows are predicted, all domains together: AUC or R², accuracy, calibration error."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.evaluation.measuring.set_metrics import roc_area

Array = NDArray[np.float64]
BINS = 15
"""Of predicted probabilities, each with as many rows, for the calibration error."""


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

    @property
    def named(self) -> dict[str, float]:
        """The numbers by the names that tables give them; NaN where one is not defined.

        >>> Skill(0.8).named, Skill(0.7, 0.6, 0.1).named
        ({'R²': 0.8}, {'AUC': 0.7, 'accuracy': 0.6, 'calibration': 0.1})
        """
        if self.accuracy is None or self.calibration_error is None:
            return {"R²": self.ranking}
        return {
            "AUC": self.ranking,
            "accuracy": self.accuracy,
            "calibration": self.calibration_error,
        }

    @property
    def above_chance(self) -> float:
        """The ranking above that of a constant: AUC − ½, or R²; 0 where it is not defined."""
        found = self.ranking if self.accuracy is None else self.ranking - 0.5
        return 0.0 if math.isnan(found) else found

    def to_dict(self) -> dict[str, float | None]:
        """Plain data; a ranking that is not defined, for lack of a second class, is None."""
        return {k: None if v is None or math.isnan(v) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Skill:
        """The reverse of :meth:`to_dict`."""
        ranking = content["ranking"]
        return cls(
            math.nan if ranking is None else ranking,
            content["accuracy"],
            content["calibration_error"],
        )


def skill_of_numbers(target: Array, predictions: Array) -> Skill:
    """Of predicted numbers (n,)."""
    spread = float(((target - target.mean()) ** 2).sum())
    return Skill(1.0 - float(((target - predictions) ** 2).sum()) / spread if spread else math.nan)


def skill_of_classes(labels: NDArray[Any], probabilities: Array) -> Skill:
    """Of probabilities (n, K), or (n,) of the second of two classes.

    >>> labels, certain = np.array([0, 1, 1, 0]), np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> skill_of_classes(labels, certain[[0, 1, 1, 0]])
    Skill(ranking=1.0, accuracy=1.0, calibration_error=0.15)
    """
    if probabilities.ndim == 1:
        probabilities = np.column_stack([1.0 - probabilities, probabilities])
    present = np.unique(labels)
    ranked = (1,) if probabilities.shape[1] == 2 else present
    ranking = math.nan
    if len(present) > 1:
        ranking = float(np.mean([roc_area(labels == k, probabilities[:, k]) for k in ranked]))
    guesses = probabilities.argmax(axis=1)
    if probabilities.shape[1] == 2:
        predicted, observed = probabilities[:, 1], labels == 1
    else:
        predicted, observed = probabilities.max(axis=1), guesses == labels
    # Bins of about as many rows each; equal predictions are in one.
    ascending = np.sort(predicted)
    edges = np.unique(ascending[np.arange(1, BINS) * len(ascending) // BINS])
    bins = np.searchsorted(edges, predicted, side="right")
    counts = np.bincount(bins)
    away = np.bincount(bins, predicted) - np.bincount(bins, observed.astype(float))
    error = round(float(np.abs(away[counts > 0]).sum()) / len(predicted), 12)
    return Skill(ranking, float((labels == guesses).mean()), error)
