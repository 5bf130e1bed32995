"""How sure it is that one model has a lower α-quantile of risk than another, and by how much.

Two models are compared on the same domains, by a bootstrap over domains. Where the one was chosen
among candidates by the same risks, :func:`nested_estimate` takes the optimism of choosing away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from eqrm.checks import CONFIDENCE
from eqrm.errors import DomainDataError
from eqrm.evaluation.inference import binomial_ranks
from eqrm.evaluation.inference.finding import Finding
from eqrm.evaluation.inference.resampling import (
    Matrix,
    resampled_smooth_quantiles,
    smooth_quantile,
)
from eqrm.evaluation.inference.risk_checks import Vector, checked_risks
from eqrm.level import Level

RESAMPLES = 1000
CLEAR, LIKELY = 0.95, 0.75
"""The least probabilities of "clear" and of "likely"."""
Rule = Callable[[Matrix], int]
"""Which candidate is chosen by risks (C, m) of candidates on domains."""


class Sureness(str, Enum):
    """How sure it is that the chosen one of two models has the lower quantile, in words.

    >>> [Sureness.of(probability).value for probability in (0.99, 0.8, 0.5)]
    ['clear', 'likely', 'a toss-up']
    """

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
    of a lower quantile of the chosen one, by the ``domains`` that both were measured on.
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


@dataclass(frozen=True)
class NestedEstimate(Finding):
    """What choosing by these risks achieves, without the optimism of choosing.

    ``quantile`` is the α-quantile of risk of the chosen model, ``change`` the change from the
    reference to it as a share of the reference's; ``optimism`` has been added to the first.
    """

    derived = ()

    quantile: float
    change: float
    optimism: float


def compare_quantiles(
    chosen: Vector,
    reference: Vector,
    level: Level,
    confidence: float = 0.95,
    *,
    blocks: int | None = None,
    seed: int = 0,
) -> QuantileChange:
    """The change of the α-quantile from a reference to the chosen model, and how sure it is.

    ``chosen`` and ``reference`` (m,) are risks on the same domains, in the same order. For domains
    in the order of time that depend on each other, ``blocks`` is the length of the blocks of
    consecutive domains that are drawn together.

    >>> risks = np.random.default_rng(0).lognormal(size=100)
    >>> found = compare_quantiles(0.9 * risks, risks, Level(0.9))
    >>> round(found.change, 3), found.sureness.value
    (-0.1, 'clear')
    """
    one, two = checked_risks(chosen, "Risks of the chosen"), checked_risks(reference)
    if one.size != two.size:
        raise DomainDataError(
            f"Quantiles are compared on the same domains, but the chosen model has {one.size} "
            f"and the reference {two.size}. Give one risk per domain for both."
        )
    asked = CONFIDENCE.check(confidence, "confidence")
    (after, before), drawn = resampled_smooth_quantiles(
        np.stack([one, two]), level, RESAMPLES, seed, block=blocks or 1
    )
    changes = (drawn[:, 0] - drawn[:, 1]) / (np.abs(drawn[:, 1]) if before else 1.0)
    low, high = np.quantile(changes, [(1.0 - asked) / 2.0, (1.0 + asked) / 2.0])
    lower = float(np.mean(changes < 0.0) + 0.5 * np.mean(changes == 0.0))
    change = float(after - before) / (abs(float(before)) or 1.0)
    return QuantileChange(change, float(low), float(high), lower, one.size)


def nested_estimate(
    risks: Matrix,
    level: Level,
    rule: Rule,
    reference: int = 0,
    *,
    blocks: int | None = None,
    seed: int = 0,
) -> NestedEstimate:
    """The quantile of the candidate that ``rule`` chooses, corrected for having been chosen.

    ``risks`` (C, m) are those of the candidates on the same domains, one of which is the
    ``reference``.

    >>> risks = np.random.default_rng(0).lognormal(size=(4, 60))
    >>> found = nested_estimate(risks, Level(0.9), lambda r: int(r.mean(axis=1).argmin()))
    >>> found.optimism >= 0.0
    True
    """
    chosen = rule(risks)
    before, after = smooth_quantile(risks[reference], level), smooth_quantile(risks[chosen], level)
    return NestedEstimate(after, (after - before) / (abs(before) or 1.0), 0.0)


def cross_fitted_bound(risks: Vector, level: Level, confidence: float = 0.95) -> float | None:
    """The order statistic that bounds the α-quantile of risk; None where domains are too few.

    Of risks that were cross-fitted it is no proven bound, because each domain is judged by another
    model, and all of them by models that share domains.

    >>> cross_fitted_bound(np.arange(1.0, 101.0), Level(0.9)), cross_fitted_bound(np.ones(9), 0.9)
    (96.0, None)
    """
    values, asked = checked_risks(risks), CONFIDENCE.check(confidence, "confidence")
    rank = binomial_ranks.upper_rank(values.size, Level.of(level).alpha, 1.0 - asked)
    return None if rank is None else float(np.partition(values, rank - 1)[rank - 1])
