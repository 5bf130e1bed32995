"""How sure each statistic of the risks is, and whether one model is better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eqrm.checks import CONFIDENCE, one_of
from eqrm.errors import DomainDataError
from eqrm.evaluation.inference import intervals
from eqrm.evaluation.inference.intervals import Ends
from eqrm.evaluation.inference.risk_checks import (
    Finding,
    LevelLike,
    Vector,
    as_levels,
    checked_risks,
)
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.evaluation.rounding import as_needed, as_percent
from eqrm.level import Level

LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99)
MEAN, QUANTILE, SUPERQUANTILE = "mean", "quantile", "superquantile"
SMOOTH = "smooth"
QUANTILES = ("step", SMOOTH)
"""How a quantile of differences is estimated."""


@dataclass(frozen=True, kw_only=True)
class _Bounded(Finding):
    """A statistic of the risks of ``domains`` domains, between limits that hold with a confidence.

    ``statistic`` is "mean", "quantile" or "superquantile", the last two at a ``level``. An end
    is infinite where the domains cannot bound it; ``needed`` is how many domains both ends need.
    """

    statistic: str
    level: float | None
    low: float
    high: float
    confidence: float
    domains: int
    needed: float

    @property
    def label(self) -> str:
        """The statistic as a heading: "mean", "0.9" for a quantile, "beyond 0.9"."""
        level = "" if self.level is None else f"{self.level:.6g}"
        return {MEAN: MEAN, QUANTILE: level}.get(self.statistic, f"beyond {level}")

    @property
    def refused(self) -> bool:
        """Whether neither end can be given."""
        return math.isinf(self.low) and math.isinf(self.high)


@dataclass(frozen=True, kw_only=True)
class Interval(_Bounded):
    """A statistic of the risks of one model, with a confidence interval."""

    derived = ()

    value: float


@dataclass(frozen=True, kw_only=True)
class Difference(_Bounded):
    """A statistic of two models on the same domains: second − first, with an interval."""

    derived = ("value", "clear", "sentence")

    first: float
    second: float

    @property
    def value(self) -> float:
        """second − first: negative where the second model has the lower risk."""
        return self.second - self.first

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def sentence(self) -> str:
        """A sentence that says which model is better."""
        name = self.statistic if self.level is None else f"{self.level:.6g}-{self.statistic}"
        if self.refused:
            why = "it is the same in all domains"
            if self.domains < self.needed:
                why = f"{self.domains} domains are too few, {as_needed(self.needed)} are needed"
            return (
                f"Difference in the {name} of risk: {self.value:+.4g}, without an interval: {why}."
            )
        ends = f"{as_percent(self.confidence)} interval {self.low:.4g} to {self.high:.4g}"
        if not self.clear:
            return f"No clear difference in the {name} of risk: {self.value:+.4g} ({ends})."
        order = "lower" if self.value < 0.0 else "higher"
        return f"The second model has the {order} {name} of risk: {self.value:+.4g} ({ends})."


def risk_intervals(
    risks: Any, alpha: LevelLike | Sequence[LevelLike] = LEVELS, confidence: float = 0.95
) -> list[Interval]:
    """Mean, quantiles and superquantiles of the risks, each with a confidence interval.

    Quantiles get two order statistics, which hold for every law of the risk; the mean, and
    superquantiles as means of scores, Student's t with a cautious correction for skewness. An end
    is infinite where m domains are too few for it: a mean needs 30 (44 at 99%), a superquantile 10
    domains beyond its level as well.
    """
    values, asked = checked_risks(risks), CONFIDENCE.check(confidence, "confidence")
    found = []
    for kind, level in _statistics(as_levels(alpha)):
        if level is None:
            ends = intervals.mean_interval(values, asked)
        elif kind == QUANTILE:
            ends = intervals.order_statistic_interval(values, level, asked)
        else:
            ends = intervals.superquantile_interval(values, level, asked)
        value = _estimate(values, kind, level)
        found.append(Interval(value=value, **_bounded(ends, kind, level, values.size, asked)))
    return found


def paired_differences(
    first: Any,
    second: Any,
    alpha: LevelLike | Sequence[LevelLike] = LEVELS,
    confidence: float = 0.95,
    *,
    interpolation: str = "step",
) -> list[Difference]:
    """Differences second − first in mean, quantiles and superquantiles, paired by domain.

    ``first`` and ``second`` (m,) are the risks of two models on the same domains, in the
    same order. Intervals of mean and superquantiles are those of :func:`risk_intervals`, of the
    differences domain by domain. That of a quantile spans all pairs of quantiles that a likelihood
    ratio test does not reject, and holds for every law in the limit of many domains.
    ``interpolation`` of quantiles is "step", an order statistic, or "smooth", the Harrell–Davis
    estimate.

    >>> import numpy as np
    >>> easy, noise = np.random.default_rng(0).lognormal(size=(2, 300))
    >>> mean = paired_differences(easy, easy + 0.1 * noise, alpha=0.9)[0]
    >>> round(mean.value, 2), mean.clear
    (0.15, True)
    """
    one, two = checked_risks(first, "The first risks"), checked_risks(second, "The second risks")
    if one.size != two.size:
        raise DomainDataError(
            f"Differences are paired by domain, but the first model has {one.size} domains "
            f"and the second has {two.size}."
        )
    asked, given = CONFIDENCE.check(confidence, "confidence"), as_levels(alpha)
    smooth = one_of(interpolation, QUANTILES, "interpolation") == SMOOTH
    found = []
    for kind, level in _statistics(given):
        before, after = (
            smooth_quantile(risks, level)
            if smooth and kind == QUANTILE and level is not None
            else _estimate(risks, kind, level)
            for risks in (one, two)
        )
        low, high = _ends_of_difference(one, two, kind, level, asked)
        ends = min(low, after - before), max(high, after - before)
        bounded = _bounded(ends, kind, level, one.size, asked)
        found.append(Difference(first=before, second=after, **bounded))
    return found


def _ends_of_difference(
    one: Vector, two: Vector, kind: str, level: Level | None, confidence: float
) -> Ends:
    if level is None:
        return intervals.mean_interval(two - one, confidence)
    if kind == QUANTILE:
        pairs = intervals.quantile_pairs(one, two, level, confidence)
        return intervals.OPEN if pairs is None else pairs.difference()
    return intervals.superquantile_difference(one, two, level, confidence)


def _statistics(levels: Sequence[Level]) -> list[tuple[str, Level | None]]:
    """Kinds and levels of all statistics."""
    kinds = (QUANTILE, SUPERQUANTILE)
    return [(MEAN, None), *((kind, level) for kind in kinds for level in levels)]


def _bounded(
    ends: Ends, kind: str, level: Level | None, domains: int, confidence: float
) -> dict[str, Any]:
    """The fields of :class:`_Bounded`."""
    if level is None:
        needed = intervals.mean_needs(confidence)
    elif kind == QUANTILE:
        needed = intervals.quantile_needs(level, (1.0 - confidence) / 2.0)
    else:
        needed = intervals.superquantile_needs(level, confidence)
    return {
        "statistic": kind,
        "level": None if level is None else level.alpha,
        "low": ends[0],
        "high": ends[1],
        "confidence": confidence,
        "domains": domains,
        "needed": needed,
    }


def _estimate(risks: Vector, kind: str, level: Level | None) -> float:
    """The statistic of the empirical distribution."""
    if level is None:
        return float(risks[0] + (risks - risks[0]).mean())  # exact where all risks are equal
    quantile = intervals.sample_quantile(risks, level)
    if kind == QUANTILE or level.tail == 0.0:
        return quantile
    scores = intervals.superquantile_scores(risks, level, quantile)
    return float(scores.min() + (scores - scores.min()).mean())
