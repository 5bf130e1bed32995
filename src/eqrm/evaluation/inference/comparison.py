"""How sure each statistic of the risks is, and whether one predictor is better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.checks import OPEN_FRACTION, integer, one_of
from eqrm.errors import DomainDataError
from eqrm.evaluation.inference import binomial_ranks
from eqrm.evaluation.inference.finding import Finding
from eqrm.evaluation.inference.resampling import (
    resampled_smooth_quantiles,
    resampled_statistics,
    statistics_of,
)
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector, as_levels, checked_risks
from eqrm.evaluation.rounding import as_percent
from eqrm.level import Level

LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99)
SMOOTH = "smooth"
QUANTILES = ("step", SMOOTH)
"""How a quantile of differences is estimated."""
FEW_IN_TAIL = 10
"""Fewer domains than this beyond a level make a bootstrap of its superquantile unreliable."""


@dataclass(frozen=True, kw_only=True)
class _Bounded(Finding):
    """A statistic of the risks between two limits that hold with a confidence.

    ``statistic`` is "mean", "quantile" or "superquantile", the last two at a ``level``. An end
    is infinite where there are too few domains to bound it. ``reliable`` is False where a
    bootstrap rests on fewer than ten domains.
    """

    statistic: str
    level: float | None
    low: float
    high: float
    confidence: float
    reliable: bool


@dataclass(frozen=True, kw_only=True)
class Interval(_Bounded):
    """A statistic of the risks of one predictor, with a confidence interval."""

    derived = ()

    value: float
    method: str


@dataclass(frozen=True, kw_only=True)
class Difference(_Bounded):
    """A statistic of two predictors on the same domains: second − first, with an interval."""

    derived = ("value", "clear", "sentence")

    first: float
    second: float

    @property
    def value(self) -> float:
        """second − first: negative where the second predictor has the lower risk."""
        return self.second - self.first

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def sentence(self) -> str:
        """A sentence that says which predictor is better."""
        name = self.statistic if self.level is None else f"{self.level:.6g}-{self.statistic}"
        ends = f"{as_percent(self.confidence)} interval {self.low:.4g} to {self.high:.4g}"
        if not self.clear:
            return f"No clear difference in the {name} of risk: {self.value:+.4g} ({ends})."
        order = "lower" if self.value < 0.0 else "higher"
        return f"The second predictor has the {order} {name} of risk: {self.value:+.4g} ({ends})."


def bootstrap_intervals(
    risks: Any,
    levels: Sequence[LevelLike] = LEVELS,
    confidence: float = 0.95,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Interval]:
    """Mean, quantiles and superquantiles of the risks, each with a confidence interval.

    Quantiles get two order statistics, whose coverage is known exactly and at least as asked;
    an end is infinite where m domains are too few to bound it. Mean and superquantiles get a
    bootstrap over domains, bias-corrected and accelerated (Efron 1987), which is approximate.

    >>> risks = np.random.default_rng(0).lognormal(size=200)
    >>> mean, quantile, superquantile = bootstrap_intervals(risks, levels=[0.9])
    >>> quantile.method, quantile.low < quantile.value < quantile.high
    ('order statistics', True)
    """
    values, asked = checked_risks(risks), OPEN_FRACTION.check(confidence, "confidence")
    given = as_levels(levels)
    integer(100).check(resamples, "resamples")
    drawn = resampled_statistics(values[None], given, resamples, seed)[:, 0]
    estimates = statistics_of(values, given)
    found = []
    for column, (level, about) in enumerate(_columns(given, asked)):
        value = float(estimates[column])
        if about["statistic"] == "quantile" and level is not None:
            low, high = order_statistic_interval(values, level, asked)
            method, reliable = "order statistics", True
        else:
            influence = _influence(values, value, level)
            low, high = _bca_interval(drawn[:, column], value, influence, asked)
            if not influence.any() and low < high:  # one domain alone: it could be far off
                low, high = -math.inf, math.inf
            method, reliable = "bootstrap", _is_reliable(level, values.size)
        about |= {"low": low, "high": high, "reliable": reliable}
        found.append(Interval(**about, value=value, method=method))
    return found


def paired_differences(
    first: Any,
    second: Any,
    levels: Sequence[LevelLike] = LEVELS,
    confidence: float = 0.95,
    *,
    resamples: int = 2000,
    seed: int = 0,
    interpolation: str = "step",
) -> list[Difference]:
    """Differences second − first in mean, quantiles and superquantiles, paired by domain.

    ``first`` and ``second`` (m,) are the risks of two predictors on the same domains, in the
    same order. Domains are drawn with replacement, the same ones for both; intervals of mean
    and superquantiles are bias-corrected and accelerated, those of quantiles percentiles.
    ``interpolation`` of quantiles is "step", an order statistic, or "smooth", the Harrell–Davis
    estimate.

    >>> easy = np.random.default_rng(0).lognormal(size=300)
    >>> mean = paired_differences(easy, easy + 0.1, levels=[0.9])[0]
    >>> round(mean.value, 6), mean.clear
    (0.1, True)
    """
    one, two = checked_risks(first, "The first risks"), checked_risks(second, "The second risks")
    if one.size != two.size:
        raise DomainDataError(
            f"Differences are paired by domain, but the first predictor has {one.size} domains "
            f"and the second has {two.size}."
        )
    asked, given = OPEN_FRACTION.check(confidence, "confidence"), as_levels(levels)
    integer(100).check(resamples, "resamples")
    both, smooth = np.stack([one, two]), one_of(interpolation, QUANTILES, "interpolation")
    drawn = resampled_statistics(both, given, resamples, seed)
    values = np.stack([statistics_of(row, given) for row in both])
    for place, asked_level in enumerate(given if smooth == SMOOTH else (), start=1):
        of_all, of_draws = resampled_smooth_quantiles(both, asked_level, resamples, seed)
        values[:, place], drawn[:, :, place] = of_all, of_draws
    found = []
    for column, (level, about) in enumerate(_columns(given, asked)):
        gaps, pair = drawn[:, 1, column] - drawn[:, 0, column], values[:, column].tolist()
        if about["statistic"] == "quantile":
            low, high = _percentiles(gaps, asked)
        else:
            influence = _influence(two, pair[1], level) - _influence(one, pair[0], level)
            low, high = _bca_interval(gaps, pair[1] - pair[0], influence, asked)
        about |= {"low": low, "high": high, "reliable": _is_reliable(level, one.size)}
        found.append(Difference(**about, first=pair[0], second=pair[1]))
    return found


def order_statistic_interval(
    risks: Vector, level: LevelLike, confidence: float
) -> tuple[float, float]:
    """Two order statistics around the α-quantile, each missing with half of 1 − confidence.

    >>> order_statistic_interval(np.arange(1.0, 101.0), 0.5, 0.95)
    (40.0, 61.0)
    >>> order_statistic_interval(np.arange(1.0, 11.0), 0.9, 0.95)
    (7.0, inf)
    """
    alpha, each = Level.of(level).alpha, (1.0 - confidence) / 2.0
    ordered = np.sort(risks)
    if not 0.0 < alpha < 1.0:  # the ends of the law: beyond what was seen, nothing is known
        return (float(ordered[-1]), math.inf) if alpha >= 1.0 else (-math.inf, float(ordered[0]))
    low = binomial_ranks.lower_rank(risks.size, alpha, each)
    high = binomial_ranks.upper_rank(risks.size, alpha, each)
    return (
        -math.inf if low is None else float(ordered[low - 1]),
        math.inf if high is None else float(ordered[high - 1]),
    )


def _columns(
    levels: Sequence[Level], confidence: float
) -> list[tuple[Level | None, dict[str, Any]]]:
    """The columns of :mod:`eqrm.evaluation.inference.resampling`: their levels, and fields."""
    kinds = [("quantile", level) for level in levels]
    kinds += [("superquantile", level) for level in levels]
    mean = {"statistic": "mean", "level": None, "confidence": confidence}
    return [
        (None, mean),
        *((level, {**mean, "statistic": kind, "level": level.alpha}) for kind, level in kinds),
    ]


def _is_reliable(level: Level | None, domains: int) -> bool:
    tail = 1.0 if level is None else level.tail
    return tail * domains >= FEW_IN_TAIL - 1e-9


def _influence(risks: Vector, value: float, level: Level | None) -> Vector:
    """What each domain contributes to the mean or the superquantile, up to a factor.

    The superquantile is min over q of q + mean(max(R − q, 0))/(1−α), so its influence is
    max(R − q, 0)/(1−α), centred, at q the α-quantile.
    """
    if level is None:
        return risks - value
    quantile = statistics_of(risks, [level])[1]
    beyond = np.maximum(risks - quantile, 0.0) / max(level.tail, 1e-300)
    return np.asarray(beyond - beyond.mean())


def _percentiles(drawn: Vector, confidence: float) -> tuple[float, float]:
    outside = (1.0 - confidence) / 2.0
    low, high = np.quantile(drawn, [outside, 1.0 - outside]).tolist()
    return low, high


def _bca_interval(
    drawn: Vector, value: float, influence: Vector, confidence: float
) -> tuple[float, float]:
    """Efron's BCa interval, with the acceleration from the skewness of the influences."""
    from scipy.special import ndtr, ndtri

    if drawn.min() == drawn.max():
        return value, value
    scale = float(np.abs(influence).max())
    if scale == 0.0:  # the statistic is the largest risk alone: no skewness to correct for
        return _percentiles(drawn, confidence)
    unit = influence / scale
    acceleration = float((unit**3).sum() / (6.0 * (unit**2).sum() ** 1.5))
    # Sums of the same risks in another order differ by rounding: they are ties all the same.
    tied = np.abs(drawn - value) <= 1e-12 * max(abs(value), float(np.ptp(drawn)))
    below = float((~tied & (drawn < value)).mean() + 0.5 * tied.mean())
    edge = 0.5 / drawn.size
    bias = float(ndtri(min(max(below, edge), 1.0 - edge)))
    z = -float(ndtri((1.0 - confidence) / 2.0))
    ends = []
    for side in (-z, z):
        shifted = bias + side
        ends.append(float(ndtr(bias + shifted / max(1.0 - acceleration * shifted, 1e-3))))
    low, high = np.quantile(drawn, ends)
    return float(low), float(high)
