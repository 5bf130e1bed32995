"""Which order statistic bounds a quantile, and what a share of domains says of a probability.

The only law here is the binomial: of m independent domains, the number with a risk below the
α-quantile q = F⁻¹(α) is Binomial(m, P(R < q)), with P(R < q) ≤ α ≤ P(R ≤ q), and equality for
laws without jumps. Nothing else about the risks matters.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from eqrm.checks import NON_NEGATIVE_INTEGER, OPEN_FRACTION
from eqrm.errors import SettingError
from eqrm.evaluation.inference.risk_checks import Vector, checked_alpha

ROUNDING = 1e-12
"""Relative slack on 1 − confidence: 0.9 and 0.1 are not binary fractions."""


@lru_cache(maxsize=4096)
def at_least(successes: int, trials: int, probability: float) -> float:
    """P(Binomial(trials, probability) ≥ successes).

    >>> round(at_least(1, 2, 0.5), 12), at_least(0, 2, 0.5), at_least(3, 2, 0.5)
    (0.75, 1.0, 0.0)
    """
    from scipy.special import betainc

    if not 0 < successes <= trials:
        return float(successes <= 0)
    return float(betainc(successes, trials - successes + 1, probability))


@lru_cache(maxsize=1024)  # the same for every predictor of an evaluation
def upper_rank(domains: int, alpha: float, miss: float) -> int | None:
    """The smallest k with P(R_(k) < q) ≤ miss, counting from 1; None if even k = m is too low.

    R_(k) < q means that k or more risks lie below q: P ≤ P(Binomial(m, α) ≥ k).

    >>> upper_rank(29, 0.9, 0.05), upper_rank(28, 0.9, 0.05), upper_rank(100, 0.9, 0.05)
    (29, None, 96)
    """
    from scipy.special import betainc

    low, high, most = 1, domains + 1, miss * (1.0 + ROUNDING)
    while low < high:  # P(Binomial(m, α) ≥ k) is an incomplete beta function that falls with k
        middle = (low + high) // 2
        enough = betainc(middle, domains - middle + 1, alpha) <= most
        low, high = (low, middle) if enough else (middle + 1, high)
    return low if low <= domains else None


def lower_rank(domains: int, alpha: float, miss: float) -> int | None:
    """The largest k with P(R_(k) > q) ≤ miss, counting from 1; None if even k = 1 is too high.

    By symmetry: the k-th smallest for α is the k-th largest for 1−α.

    >>> lower_rank(100, 0.5, 0.025), lower_rank(5, 0.5, 0.025)
    (40, None)
    """
    mirrored = upper_rank(domains, 1.0 - alpha, miss)
    return None if mirrored is None else domains + 1 - mirrored


@lru_cache(maxsize=1024)
def probability_below(below: int, domains: int, miss: float) -> float:
    """Clopper and Pearson's lower bound on a probability that ``below`` of m domains support.

    The p with P(Binomial(m, p) ≥ below) = miss.

    >>> round(probability_below(29, 29, 0.05), 6), probability_below(0, 29, 0.05)
    (0.901855, 0.0)
    """
    from scipy.stats import beta

    return float(beta.ppf(miss, below, domains - below + 1)) if below else 0.0


def interleaved_rank(risks: Vector, alpha: float, miss: float, dependence: int) -> int | None:
    """How many risks lie at or below the bound on the α-quantile of k-dependent domains.

    Every (k+1)-th of k-dependent domains are independent: each subsequence has a binomial p-value
    of "the α-quantile is higher", and twice the mean of p-values is a p-value however they depend
    on each other (Rüschendorf 1982; Vovk & Wang 2020). The bound is the smallest risk at which that
    is at most ``miss``, found by bisection; None if that of the largest risk is higher.
    """
    if dependence >= 2 * risks.size:
        return None  # more than half of the subsequences are empty: twice the mean p-value is 1
    parts = [np.sort(risks[first :: dependence + 1]) for first in range(dependence + 1)]
    sizes, ordered = [part.size for part in parts], np.sort(risks)

    def is_enough(risk: float) -> bool:
        below = (int(part.searchsorted(risk, side="right")) for part in parts)
        found = sum(at_least(*each, alpha) for each in zip(below, sizes, strict=True)) / len(parts)
        return min(1.0, 2.0 * found) <= miss * (1.0 + ROUNDING)

    if not is_enough(ordered[-1]):
        return None
    low, high = 0, ordered.size - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(ordered[middle]) else (middle + 1, high)
    return int(np.searchsorted(ordered, ordered[low], side="right"))


def domains_needed(alpha: float, confidence: float, beyond: int = 0, dependence: int = 0) -> int:
    """The fewest domains that bound the α-quantile of risk by an order statistic.

    ``beyond`` is the number of measured risks that may lie above the bound: with 0 the bound
    is the largest risk, and m = ⌈log(1−confidence)/log α⌉; with more of them the bound is
    tighter and takes more domains. In other words, the trials that it takes to see more than
    ``beyond`` risks above the quantile, which is a negative binomial law. ``dependence`` is k for
    k-dependent domains, for which the bound is the largest risk.

    >>> domains_needed(0.9, 0.95), domains_needed(0.9, 0.95, beyond=1)
    (29, 46)
    >>> [domains_needed(0.9, 0.95, dependence=k) for k in (1, 2, 5)]
    [71, 106, 211]
    """
    level, miss = checked_alpha(alpha), 1.0 - OPEN_FRACTION.check(confidence, "confidence")
    above = NON_NEGATIVE_INTEGER.check(beyond, "beyond") + 1
    parts = NON_NEGATIVE_INTEGER.check(dependence, "dependence") + 1
    if parts == 1:
        return _trials_needed(level, miss, above)
    if beyond:
        raise SettingError(
            f"beyond must be 0 for dependent domains, got beyond={beyond}, dependence={dependence}."
        )

    def is_enough(domains: int) -> bool:
        # Some subsequences are longer than others by one; all risks lie at or below the largest.
        size, longer = divmod(domains, parts)
        mean = level**size * (longer * level + parts - longer) / parts
        return 2.0 * mean <= miss * (1.0 + ROUNDING)

    low, high = 0, parts * math.ceil(math.log(miss / 2.0) / math.log(level) + 1.0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@lru_cache(maxsize=1024)
def _trials_needed(alpha: float, miss: float, above: int) -> int:
    """The fewest trials of which ``above`` or more exceed the quantile, but with ``miss``."""
    allowed = miss * (1.0 + ROUNDING)
    if above == 1 and alpha > 0.0:  # α^m ≤ miss
        return max(1, math.ceil(math.log(allowed) / math.log(alpha)))
    from scipy.special import betainc  # bdtr takes fewer than 2^31 trials

    def too_few(trials: int) -> bool:
        return bool(betainc(trials - above + 1.0, float(above), alpha) > allowed)

    low, high = above - 1, above
    while too_few(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if too_few(middle) else (low, middle)
    return high


def highest_level(domains: float, confidence: float, dependence: int = 0) -> float:
    """The highest level that m domains can bound: (1−confidence)^(1/m).

    For k-dependent domains a level that they can bound: with half of 1−confidence and the
    length of the shortest of the k+1 subsequences.

    >>> round(highest_level(29, 0.95), 6), round(highest_level(71, 0.95, dependence=1), 4)
    (0.901855, 0.9)
    """
    if dependence == 0:
        return float((1.0 - confidence) ** (1.0 / domains))
    shortest = int(domains) // (dependence + 1)
    return float(((1.0 - confidence) / 2.0) ** (1.0 / shortest)) if shortest else 0.0
