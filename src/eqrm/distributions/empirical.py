"""The empirical law of the measured risks: a step at each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

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
from eqrm.level import Level


class Empirical(RiskDistribution):
    """Mass p_i at each risk: nothing is assumed, and nothing beyond the largest risk is seen.

    ``interpolation="step"`` is the paper's quantile inf{r : F(r) ≥ α}; ``"linear"``
    interpolates between neighbours as ``numpy.quantile`` does. Levels 0 and 1 give the
    smallest and the largest risk (the essential supremum of appendix B).

    >>> Empirical([3.0, 1.0, 2.0]).quantile(1), Empirical([3.0, 1.0, 2.0]).quantile(0.5)
    (tensor(3.), tensor(2.))
    >>> Empirical([0.0, 1.0], interpolation="linear").quantile(0.25)
    tensor(0.2500)
    """

    def __init__(
        self,
        risks: Tensor | Sequence[float],
        *,
        weights: Tensor | Sequence[float] | None = None,
        interpolation: str = "step",
        validate: bool | None = None,
    ) -> None:
        super().__init__(risks, weights=weights, validate=validate)
        self._interpolation = one_of(interpolation, INTERPOLATIONS, "interpolation")

    def _sorted(self) -> tuple[Tensor, Tensor | None]:
        """Risks in ascending order and their weights; absent domains first, with weight 0."""
        risks, weights = self._wide, self._given_weights
        if weights is None:
            return risks.gather(-1, risks.detach().argsort(-1)), None
        order = torch.where(weights > 0, risks, -math.inf).detach().argsort(-1)
        return risks.gather(-1, order), weights.expand(risks.shape).gather(-1, order)

    def quantile(self, level: LevelLike) -> Tensor:
        """The α-quantile; its gradient goes to the risks that make it, and ties share it."""
        level = Level.of(level)
        risks, weights = self._sorted()
        if self._interpolation == "linear":
            mix = linear_mix(risks, weights, level.alpha)
        else:
            mix = step_mix(risks, weights, level.alpha, level.tail)
        return self._back(_mixed(risks, weights, mix))

    def superquantile(self, level: LevelLike) -> Tensor:
        """The mean of the worst share 1−α of the domains, the last one counted in part.

        >>> Empirical([1.0, 2.0, 3.0, 4.0]).superquantile(0.5)
        tensor(3.5000)
        """
        level = Level.of(level)
        if level.tail <= float(torch.finfo(torch.float64).tiny):
            return self.quantile(Level(1.0))
        risks, weights = self._sorted()
        return self._back(_mixed(risks, weights, tail_mix(risks, weights, level.tail)))

    def cdf(self, x: Tensor | float) -> Tensor:
        """The share of domains with risk at most x."""
        return self._back((self.weights * (self._wide <= self._points(x))).sum(-1))

    def sf(self, x: Tensor | float) -> Tensor:
        """The share of domains with risk above x."""
        return self._back((self.weights * (self._wide > self._points(x))).sum(-1))

    def log_sf(self, x: Tensor | float) -> Tensor:
        """The logarithm of :meth:`sf`; −∞ from the largest risk on."""
        return self._back((self.weights * (self._wide > self._points(x))).sum(-1).log())

    def log_prob(self, x: Tensor | float) -> Tensor:
        """The logarithm of the share of domains with risk exactly x (a mass, not a density)."""
        return self._back((self.weights * (self._wide == self._points(x))).sum(-1).log())

    @property
    def std(self) -> Tensor:
        """√Σp_i(R_i − R̄)², the standard deviation of this law (divisor m)."""
        found = self._moments
        share = (1.0 - 1.0 / found.effective).clamp(min=0.0)
        return self._back((found.std * share.sqrt()).squeeze(-1))


def _mixed(risks: Tensor, weights: Tensor | None, mix: Tensor) -> Tensor:
    """Σ mix_i R_(i) over sorted risks, from differences to the first risk in the mix.

    So nearly equal risks keep their digits, an outlier outside the mix does no harm, and a
    mix of one is that risk exactly.
    """
    mix = share_among_ties(risks, weights, mix)
    pivot = risks.gather(-1, first_true(mix > 0)).detach()
    return pivot.squeeze(-1) + (mix * (risks - pivot)).sum(-1)
