"""Gains of a model over references at a level: paired by domain, and over all of them or none.

α-quantiles of risk are compared on the same domains, in units of the reference's quantile, with the
interval of :func:`eqrm.evaluation.inference.intervals.quantile_pairs`. A difference below
``MARGIN`` is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eqrm.evaluation.inference.intervals import OPEN, quantile_needs, quantile_pairs
from eqrm.evaluation.inference.risk_checks import Finding
from eqrm.evaluation.inference.sureness import resampled_smooth_quantiles
from eqrm.evaluation.rounding import as_needed, as_percent
from eqrm.level import Level

Array = NDArray[np.float64]
MARGIN = 0.02
DOUBT = float(ndtri(0.9))
"""Standard errors by which an estimate must keep clear of a gain that is ruled out. A gain is
claimed with more certainty: to claim one wrongly costs the work of training, to miss a small one
costs little."""
RESAMPLES = 1000
HUGE = 10.0
"""From this multiple of the reference on, a change is not told in percent."""


@dataclass(frozen=True)
class Gain(Finding):
    """The change of a quantile from a ``reference`` to a ``model``, as a share of the first.

    ``low`` and ``high`` hold it with the stated confidence (the study ``intervals``); they are
    infinite where there are too few domains, or where the reference's quantile may be 0. ``error``
    is the standard error of the change by a bootstrap over domains. Negative is better.
    """

    derived = ("excluded",)

    model: str
    reference: str
    change: float
    low: float
    high: float
    error: float

    @property
    def words(self) -> str:
        """The change, against what."""
        size = _size(self.change)
        if size == "0.0%":
            return f"equal to that of {self.reference!r}"
        if self.change >= HUGE:
            return f"above that of {self.reference!r} by {size} its size"
        return f"{size} {'below' if self.change < 0.0 else 'above'} that of {self.reference!r}"

    @property
    def interval(self) -> str:
        """Its ends, in percent."""
        if not math.isfinite(self.low + self.high):
            return "not bounded"
        return " to ".join(f"{'-' if e < 0.0 else '+'}{_size(e)}" for e in (self.low, self.high))

    @property
    def higher(self) -> bool:
        """Higher than the reference by more than the margin, and beyond doubt."""
        return self.change > MARGIN and self.low > 0.0

    @property
    def excluded(self) -> bool:
        """Lower by less than the margin, and hardly by twice the margin."""
        return self.change > -MARGIN and self.change - DOUBT * self.error > -2.0 * MARGIN


def _size(change: float) -> str:
    """How large a change is: in percent, and as a multiple of the reference where it is huge.

    >>> [_size(change) for change in (-0.053, 4.2, 12.34, 20967.3)]
    ['5.3%', '420.0%', '12 times', '21,000 times']
    """
    size = abs(change)
    return f"{size:.1%}" if size < HUGE else f"{float(f'{size:.2g}'):,.0f} times"


def gain_over(
    risks: Mapping[str, Array], model: str, reference: str, level: Level, confidence: float
) -> Gain:
    """Compare two models on the same domains."""
    both = np.stack([risks[reference], risks[model]])
    (before, after), drawn = resampled_smooth_quantiles(both, level, RESAMPLES, seed=0)
    unit = abs(float(before)) or 1.0
    change = float(after - before) / unit
    scale = np.maximum(np.abs(drawn[:, 0]), 1e-300) if before else 1.0
    error = float(np.std((drawn[:, 1] - drawn[:, 0]) / scale))
    pairs = quantile_pairs(both[0], both[1], level, confidence)
    low, high = OPEN if pairs is None else pairs.change()
    return Gain(model, reference, change, min(low, change), max(high, change), error)


def fewest_to_compare(level: Level, confidence: float) -> float:
    """The fewest domains on which quantiles at a level can be compared."""
    return quantile_needs(level, (1.0 - confidence) / 2.0)


def clearly_lower(gains: Sequence[Gain]) -> bool:
    """Lower than the best of the references by more than the margin, and beyond doubt."""
    best = max(gains, key=lambda gain: gain.change)
    return best.change < -MARGIN and best.high < 0.0


@dataclass(frozen=True)
class BesideReferences:
    """A model at a level, beside its references: what to think of it, and what to use.

    ``gains`` compare it with each reference, the one with the lowest quantile first;
    ``recalibrates`` says which reference is the recalibration of which model. ``means`` are
    mean risks; ``domains`` is how many there are.
    """

    model: str
    level: Level
    gains: tuple[Gain, ...]
    means: Mapping[str, float]
    recalibrates: Mapping[str, str]
    domains: int
    confidence: float

    @classmethod
    def of(
        cls,
        model: str,
        own: Array,
        references: Mapping[str, Array],
        recalibrates: Mapping[str, str],
        level: Level,
        confidence: float,
    ) -> BesideReferences:
        """From the risks of a model and its references on the same domains."""
        risks: dict[str, Array] = {model: own, **references}
        found = [gain_over(risks, model, name, level, confidence) for name in references]
        # Of equally low ones, its own recalibration.
        gains = sorted(
            found,
            key=lambda g: (-round(g.change, 3), recalibrates.get(g.reference) != model),
        )
        means = {name: float(values.mean()) for name, values in risks.items()}
        return cls(model, level, tuple(gains), means, recalibrates, len(own), confidence)

    @property
    def rivals(self) -> list[Gain]:
        """The gains over all references but its own recalibration."""
        return [g for g in self.gains if self.recalibrates.get(g.reference) != self.model]

    @property
    def clear(self) -> bool:
        """Whether it is lower than every rival, beyond doubt and margin."""
        return self._enough and clearly_lower(self.rivals)

    @property
    def beaten(self) -> bool:
        """Whether a reference has a lower quantile, beyond doubt and margin."""
        return self._better is not None

    @property
    def _better(self) -> Gain | None:
        """The lowest of the references that are better."""
        clear = (g for g in self.gains if g.higher)
        return next(clear, None) if self._enough else None

    @property
    def _enough(self) -> bool:
        return self.domains >= fewest_to_compare(self.level, self.confidence)

    @property
    def sentence(self) -> str:
        """The comparison with the best reference, and what follows."""
        better, rival = self._better, self.rivals[0]
        if not self._enough:
            needed = fewest_to_compare(self.level, self.confidence)
            told = (
                f"{self.domains} domains are too few to compare with references at this level: "
                f"{as_needed(needed)} are needed."
            )
        elif better is not None:
            told = f"A reference is better: {self._stated(better)}. {self._instead(better)}"
        elif self.clear:
            but = " but its own recalibration" if len(self.rivals) < len(self.gains) else ""
            told = f"Lower than all references{but}: {self._stated(rival)}, the best of them."
            told += self._own()
        elif abs(rival.change) <= MARGIN:
            told = f"About as low as the best reference: {self._stated(rival)}.{self._own()}"
        else:
            told = f"Not clearly different from the best reference: {self._stated(rival)}."
            told += self._own()
        return " ".join([told, *self._dearer()])

    def _stated(self, gain: Gain) -> str:
        sure = as_percent(self.confidence)
        return (
            f"the {self.level}-quantile of risk is {gain.words} ({sure} interval {gain.interval})"
        )

    def _own(self) -> str:
        """What its own recalibration would change."""
        for gain in self.gains:
            if gain not in self.rivals:
                effect = "changes little" if abs(gain.change) <= MARGIN else "is not clearly better"
                return f" Recalibration {effect}: it is {gain.words} ({gain.interval})."
        return ""

    def _instead(self, better: Gain) -> str:
        source = self.recalibrates.get(better.reference)
        if source is None:
            return "At this level a constant does better: the predictions are too sure."
        whose = "it" if source == self.model else repr(source)
        return f"Recalibrate {whose} (eqrm recalibrate)."

    def _dearer(self) -> list[str]:
        """A constant with a lower mean risk, if there is one."""
        constants = [g.reference for g in self.gains if g.reference not in self.recalibrates]
        best, own = min(constants, key=self.means.__getitem__), self.means[self.model]
        shown, other = f"{own:.4g}", f"{self.means[best]:.4g}"
        if self.means[best] >= own or shown == other:
            return []
        return [
            f"Its mean risk, {shown}, is higher than that of {best!r}, {other}: "
            "on average the constant predicts better."
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "level": str(self.level),
            "sentence": self.sentence,
            "clear": self.clear,
            "beaten": self.beaten,
            "gains": [gain.to_dict() for gain in self.gains],
        }
