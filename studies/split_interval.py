"""Means over random splits of the domains, with what they may be off by.

Splits overlap, so that their spread understates the uncertainty of a mean over them; the variance
is multiplied by 1/S + test/train instead of 1/S (Nadeau & Bengio 2003, the corrected resampled t).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

Array = NDArray[np.float64]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class SplitInterval:
    """A mean over splits, and its standard error times Student's t (NaN with one split)."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Array, test_to_train: float) -> SplitInterval:
        """The corrected resampled t; differences are taken over the same splits."""
        number = len(values)
        if number < 2:
            return cls(round(float(values.mean()), 12), math.nan)
        variance = float(values.var(ddof=1)) * (1.0 / number + test_to_train)
        times = float(t.ppf(0.5 + CONFIDENCE / 2.0, number - 1))
        return cls(round(float(values.mean()), 12), times * math.sqrt(variance))

    @classmethod
    def average(
        cls, intervals: Sequence[SplitInterval], sources: Sequence[str] | None = None
    ) -> SplitInterval:
        """Of the means of several tables.

        Tables are independent of each other; those of one source have the same errors at worst.
        """
        halves: dict[str | int, float] = {}
        for place, each in enumerate(intervals):
            source = place if sources is None else sources[place]
            halves[source] = halves.get(source, 0.0) + each.half
        half = math.sqrt(sum(each**2 for each in halves.values())) / len(intervals)
        return cls(float(np.mean([each.mean for each in intervals])), half)

    @property
    def word(self) -> str:
        """Lower, higher, or a tie."""
        if self.mean + self.half < 0.0:
            return "lower"
        return "higher" if self.mean - self.half > 0.0 else "tie"

    def __str__(self) -> str:
        return f"{100.0 * self.mean:+.1f}% ± {100.0 * self.half:.1f}"
