"""Is it worth it? What training for a level gains over everything simpler, on unseen domains.

The predictor trained for the level, and ERM recalibrated for it, were chosen on training domains.
On domains that a predictor has not seen, α-quantiles of risk are compared: differences are paired
by domain, in units of the reference's quantile, with an interval. A difference below ``MARGIN`` is
ignored. A gain is claimed over every reference at once, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eqrm.evaluation.inference.gains import (
    MARGIN,
    Gain,
    clearly_lower,
    fewest_to_compare,
    gain_over,
)
from eqrm.evaluation.rounding import as_needed, as_percent
from eqrm.level import Level

Array = NDArray[np.float64]
HELPS = "training helps"
RECALIBRATE = "recalibration is enough"
NOTHING = "nothing helps"
UNKNOWN = "cannot tell"


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
        if domains < fewest_to_compare(level, confidence):
            pass
        elif clearly_lower(of_training):
            kind = HELPS
        elif any(gain.excluded for gain in of_training):
            if clearly_lower(of_recalibration):
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
        training = f"{self.trained.words} ({sure} interval {self.trained.interval})"
        recalibration = f"{self.recalibrated.words} ({self.recalibrated.interval})"
        size = as_percent(MARGIN)
        what = f"the {self.level}-quantile of risk on {self.domains} unseen domains"
        if self.kind == HELPS:
            return (
                f"Training for {self.trained.predictor} helps: {what} is {training}, the best of "
                "the references."
            )
        if self.kind == RECALIBRATE:
            more = "nothing" if self.trained.change > MARGIN else f"less than another {size}"
            return (
                f"Recalibration is enough for α = {self.level}: {what} is {recalibration} for ERM "
                f"with shifted or scaled scores. Training for the level gains {more} by the "
                f"estimate: {self.trained.roughly}."
            )
        if self.kind == NOTHING:
            return (
                f"Nothing helps for α = {self.level}: {what} is {self.trained.roughly} for the "
                f"model trained for the level, and {self.recalibrated.roughly} for recalibrated "
                f"ERM: less than {size} lower by these estimates. Use the simplest, "
                f"{self.recalibrated.reference}."
            )
        needed = fewest_to_compare(self.level, self.confidence)
        if self.domains < needed:
            return (
                f"These data cannot tell whether training for α = {self.level} is worth it: "
                f"{self.domains} unseen domains are too few to compare quantiles at this level, "
                f"{as_needed(needed)} are needed."
            )
        open_question = "training for the level"
        if self.trained.excluded:
            open_question = "recalibration"
        return (
            f"These data cannot tell what is worth it for α = {self.level}: {what} is {training} "
            f"for the model trained for the level, and {recalibration} for recalibrated ERM. "
            f"Whether {open_question} gains more than {size} is neither shown nor ruled out; more "
            "domains would decide."
        )

    @property
    def favoured(self) -> str | None:
        """The predictor that the verdict favours; None where it cannot tell."""
        found = {
            HELPS: self.trained.predictor,
            RECALIBRATE: self.recalibrated.predictor,
            NOTHING: self.recalibrated.reference,
        }
        return found.get(self.kind)
