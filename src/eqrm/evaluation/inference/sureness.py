"""How sure it is that one model has a lower α-quantile of risk than another, and by how much.

Two models are compared on the same domains, by a bootstrap over domains. Where the one was chosen
among candidates by the same risks, :func:`optimism_of_choosing` is what has to be added.

A resample of m domains is a count per domain. Sorted risks and cumulated counts give the quantiles
of it, and models measured on the same domains share the counts, so that they stay paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv, ndtr, ndtri

from eqrm.checks import CONFIDENCE
from eqrm.evaluation.inference.risk_checks import Finding, Vector
from eqrm.level import Level

Matrix = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]
CELLS_AT_ONCE = 2_000_000
"""Resamples × domains held in memory together: 8 MB of counts."""
RESAMPLES, FEWEST_RESAMPLES, MOST_DRAWN = 1000, 200, 5_000_000
"""Resamples of a comparison: fewer than the most where that would draw more domains."""
MISSED, LEVELS, SHARPER = 0.05, 17, 4.0
"""Quantiles at so many levels, which miss the true one with this probability, are estimated with
weights as narrow as those of so many times as many domains."""
NARROWED, NARROWED_OF_FEW = 1.08, 1.6
"""Standard deviations of a bootstrap of Harrell–Davis estimates are divided by a + b/√m."""
FEW = 17.0
"""Of few domains, m, intervals are wider by the factor 1 + (17/m)^2.5."""
CLEAR, LIKELY = 0.975, 0.8
"""The least probabilities of "clear" and of "likely"."""
LEAST_KNOWN = 0.55
NESTED_FOLDS, DIVISIONS, MANY = 5, 3, 500
"""Folds by which optimism is removed, and how often domains are divided; with many domains once."""
Rule = Callable[[Matrix], int]
"""Which candidate is chosen by risks (C, m) of candidates on domains."""


class Sureness(str, Enum):
    """How sure it is that the chosen one of two models has the lower quantile, in words."""

    CLEAR = "clear"
    LIKELY = "likely"
    TOSS_UP = "a toss-up"

    @classmethod
    def of(cls, probability: float) -> Sureness:
        """The word for a probability that the quantile is lower."""
        if probability >= CLEAR:
            return cls.CLEAR
        return cls.LIKELY if probability >= LIKELY else cls.TOSS_UP


@dataclass(frozen=True)
class QuantileChange(Finding):
    """The change of a quantile of risk from a reference to the chosen model, as a share.

    ``change`` is (chosen − reference)/|reference| of Harrell–Davis estimates: negative is better.
    ``low`` and ``high`` hold the true change with the confidence asked for. ``probability`` is that
    of a lower quantile of the chosen one, by the ``domains`` that both were measured on; it is at
    most the probability 1 − α^m that one of them lies beyond the level at all.
    """

    derived = ("sureness",)

    change: float
    low: float
    high: float
    probability: float
    domains: int

    @property
    def sureness(self) -> Sureness:
        """The probability in words."""
        return Sureness.of(self.probability)


def compare_quantiles(
    chosen: Vector,
    reference: Vector,
    level: Level,
    confidence: float = 0.95,
    *,
    blocks: int | None = None,
    optimism: float = 0.0,
) -> QuantileChange:
    """The change of the α-quantile from a reference to the chosen model, and how sure it is.

    ``chosen`` and ``reference`` (m,) are risks on the same domains, in the same order. For domains
    in the order of time that depend on each other, ``blocks`` is the length of the blocks of
    consecutive domains that are drawn together. Where one was chosen by these risks, ``optimism``
    is what its quantile is too low by (:func:`optimism_of_choosing`).
    """
    z = float(ndtri(0.5 + CONFIDENCE.check(confidence, "confidence") / 2.0))
    both, block = np.stack([chosen + optimism, reference]), blocks or 1
    resamples = max(FEWEST_RESAMPLES, min(RESAMPLES, MOST_DRAWN // chosen.size))
    estimates, drawn = resampled_smooth_quantiles(both, level, resamples, seed=0, block=block)
    repeats = _repeats(both, level, block)
    near = np.sort(both, axis=1) @ _weights_near(chosen.size, level, repeats)
    change, changes, others = _as_changes(estimates, drawn.T, near)
    doubt = max(optimism, 0.0) / (abs(float(estimates[1])) or 1.0)
    effective = chosen.size / repeats
    spread = _Spread(change, np.sort(changes), others, effective, doubt)
    # Beyond the level there may be no domain at all, and then they do not tell.
    known = max(LEAST_KNOWN, -math.expm1(effective * math.log(level.alpha))) if level.tail else 1.0
    return QuantileChange(
        change,
        change - float(spread.below(np.array([z]))[0]),
        change + float(spread.above(np.array([z]))[0]),
        min(max(spread.probability(), 1.0 - known), known),
        chosen.size,
    )


@dataclass(frozen=True, eq=False)
class _Spread:
    """How far the true change may lie from the estimate, for so many standard deviations z.

    ``optimism`` has been added to the change; it is an estimate, and may be too much by itself.
    """

    change: float
    drawn: Vector
    near: Vector
    domains: float
    optimism: float = 0.0

    def below(self, z: Vector) -> Vector:
        ends = np.quantile(self.drawn, ndtr(-z / self._narrowed))
        near = math.hypot(max(self.change - float(self.near.min()), 0.0), self.optimism)
        return self._together(self.change - ends, near, z)

    def above(self, z: Vector) -> Vector:
        ends = np.quantile(self.drawn, ndtr(z / self._narrowed))
        return self._together(ends - self.change, float(self.near.max()) - self.change, z)

    def _together(self, drawn: Vector, near: float, z: Vector) -> Vector:
        levels = max(near, 0.0) * z / float(ndtri(1.0 - MISSED / 2.0))
        wider = 1.0 + (FEW / self.domains) ** 2.5
        return np.asarray(wider * np.hypot(np.maximum(drawn, 0.0), levels))

    @property
    def _narrowed(self) -> float:
        return NARROWED + NARROWED_OF_FEW / float(np.sqrt(self.domains))

    def probability(self) -> float:
        """One-sided confidence of the interval that ends at no change."""
        if self.change == 0.0:
            return 0.5
        z = np.linspace(0.0, 4.0, 161)
        reached = self.above(z) if self.change < 0.0 else self.below(z)
        most = float(np.interp(abs(self.change), np.maximum.accumulate(reached), z))
        return float(ndtr(most if self.change < 0.0 else -most))


def _as_changes(estimates: Vector, drawn: Matrix, near: Matrix) -> tuple[float, Vector, Vector]:
    """Changes from the second quantile to the first as shares of the second, where it has a sign.

    Where it may be 0 or of either sign, as shares of its estimate, and of 1 if that is 0.
    """
    unit = abs(float(estimates[1])) or 1.0
    signs = np.sign(np.concatenate([drawn[1], near[1], estimates[1:]]))
    of_own = bool((signs == signs[0]).all()) and signs[0] != 0.0
    first, second = (
        (each[0] - each[1]) / (np.abs(each[1]) if of_own else unit) for each in (drawn, near)
    )
    return float(estimates[0] - estimates[1]) / unit, first, second


def _repeats(both: Matrix, level: Level, block: int) -> float:
    """How many domains in a row count as one: the variance of a block of them, over independent.

    Of the number of risks above the quantile, for the model in which it is larger.
    """
    if block == 1:
        return 1.0
    above = both > np.quantile(both, level.alpha, axis=1, keepdims=True)
    share = above.mean(axis=1, keepdims=True)
    ahead = np.concatenate([above - share, (above - share)[:, : block - 1]], axis=1).cumsum(axis=1)
    sums = ahead[:, block - 1 :].copy()
    sums[:, 1:] -= ahead[:, :-block]
    variances = (sums**2).mean(axis=1) / block
    return max(1.0, float((variances / np.maximum(share * (1.0 - share), 1e-12)[:, 0]).max()))


@lru_cache(maxsize=4)
def _weights_near(domains: int, level: Level, repeats: float) -> Matrix:
    """Weights (m, levels) of the quantiles at levels that the level may be in these domains.

    The share of m domains below the α-quantile is about Beta(α(m+1), (1−α)(m+1)).
    """
    number = domains / repeats + 1.0
    below, tail = max(level.alpha * number, 1e-9), max(level.tail * number, 1e-9)
    ends = betaincinv(below, tail, [MISSED / 2.0, 1.0 - MISSED / 2.0])
    levels = np.linspace(ends[0], ends[1], LEVELS)[None]
    sharp = SHARPER * (domains + 1)
    up_to = betainc(
        np.maximum(levels * sharp, 1e-9),
        np.maximum((1.0 - levels) * sharp, 1e-9),
        np.arange(domains + 1)[:, None] / domains,
    )
    return np.asarray(np.diff(up_to, axis=0))


def optimism_of_choosing(
    risks: Matrix, level: Level, rule: Rule, *, blocks: int | None = None
) -> float:
    """What the quantile of the candidate that ``rule`` chooses is too low by, for being chosen.

    ``risks`` (C, m) are those of the candidates on the same domains. By nested folds: for each fold
    of domains (of blocks of them, in time) the rule chooses by the others, and every domain has the
    risk of what was chosen without it. The quantile of these risks is free of the optimism of
    choosing; it is averaged over divisions into folds.
    """
    generator, domains = np.random.default_rng(0), risks.shape[1]
    length = blocks or 1
    parts = -(-domains // length)
    folds, found = min(NESTED_FOLDS, parts), []
    if folds == 1:
        return 0.0
    for _ in range(1 if domains > MANY else DIVISIONS):
        fold = (generator.permutation(parts) % folds)[np.arange(domains) // length]
        own = np.empty(domains)
        for number in range(folds):
            inside = fold == number
            own[inside] = risks[rule(risks[:, ~inside])][inside]
        found.append(smooth_quantile(own, level))
    return max(0.0, float(np.mean(found)) - smooth_quantile(risks[rule(risks)], level))


def smooth_quantile(risks: Vector, level: Level) -> float:
    """The Harrell–Davis estimate of a quantile: a weighted mean of the risks around the level.

    It varies less than one order statistic (Harrell & Davis 1982), which matters where
    models are compared. At the levels 0 and 1 it is the smallest and the largest risk.
    """
    return float(np.sort(risks) @ np.diff(weight_up_to(risks.size, level)))


def resampled_smooth_quantiles(
    risks: Matrix, level: Level, resamples: int, seed: int, wide: float = 1.0, block: int = 1
) -> tuple[Vector, Matrix]:
    """The :func:`smooth_quantile` of each model (P,), and of each resample (resamples, P).

    Domains in the order of time are drawn in blocks of so many consecutive ones.

    With ``wide`` above 1 the weights are those of that many times fewer domains, but of no fewer
    than leave one expected beyond the level: quantiles of a range of levels around this one, which
    vary less still, and order models better than they estimate their quantiles.
    """
    models, domains = risks.shape
    reached = weight_up_to(domains, level, wide)
    start, stop = _ranks_that_count(reached, block)
    order = np.argsort(risks, axis=1)
    values = np.take_along_axis(risks, order, axis=1)
    found: list[Matrix] = [np.empty((0, models))]
    for counts in drawn_counts(domains, resamples, seed, block):
        each = np.empty((counts.shape[0], models))
        for model, ranked in enumerate(order):
            above = counts[:, ranked[stop:]].sum(axis=1, keepdims=True)
            counted = counts[:, ranked[start:stop]][:, ::-1].cumsum(axis=1) + above
            up_to = reached[domains - counted][:, ::-1]  # below each rank that counts
            weights = np.diff(up_to, axis=1, append=1.0)
            each[:, model] = weights @ values[model, start:stop]
        found.append(each)
    return values @ np.diff(reached), np.concatenate(found)


def _ranks_that_count(reached: Vector, block: int) -> tuple[int, int]:
    """The first, and one past the last, of the sorted domains that have weight in resamples.

    A share of the domains is drawn more or less often than once each; eight standard deviations of
    that are allowed for. The weight of all other domains together is below 10⁻¹².
    """
    domains = reached.size - 1
    least, most = np.searchsorted(reached, [1e-12, 1.0 - 1e-12])
    slack = 4.0 * np.sqrt(domains * block)  # the standard deviation is at most half of the root
    return max(0, int(least - slack)), min(domains, int(most + slack) + 1)


def resampled_lognormal_quantiles(
    risks: Matrix, level: Level, resamples: int, seed: int
) -> tuple[Vector, Matrix]:
    """As :func:`resampled_smooth_quantiles`, of log-normal laws with the moments of log risks.

    For levels beyond the domains, where no order statistic says anything; risks are positive.
    """
    logarithms, domains = np.log(risks), risks.shape[1]
    centre = logarithms.mean(axis=1)
    spread = (logarithms - centre[:, None]).T
    found = []
    for counts in (np.ones((1, domains)), *drawn_counts(domains, resamples, seed)):
        means = counts @ spread / domains
        variances = np.maximum(counts @ spread**2 / domains - means**2, 0.0)
        deviations = np.sqrt(variances * domains / (domains - 1))
        with np.errstate(over="ignore"):
            found.append(np.exp(centre + means + level.z * deviations))
    return found[0][0], np.concatenate(found)[1:]


@lru_cache(maxsize=8)
def weight_up_to(domains: int, level: Level, wide: float = 1.0) -> Vector:
    """The weight of the first 0 … m sorted risks in a Harrell–Davis estimate (m+1,)."""
    fewest = (domains + 1) * min(level.alpha, level.tail)
    number = (domains + 1) / max(1.0, min(wide, fewest))
    below, tail = max(level.alpha * number, 1e-12), max(level.tail * number, 1e-12)
    return np.asarray(betainc(below, tail, np.arange(domains + 1) / domains))


def drawn_counts(domains: int, resamples: int, seed: int, block: int = 1) -> Iterator[Counts]:
    """How often each domain is drawn in each resample, some resamples at a time.

    With ``block`` above 1, blocks of consecutive domains are drawn until there are as many as
    before; the last block is cut off, and the first domain follows the last one.
    """
    generator = np.random.default_rng(seed)
    at_once, pieces = max(1, CELLS_AT_ONCE // domains), -(-domains // block)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = generator.integers(0, domains, (rows, pieces))
        if block > 1:
            drawn = (drawn[:, :, None] + np.arange(block)).reshape(rows, -1)[:, :domains] % domains
        drawn += (np.arange(rows) * domains)[:, None]
        counted = np.bincount(drawn.ravel(), minlength=rows * domains)
        yield counted.reshape(rows, domains).astype(np.int32)
