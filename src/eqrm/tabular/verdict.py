"""Is it worth it? What training for a level gains over everything simpler, on unseen domains.

The predictor trained for the level, and ERM recalibrated for it, were chosen on training domains.
On domains that a predictor has not seen, α-quantiles of risk are compared: differences are paired
by domain, in units of the reference's quantile, with a bootstrap interval. A difference below
``MARGIN`` is not worth speaking of. A gain is claimed over every reference at once, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eqrm.evaluation.inference.resampling import resampled_smooth_quantiles
from eqrm.evaluation.rounding import as_percent
from eqrm.level import Level

Array = NDArray[np.float64]
MARGIN = 0.02
RESAMPLES = 1000
FEWEST_BEYOND = 3.0
"""Domains that must lie beyond a level, on average, before anything is said of it."""
HELPS = "training helps"
RECALIBRATE = "recalibration is enough"
NOTHING = "nothing helps"
UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Gain:
    """The change of a quantile from a ``reference`` to a ``predictor``, as a share of the first.

    ``low`` and ``high`` hold it with the stated confidence, and ``least`` bounds it from below
    with the same confidence. Negative is better.
    """

    predictor: str
    reference: str
    change: float
    low: float
    high: float
    least: float

    @property
    def excluded(self) -> bool:
        """Certainly not lower by more than the margin."""
        return self.least > -MARGIN


def gain_over(
    risks: Mapping[str, Array], predictor: str, reference: str, level: Level, confidence: float
) -> Gain:
    """Compare two predictors on the same domains.

    >>> risks = np.random.default_rng(0).random(200)
    >>> found = gain_over({"a": risks, "b": 0.9 * risks}, "b", "a", Level(0.9), 0.95)
    >>> round(found.change, 3), round(found.high - found.low, 3)
    (-0.1, 0.0)
    """
    both = np.stack([risks[predictor], risks[reference]])
    values, drawn = resampled_smooth_quantiles(both, level, RESAMPLES, seed=0)
    unit = abs(float(values[1])) or 1.0
    change = float(values[0] - values[1]) / unit
    scale = np.maximum(np.abs(drawn[:, 1]), 1e-300) if values[1] else 1.0
    error = float(np.std((drawn[:, 0] - drawn[:, 1]) / scale))
    width, one_sided = ndtri(0.5 + confidence / 2.0) * error, ndtri(confidence) * error
    ends = change - width, change + width, change - one_sided
    return Gain(predictor, reference, change, *map(float, ends))


@dataclass(frozen=True)
class Verdict:
    """What to think of a level: ``kind`` is one of the four constants of this module.

    ``trained`` compares the predictor trained for the level with the best of the references,
    ``recalibrated`` recalibrated ERM with the best of the simple ones, on ``domains`` domains that
    none of them has seen.
    """

    level: Level
    kind: str
    trained: Gain
    recalibrated: Gain
    domains: int
    confidence: float

    @classmethod
    def of(
        cls,
        level: Level,
        risks: Mapping[str, Array],
        trained: str,
        recalibrated: str,
        references: Sequence[str],
        confidence: float = 0.95,
    ) -> Verdict:
        """From risks on unseen domains.

        ``references`` are recalibrated ERM and everything simpler, the best one on training
        domains first.
        """
        simple = [name for name in references if name != recalibrated]
        of_training = [gain_over(risks, trained, r, level, confidence) for r in references]
        of_recalibration = [gain_over(risks, recalibrated, r, level, confidence) for r in simple]
        domains, kind = len(risks[trained]), UNKNOWN
        if domains * level.tail < FEWEST_BEYOND:
            pass
        elif _clear(of_training):
            kind = HELPS
        elif any(gain.excluded for gain in of_training):
            if _clear(of_recalibration):
                kind = RECALIBRATE
            elif any(gain.excluded for gain in of_recalibration):
                kind = NOTHING
        best = max(of_training, key=lambda gain: gain.change)
        second = max(of_recalibration, key=lambda gain: gain.change)
        return cls(level, kind, best, second, domains, confidence)

    @property
    def sentence(self) -> str:
        """The verdict, with the numbers it rests on."""
        sure = as_percent(self.confidence)
        training = f"{_told(self.trained)} ({sure} interval {_ends(self.trained)})"
        recalibration = f"{_told(self.recalibrated)} ({_ends(self.recalibrated)})"
        what = f"the {self.level}-quantile of risk on {self.domains} unseen domains"
        if self.kind == HELPS:
            return (
                f"Training for {self.trained.predictor} helps: {what} is {training}, the best of "
                "the references."
            )
        if self.kind == RECALIBRATE:
            return (
                f"Recalibration is enough for α = {self.level}: {what} is {recalibration} for ERM "
                f"with shifted or scaled scores; training for the level gives no more: {training}."
            )
        if self.kind == NOTHING:
            return (
                f"Nothing helps for α = {self.level}: {what} is {training} for the model trained "
                f"for the level, and {recalibration} for recalibrated ERM. Use the simplest, "
                f"{self.recalibrated.reference}."
            )
        return (
            f"These data cannot tell whether training for α = {self.level} is worth it: {what} is "
            f"{training} for the model trained for the level, and {recalibration} for "
            f"recalibrated ERM. A difference of {as_percent(MARGIN)} is neither shown nor ruled "
            "out; more domains would decide."
        )


def _clear(gains: Sequence[Gain]) -> bool:
    """Lower than every reference by more than the margin; than the best one beyond doubt."""
    return all(gain.change < -MARGIN for gain in gains) and gains[0].high < 0.0


def _told(gain: Gain) -> str:
    """The change in words, against what.

    >>> _told(Gain("b", "ERM", -0.053, -0.1, 0.0, 0.0))
    "5.3% below that of 'ERM'"
    """
    size = f"{abs(gain.change):.1%}"
    if size == "0.0%":
        return f"equal to that of {gain.reference!r}"
    return f"{size} {'below' if gain.change < 0.0 else 'above'} that of {gain.reference!r}"


def _ends(gain: Gain) -> str:
    return f"{gain.low:+.1%} to {gain.high:+.1%}"
