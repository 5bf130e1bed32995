"""Confidence intervals for statistics of the risks, and for differences between two models.

Every interval of the package is made here. An end that the domains cannot support is open
(infinite): nothing is stated that does not hold. How often each interval holds is simulated by
``python -m studies intervals``, over laws of the risk with skewness, heavy tails, ties and rare bad
domains. Domains are independent draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr, stdtrit, xlogy

from eqrm.distributions.equal_weights import equal_step_index
from eqrm.evaluation.inference import certificates
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector
from eqrm.evaluation.rounding import are_equal
from eqrm.level import Level

Ends = tuple[float, float]
Ranks = NDArray[np.int64]
Grid = NDArray[np.float64]
OPEN: Ends = (-math.inf, math.inf)
FEWEST_FOR_MEAN, RARE = 30, 0.1
"""A mean needs so many domains, and so many that a share of ``RARE`` is among them with the
confidence asked for: a few domains that differ from the others by much move it."""
FEWEST_IN_TAIL = 10
"""Domains beyond a level, on average, that its superquantile needs."""
MOST_RANKS = 400
"""Ranks of a quantile that are tried; of more than these, evenly spaced ones."""


def mean_interval(values: Vector, confidence: float) -> Ends:
    """Student's t, corrected for skewness by more than the sample shows.

    With a = γ/√m, where γ is the skewness, the t-statistic of the mean has quantiles at
    t + a(1 + 2t²)/6 + O(a²) (Johnson 1978, Hall 1992). The skewness of a sample is too small where
    that of the law is large, so that one standard error of it, √(6/m), is added on either side,
    and the term of second order is a²t³, more than its expansion has. No end is nearer to the mean
    than that of Student's t.
    """
    domains = values.size
    if domains < mean_needs(confidence) or are_equal(values):
        return OPEN  # equal values: one that differs may be as large as it likes
    scale = float(np.abs(values).max())
    scaled = values / scale
    mean = float(scaled.sum()) / domains
    deviations = scaled - mean
    spread = float(np.abs(deviations).max())
    deviations = deviations / spread
    squares = deviations * deviations
    variance = float(squares.sum()) / domains
    error = math.sqrt(variance / (domains - 1)) * spread
    skewness = float((squares * deviations).sum()) / domains / variance**1.5
    t = float(stdtrit(domains - 1, 0.5 + confidence / 2.0))
    ends = []
    for side in (-1.0, 1.0):
        a = (max(side * skewness, 0.0) + math.sqrt(6.0 / domains)) / math.sqrt(domains)
        ends.append(
            scale * (mean + side * error * (t + a * (1.0 + 2.0 * t * t) / 6.0 + a**2 * t**3))
        )
    return ends[0], ends[1]


@lru_cache(maxsize=1024)
def mean_needs(confidence: float) -> float:
    """The fewest domains that bound a mean."""
    return max(float(FEWEST_FOR_MEAN), quantile_needs(Level(RARE), 1.0 - confidence))


def superquantile_scores(risks: Vector, level: Level, quantile: float) -> Vector:
    """Numbers (m,) whose mean is the superquantile: q + max(R − q, 0)/(1−α), q the α-quantile.

    Their mean has a minimum at q, so that its estimation error matters in the second order only
    where risks have a density there (Rockafellar & Uryasev 2000).
    """
    return np.asarray(quantile + np.maximum(risks - quantile, 0.0) / level.tail)


def sample_quantile(risks: Vector, level: Level) -> float:
    """The α-quantile of the empirical law."""
    return float(np.sort(risks)[equal_step_index(risks.size, level.alpha, level.tail)])


def superquantile_interval(risks: Vector, level: Level, confidence: float) -> Ends:
    """That of the mean of the scores; with few domains beyond the level, the lower end alone.

    The superquantile is at least the quantile, which has a lower end whatever the tail.
    """
    ends = superquantile_difference(np.zeros_like(risks), risks, level, confidence)
    if ends == OPEN:
        return order_statistic_interval(risks, level, confidence)[0], math.inf
    return ends


def superquantile_difference(
    first: Vector, second: Vector, level: Level, confidence: float
) -> Ends:
    """Second minus first, paired by domain: the mean of the differences of their scores.

    Beside a gap in the risks, as between good domains and a tenth of bad ones at the level 0.9,
    the quantile of the sample may lie beyond the gap. Its scores vary too little then, and their
    mean is too high. So each superquantile may be as low as its scores allow for any of three
    quantiles, the one of the sample and the ends of its interval. Elsewhere this changes little.
    Open with few domains beyond the level.
    """
    if first.size < superquantile_needs(level, confidence):
        return OPEN
    (one, *ones), (two, *twos) = (_scores(risks, level, confidence) for risks in (first, second))
    low, high = mean_interval(two - one, confidence)
    if math.isinf(low):
        return OPEN
    lows = [_ends_or_mean(scores - one, confidence)[0] for scores in twos]
    highs = [_ends_or_mean(two - scores, confidence)[1] for scores in ones]
    return min([low, *lows]), max([high, *highs])


def _scores(risks: Vector, level: Level, confidence: float) -> list[Vector]:
    """By the quantile of the sample, and by the ends of its interval where they are finite."""
    ends = order_statistic_interval(risks, level, confidence)
    quantiles = dict.fromkeys((sample_quantile(risks, level), *ends))
    return [superquantile_scores(risks, level, q) for q in quantiles if math.isfinite(q)]


def _ends_or_mean(values: Vector, confidence: float) -> Ends:
    """The interval of a mean; of equal values, that mean."""
    ends = mean_interval(values, confidence)
    return ends if ends != OPEN else (float(values.mean()), float(values.mean()))


@lru_cache(maxsize=1024)
def superquantile_needs(level: Level, confidence: float) -> float:
    """The fewest domains that bound a superquantile from above; infinite at the level 1."""
    beyond = FEWEST_IN_TAIL / level.tail if level.tail > 0.0 else math.inf
    return max(mean_needs(confidence), float(np.ceil(beyond - 1e-6)))


def order_statistic_interval(risks: Vector, level: LevelLike, confidence: float) -> Ends:
    """Two order statistics around the α-quantile, each missing with half of 1 − confidence.

    Exact for laws without jumps, and holds more often for others.
    """
    alpha, each = Level.of(level).alpha, (1.0 - confidence) / 2.0
    ordered = np.sort(risks)
    if not 0.0 < alpha < 1.0:  # the ends of the law: beyond what was seen, nothing is known
        return (float(ordered[-1]), math.inf) if alpha >= 1.0 else (-math.inf, float(ordered[0]))
    # The k-th largest for α is the k-th smallest for 1−α of the negative risks.
    low = certificates.upper_rank(risks.size, 1.0 - alpha, each)
    high = certificates.upper_rank(risks.size, alpha, each)
    return (
        -math.inf if low is None else float(ordered[-low]),
        math.inf if high is None else float(ordered[high - 1]),
    )


@lru_cache(maxsize=1024)
def quantile_needs(level: Level, miss: float) -> float:
    """The fewest domains of which the largest and the smallest bound a quantile.

    The number m with α^m ≤ miss and (1−α)^m ≤ miss; infinite at the levels 0 and 1. An interval
    may miss on either side, so that each gets half of 1 − confidence.
    """
    middle = min(-math.log1p(-level.tail) if level.tail < 1.0 else math.inf, -level.log_tail)
    return float(math.ceil(math.log(miss) / -middle - 1e-9)) if middle > 1e-300 else math.inf


@dataclass(frozen=True, eq=False)
class QuantilePairs:
    """The pairs of α-quantiles of two models, (a, b), that the domains do not rule out.

    Boxes [a_low, a_high] × [b_low, b_high], (k,) each. One number that is monotone in a and in b
    lies, for the true pair, between its smallest and its largest value over the boxes with the
    confidence asked for. That both quantiles lie in the boxes is less certain.
    """

    a_low: Vector
    a_high: Vector
    b_low: Vector
    b_high: Vector

    def difference(self) -> Ends:
        """Of b − a."""
        low, high = self.b_low - self.a_high, self.b_high - self.a_low
        return float(low.min()), float(high.max())

    def change(self) -> Ends:
        """Of (b − a)/|a|; open where a may be 0."""
        if self.a_low.min() <= 0.0 <= self.a_high.max():
            return OPEN
        size = np.sort(np.abs([self.a_low, self.a_high]), axis=0)
        corners = np.concatenate([b / a for a in size for b in (self.b_low, self.b_high)])
        sign = math.copysign(1.0, float(self.a_low[0]))
        return float(corners.min()) - sign, float(corners.max()) - sign


def quantile_pairs(
    first: Vector, second: Vector, level: Level, confidence: float
) -> QuantilePairs | None:
    """The pairs of quantiles that a likelihood ratio test does not reject.

    For a pair (a, b), domains fall into four classes: at or below a or above it, at or below b or
    above it. Their numbers are multinomial, and at the true pair both "at or below" have the
    probability α. Pairs are kept whose −2·log of the likelihood ratio of that hypothesis is at most
    :func:`most_ratio`. Pairing by domain narrows it down, because domains that both models find
    hard are in the same class. None where there are fewer domains than :func:`quantile_needs`:
    every risk may lie on one side of the quantile.
    """
    domains, miss = first.size, 1.0 - confidence
    if domains < quantile_needs(level, miss / 2.0):
        return None
    most = most_ratio(miss)
    ranks = _possible_ranks(domains, level.alpha, most, MOST_RANKS)
    step = int(ranks[1] - ranks[0]) if ranks.size > 1 else 1
    # Tied risks are in the order of their domains, the same for both: any order serves.
    orders = [np.argsort(risks, kind="stable") for risks in (first, second)]
    together = _counted_together(orders, ranks)
    a, b = np.nonzero(_kept(_likelihood_ratios(together, ranks, domains, level), most))
    # Rank r: the quantile lies between the r-th risk and the next, or up to a step away.
    lower = np.maximum(ranks - step, 0)
    upper = np.minimum(ranks + step - 1, domains - 1)
    one, two = first[orders[0]], second[orders[1]]
    return QuantilePairs(one[lower[a]], one[upper[a]], two[lower[b]], two[upper[b]])


@lru_cache(maxsize=64)
def most_ratio(miss: float) -> float:
    """The c with ½·P(χ²₁ > c) + ½·P(χ²₂ > c) = miss: for a number computed of two quantiles.

    Count both ranks in units in which they are independent. In the limit the true pair is then a
    normal point z around the pair of the sample, and the pairs that are kept are a disk of radius
    √c. The difference misses only if the disk keeps clear of all pairs with the true difference,
    which form a curve through z without an end. Where both laws have densities that hardly change
    around their quantiles the curve is a line, and c of χ² with one degree of freedom would do.
    Where a density jumps, as beside a gap between good and bad domains, the curve bends. Every
    curve from z outwards crosses each circle around z, so that at each distance the disk meets it
    from at least as many directions as it meets a ray; and the squared distance to a ray is χ²₁
    beside it and χ²₂ behind its end, each in half of all directions. So c is enough whatever the
    laws; with that of χ²₁, 95% could become 90.2%. What the limit leaves out, ties and ranks of few
    domains above all, is simulated by ``python -m studies intervals``.
    """
    from scipy.optimize import brentq  # slow to import

    def excess(c: float) -> float:
        return 0.5 * (math.erfc(math.sqrt(c / 2.0)) + math.exp(-c / 2.0)) - miss

    return float(brentq(excess, 0.0, -2.0 * math.log(miss)))


@lru_cache(maxsize=16)
def _possible_ranks(domains: int, alpha: float, most: float, most_ranks: int) -> Ranks:
    """The numbers of risks at or below the quantile that one model alone does not rule out."""
    ranks = np.arange(1, domains)
    share = ranks / domains
    ratios = 2.0 * domains * (rel_entr(share, alpha) + rel_entr(1.0 - share, 1.0 - alpha))
    possible: Ranks = ranks[_kept(ratios, most)]
    return possible[:: math.ceil(possible.size / most_ranks)]


def _kept(ratios: Grid, most: float) -> NDArray[np.bool_]:
    """The most likely is kept, however little confidence is asked for."""
    return np.asarray(ratios <= max(most, float(ratios.min())))


def _counted_together(orders: Sequence[Ranks], ranks: Ranks) -> Grid:
    """How many domains are among the i lowest of the first and the j lowest of the second (k, k).

    ``orders`` (m,) of both are the domains from the lowest risk to the highest.
    """
    classes = []
    for order in orders:
        own = np.empty_like(order)
        own[order] = np.searchsorted(ranks, np.arange(1, order.size + 1))
        classes.append(own)
    width = ranks.size + 1
    counted = np.bincount(classes[0] * width + classes[1], minlength=width * width)
    return counted.reshape(width, width).cumsum(0).cumsum(1)[:-1, :-1].astype(np.float64)


def _likelihood_ratios(both: Grid, ranks: Ranks, domains: int, level: Level) -> Grid:
    """−2·log of the likelihood of "both at or below with probability α", over the largest.

    Under the hypothesis, with x the probability of "both", the log-likelihood is n₁₁·log x +
    (n₁₀ + n₀₁)·log(α − x) + n₀₀·log(1 − 2α + x), whose derivative has a quadratic numerator.
    """
    alpha, rest = level.alpha, level.tail - level.alpha
    one, other = ranks[:, None] - both, ranks[None, :] - both
    neither = domains - ranks[:, None] - other
    discordant = one + other
    middle = both * (alpha - rest) - discordant * rest + neither * alpha
    root = np.sqrt(np.maximum(middle**2 + 4.0 * domains * both * alpha * rest, 0.0))
    x = np.clip((middle + root) / (2.0 * domains), max(0.0, -rest), alpha)
    own = sum(xlogy(n, n / domains) for n in (both, one, other, neither))
    with np.errstate(divide="ignore"):
        given = xlogy(both, x) + xlogy(discordant, alpha - x) + xlogy(neither, rest + x)
    return np.asarray(2.0 * (own - given))
