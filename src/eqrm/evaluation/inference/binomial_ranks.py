"""Which order statistic bounds a quantile, and what a share of domains says of a probability.

The only law here is the binomial: of m independent domains, the number with a risk below the
α-quantile q = F⁻¹(α) is Binomial(m, P(R < q)), with P(R < q) ≤ α ≤ P(R ≤ q), and equality for
laws without jumps. Nothing else about the risks matters.
"""

from __future__ import annotations

from functools import lru_cache

from eqrm.checks import NON_NEGATIVE_INTEGER, OPEN_FRACTION
from eqrm.evaluation.inference.risk_checks import checked_alpha

ROUNDING = 1e-12
"""Relative slack on 1 − confidence: 0.9 and 0.1 are not binary fractions."""


@lru_cache(maxsize=1024)
def at_least(successes: int, trials: int, probability: float) -> float:
    """P(Binomial(trials, probability) ≥ successes).

    >>> round(at_least(1, 2, 0.5), 12), at_least(0, 2, 0.5), at_least(3, 2, 0.5)
    (0.75, 1.0, 0.0)
    """
    from scipy.stats import binom

    return float(binom.sf(successes - 1, trials, probability))


@lru_cache(maxsize=1024)  # the same for every predictor of an evaluation
def upper_rank(domains: int, alpha: float, miss: float) -> int | None:
    """The smallest k with P(R_(k) < q) ≤ miss, counting from 1; None if even k = m is too low.

    R_(k) < q means that k or more risks lie below q: P ≤ P(Binomial(m, α) ≥ k).

    >>> upper_rank(29, 0.9, 0.05), upper_rank(28, 0.9, 0.05), upper_rank(100, 0.9, 0.05)
    (29, None, 96)
    """
    from scipy.stats import binom

    rank = int(binom.isf(miss * (1.0 + ROUNDING), domains, alpha)) + 1
    return rank if rank <= domains else None


def lower_rank(domains: int, alpha: float, miss: float) -> int | None:
    """The largest k with P(R_(k) > q) ≤ miss, counting from 1; None if even k = 1 is too high.

    By symmetry: the k-th smallest for α is the k-th largest for 1−α.

    >>> lower_rank(100, 0.5, 0.025), lower_rank(5, 0.5, 0.025)
    (40, None)
    """
    mirrored = upper_rank(domains, 1.0 - alpha, miss)
    return None if mirrored is None else domains + 1 - mirrored


def probability_below(below: int, domains: int, miss: float) -> float:
    """Clopper and Pearson's lower bound on a probability that ``below`` of m domains support.

    The p with P(Binomial(m, p) ≥ below) = miss.

    >>> round(probability_below(29, 29, 0.05), 6), probability_below(0, 29, 0.05)
    (0.901855, 0.0)
    """
    from scipy.stats import beta

    return float(beta.ppf(miss, below, domains - below + 1)) if below else 0.0


def domains_needed(alpha: float, confidence: float, beyond: int = 0) -> int:
    """The fewest domains that bound the α-quantile of risk by an order statistic.

    ``beyond`` is the number of measured risks that may lie above the bound: with 0 the bound
    is the largest risk, and m = ⌈log(1−confidence)/log α⌉; with more of them the bound is
    tighter and takes more domains. In other words, the trials that it takes to see more than
    ``beyond`` risks above the quantile, which is a negative binomial law.

    >>> domains_needed(0.9, 0.95), domains_needed(0.9, 0.95, beyond=1)
    (29, 46)
    """
    from scipy.stats import nbinom

    level, miss = checked_alpha(alpha), 1.0 - OPEN_FRACTION.check(confidence, "confidence")
    above = NON_NEGATIVE_INTEGER.check(beyond, "beyond") + 1
    return int(nbinom.isf(miss * (1.0 + ROUNDING), above, 1.0 - level)) + above


def highest_level(domains: int, confidence: float) -> float:
    """The highest level that m domains can bound: (1−confidence)^(1/m).

    >>> round(highest_level(29, 0.95), 6)
    0.901855
    """
    return float((1.0 - confidence) ** (1.0 / domains))
