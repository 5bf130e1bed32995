"""Gaussian (the paper, Algorithm 1, ``gauss``) and log-normal estimates of the risk."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eqrm.distributions import normal_tails
from eqrm.distributions.base import LevelLike, RiskDistribution, standardised
from eqrm.distributions.normal_tails import hazard, log_sf
from eqrm.level import Level


class Gaussian(RiskDistribution):
    """N(R̄, σ̂²) with σ̂ the sample standard deviation; a single point where σ̂ = 0.

    >>> risks = torch.tensor([0.2, 0.3, 0.7], requires_grad=True)
    >>> q = Gaussian(risks).quantile(0.9)
    >>> q.backward()
    >>> round(q.item(), 4), [round(g, 3) for g in risks.grad.tolist()]
    (0.7391, [-0.151, 0.091, 1.06])
    """

    def quantile(self, level: LevelLike) -> Tensor:
        """R̄ + Φ⁻¹(α)·σ̂."""
        level = Level.of(level).interior("A normal law")
        found = self._moments
        return self._finite((found.pivot + (found.mean_offset + level.z * found.std)).squeeze(-1))

    def superquantile(self, level: LevelLike) -> Tensor:
        """R̄ + σ̂·φ(z)/(1−α) with z = Φ⁻¹(α)."""
        level = Level.of(level)
        if level.log_tail == 0.0:
            return self.mean
        excess = level.interior("A normal law").tail_mean
        found = self._moments
        return self._finite((found.pivot + (found.mean_offset + excess * found.std)).squeeze(-1))

    def _standardise(self, x: Tensor | float) -> Tensor:
        found = self._moments
        difference = self._points(x) - found.pivot - found.mean_offset
        return standardised(difference, found.std).squeeze(-1)

    def cdf(self, x: Tensor | float) -> Tensor:
        """Φ((x − R̄)/σ̂)."""
        return self._back(normal_tails.sf(-self._standardise(x)))

    def sf(self, x: Tensor | float) -> Tensor:
        """Φ((R̄ − x)/σ̂)."""
        return self._back(normal_tails.sf(self._standardise(x)))

    def log_sf(self, x: Tensor | float) -> Tensor:
        """log Φ((R̄ − x)/σ̂)."""
        return self._back(normal_tails.log_sf(self._standardise(x)))

    def log_prob(self, x: Tensor | float) -> Tensor:
        """log φ((x − R̄)/σ̂) − log σ̂."""
        density = normal_tails.log_density(self._standardise(x))
        return self._back(density - self._moments.std.squeeze(-1).log())

    @property
    def std(self) -> Tensor:
        """σ̂, the sample standard deviation (divisor m−1)."""
        return self._back(self._moments.std.squeeze(-1))


class LogNormal(RiskDistribution):
    """exp of a :class:`Gaussian` fitted to the logarithms of the risks, which must be positive.

    It shows all that a new distribution needs: a differentiable :meth:`quantile` (``icdf``)
    is enough for EQRM (the paper, Algorithm 1, note i), the rest is for evaluation.

    >>> q = LogNormal([1.0, 2.0, 4.0]).quantile(0.5)
    >>> round(q.item(), 4)
    2.0
    """

    def _refuse_bad_risks(self) -> None:
        super()._refuse_bad_risks()
        bad = (self._risks <= 0) & (self.weights > 0)
        if bool(bad.any()):
            self._refuse_risk(
                bad, "A log-normal distribution needs positive risks: use KDE or Gaussian."
            )

    @property
    def _logarithms(self) -> Gaussian:
        positive = torch.where(self.weights > 0, self._wide, 1.0)
        return Gaussian(positive.log(), weights=self._given_weights, validate=self._validate)

    def quantile(self, level: LevelLike) -> Tensor:
        """exp(μ̂ + Φ⁻¹(α)·σ̂) with μ̂, σ̂ of the logarithms."""
        return self._finite(self._logarithms.quantile(Level.of(level)).exp())

    def superquantile(self, level: LevelLike) -> Tensor:
        """exp(μ̂ + σ̂²/2)·Φ(σ̂ − z)/(1−α) with z = Φ⁻¹(α).

        In the tail it is the quantile times the ratio of φ/Φ at z and at z − σ̂: both logarithms
        would be huge, and their difference would have no digits.
        """
        level = Level.of(level)
        if level.log_tail == 0.0:
            return self._finite(self._log_mean.exp())
        z = level.interior("A log-normal law").z
        normal = self._logarithms
        beyond = z - normal.std
        deep = beyond > 0.0
        inside = torch.where(deep, beyond, 0.0)
        ratio = hazard(torch.full_like(inside, z)).log() - hazard(inside).log()
        in_tail = normal.mean + z * normal.std + ratio
        elsewhere = self._log_mean + log_sf(torch.where(deep, 0.0, beyond)) - level.log_tail
        return self._finite(torch.where(deep, in_tail, elsewhere).exp())

    @property
    def _log_mean(self) -> Tensor:
        normal = self._logarithms
        return normal.mean + 0.5 * normal.std**2

    @property
    def mean(self) -> Tensor:
        """exp(μ̂ + σ̂²/2)."""
        return self._finite(self._log_mean.exp())

    @property
    def std(self) -> Tensor:
        """mean · √(exp(σ̂²) − 1)."""
        variance = self._logarithms.std**2
        positive = variance > 0
        factor = torch.where(positive, torch.where(positive, variance, 1.0).expm1().sqrt(), 0.0)
        return self._back(self._log_mean.exp() * factor)

    def _log_points(self, x: Tensor | float) -> tuple[Tensor, Tensor]:
        point = self._points(x).squeeze(-1)
        inside = point > 0
        return torch.where(inside, point, 1.0).log(), inside

    def cdf(self, x: Tensor | float) -> Tensor:
        """Φ((log x − μ̂)/σ̂), 0 for x ≤ 0."""
        logarithm, inside = self._log_points(x)
        return self._back(torch.where(inside, self._logarithms.cdf(logarithm), 0.0))

    def log_sf(self, x: Tensor | float) -> Tensor:
        """log Φ((μ̂ − log x)/σ̂), 0 for x ≤ 0."""
        logarithm, inside = self._log_points(x)
        return self._back(torch.where(inside, self._logarithms.log_sf(logarithm), 0.0))

    def log_prob(self, x: Tensor | float) -> Tensor:
        """The normal log density of log x, minus log x; −∞ for x ≤ 0."""
        logarithm, inside = self._log_points(x)
        density = self._logarithms.log_prob(logarithm) - logarithm
        return self._back(torch.where(inside, density, -math.inf))
