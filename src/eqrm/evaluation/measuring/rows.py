"""Labels and predictions, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
