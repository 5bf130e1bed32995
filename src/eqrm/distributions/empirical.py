"""The empirical law of the measured risks: a step at each of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from eqrm.arrays import Values, detached, log, taken
from eqrm.checks import one_of
from eqrm.distributions.base import LevelLike, RiskDistribution
from eqrm.distributions.equal_weights import INTERPOLATIONS
from eqrm.distributions.order_statistics import (
    first_true,
    linear_mix,
    share_among_ties,
    step_mix,
    tail_mix,
)
from eqrm.execution import namespace
from eqrm.level import Level


class Empirical(RiskDistribution):
    """Mass p_i at each risk: nothing is assumed, and nothing beyond the largest risk is seen.

    ``interpolation="step"`` is the paper's quantile inf{r : F(r) ≥ α}; ``"linear"``
    interpolates between neighbours as ``numpy.quantile`` does. Levels 0 and 1 give the
    smallest and the largest risk (the essential supremum of appendix B).

    >>> Empirical([3.0, 1.0, 2.0]).quantile(1), Empirical([3.0, 1.0, 2.0]).quantile(0.5)
    (np.float64(3.0), np.float64(2.0))
    >>> Empirical([0.0, 1.0], interpolation="linear").quantile(0.25)
    np.float64(0.25)
    """

    def __init__(
        self,
        risks: Values | Sequence[float],
        *,
        weights: Values | Sequence[float] | None = None,
        interpolation: str = "step",
        validate: bool | None = None,
    ) -> None:
        super().__init__(risks, weights=weights, validate=validate)
        self._interpolation = one_of(interpolation, INTERPOLATIONS, "interpolation")

    def _sorted(self) -> tuple[Values, Values | None]:
        """Risks in ascending order and their weights; absent domains first, with weight 0."""
        risks, weights = self._wide, self._given_weights
        xp = namespace(risks)
        if weights is None:
            return taken(risks, xp.argsort(detached(risks), -1)), None
        order = xp.argsort(detached(xp.where(weights > 0, risks, -math.inf)), -1)
        return taken(risks, order), taken(xp.broadcast_to(weights, risks.shape), order)

    def quantile(self, alpha: LevelLike) -> Values:
        """The α-quantile; its gradient goes to the risks that make it, and ties share it."""
        level = Level.of(alpha)
        risks, weights = self._sorted()
        if self._interpolation == "linear":
            mix = linear_mix(risks, weights, level.alpha)
        else:
            mix = step_mix(risks, weights, level.alpha, level.tail)
        return self._back(_mixed(risks, weights, mix))

    def superquantile(self, alpha: LevelLike) -> Values:
        """The mean of the worst share 1−α of the domains, the last one counted in part.

        >>> Empirical([1.0, 2.0, 3.0, 4.0]).superquantile(0.5)
        np.float64(3.5)
        """
        level = Level.of(alpha)
        if level.tail <= sys.float_info.min:
            return self.quantile(Level(1.0))
        risks, weights = self._sorted()
        return self._back(_mixed(risks, weights, tail_mix(risks, weights, level.tail)))

    def cdf(self, x: Values | float) -> Values:
        """The share of domains with risk at most x."""
        return self._back((self.weights * (self._wide <= self._points(x))).sum(axis=-1))

    def sf(self, x: Values | float) -> Values:
        """The share of domains with risk above x."""
        return self._back((self.weights * (self._wide > self._points(x))).sum(axis=-1))

    def log_sf(self, x: Values | float) -> Values:
        """The logarithm of :meth:`sf`; −∞ from the largest risk on."""
        return self._back(log((self.weights * (self._wide > self._points(x))).sum(axis=-1)))

    def log_prob(self, x: Values | float) -> Values:
        """The logarithm of the share of domains with risk exactly x (a mass, not a density)."""
        return self._back(log((self.weights * (self._wide == self._points(x))).sum(axis=-1)))

    @property
    def std(self) -> Values:
        """√Σp_i(R_i − R̄)², the standard deviation of this law (divisor m)."""
        found = self._moments
        share = namespace(found.std).clip(1.0 - 1.0 / found.effective, 0.0, None)
        return self._back((found.std * share**0.5)[..., 0])


def _mixed(risks: Values, weights: Values | None, mix: Values) -> Values:
    """Σ mix_i R_(i) over sorted risks, from differences to the first risk in the mix.

    So nearly equal risks keep their digits, an outlier outside the mix does no harm, and a
    mix of one is that risk exactly.
    """
    mix = share_among_ties(risks, weights, mix)
    pivot = taken(detached(risks), first_true(mix > 0))
    return pivot[..., 0] + (mix * (risks - pivot)).sum(axis=-1)
