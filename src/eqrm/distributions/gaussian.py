"""Gaussian (the paper, Algorithm 1, ``gauss``) and log-normal estimates of the risk."""

from __future__ import annotations

import math

from eqrm.arrays import Values, exp, log
from eqrm.distributions import normal_tails
from eqrm.distributions.base import LevelLike, RiskDistribution, standardised
from eqrm.distributions.normal_tails import hazard, log_sf
from eqrm.execution import namespace
from eqrm.level import Level


class Gaussian(RiskDistribution):
    """N(R̄, σ̂²) with σ̂ the sample standard deviation; a single point where σ̂ = 0.

    >>> float(Gaussian([0.2, 0.3, 0.7]).quantile(0.9).round(4))
    0.7391
    """

    def quantile(self, alpha: LevelLike) -> Values:
        """R̄ + Φ⁻¹(α)·σ̂."""
        level = Level.of(alpha).interior("A normal law")
        found = self._moments
        return self._finite((found.pivot + (found.mean_offset + level.z * found.std))[..., 0])

    def superquantile(self, alpha: LevelLike) -> Values:
        """R̄ + σ̂·φ(z)/(1−α) with z = Φ⁻¹(α)."""
        level = Level.of(alpha)
        if level.log_tail == 0.0:
            return self.mean
        excess = level.interior("A normal law").tail_mean
        found = self._moments
        return self._finite((found.pivot + (found.mean_offset + excess * found.std))[..., 0])

    def _standardise(self, x: Values | float) -> Values:
        found = self._moments
        difference = self._points(x) - found.pivot - found.mean_offset
        return standardised(difference, found.std)[..., 0]

    def cdf(self, x: Values | float) -> Values:
        """Φ((x − R̄)/σ̂)."""
        return self._back(normal_tails.sf(-self._standardise(x)))

    def sf(self, x: Values | float) -> Values:
        """Φ((R̄ − x)/σ̂)."""
        return self._back(normal_tails.sf(self._standardise(x)))

    def log_sf(self, x: Values | float) -> Values:
        """log Φ((R̄ − x)/σ̂)."""
        return self._back(normal_tails.log_sf(self._standardise(x)))

    def log_prob(self, x: Values | float) -> Values:
        """log φ((x − R̄)/σ̂) − log σ̂."""
        density = normal_tails.log_density(self._standardise(x))
        return self._back(density - log(self._moments.std[..., 0]))

    @property
    def std(self) -> Values:
        """σ̂, the sample standard deviation (divisor m−1)."""
        return self._back(self._moments.std[..., 0])


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
        positive = namespace(self._risks).where(self.weights > 0, self._wide, 1.0)
        return Gaussian(log(positive), weights=self._given_weights, validate=self._validate)

    def quantile(self, alpha: LevelLike) -> Values:
        """exp(μ̂ + Φ⁻¹(α)·σ̂) with μ̂, σ̂ of the logarithms."""
        return self._finite(exp(self._logarithms.quantile(Level.of(alpha))))

    def superquantile(self, alpha: LevelLike) -> Values:
        """exp(μ̂ + σ̂²/2)·Φ(σ̂ − z)/(1−α) with z = Φ⁻¹(α).

        In the tail it is the quantile times the ratio of φ/Φ at z and at z − σ̂: both logarithms
        would be huge, and their difference would have no digits.
        """
        level = Level.of(alpha)
        if level.log_tail == 0.0:
            return self.mean
        z = level.interior("A log-normal law").z
        normal = self._logarithms
        beyond = z - normal.std
        xp, deep = namespace(beyond), beyond > 0.0
        inside = xp.where(deep, beyond, 0.0)
        ratio = log(hazard(xp.full_like(inside, z))) - log(hazard(inside))
        in_tail = normal.mean + z * normal.std + ratio
        elsewhere = self._log_mean + log_sf(xp.where(deep, 0.0, beyond)) - level.log_tail
        return self._finite(exp(xp.where(deep, in_tail, elsewhere)))

    @property
    def _log_mean(self) -> Values:
        normal = self._logarithms
        return normal.mean + 0.5 * normal.std**2

    @property
    def mean(self) -> Values:
        """exp(μ̂ + σ̂²/2)."""
        return self._finite(exp(self._log_mean))

    @property
    def std(self) -> Values:
        """mean · √(exp(σ̂²) − 1)."""
        variance = self._logarithms.std**2
        xp, positive = namespace(variance), variance > 0
        factor = xp.where(positive, xp.expm1(xp.where(positive, variance, 1.0)) ** 0.5, 0.0)
        return self._back(exp(self._log_mean) * factor)

    def _log_points(self, x: Values | float) -> tuple[Values, Values]:
        point = self._points(x)[..., 0]
        inside = point > 0
        return log(namespace(point).where(inside, point, 1.0)), inside

    def cdf(self, x: Values | float) -> Values:
        """Φ((log x − μ̂)/σ̂), 0 for x ≤ 0."""
        logarithm, inside = self._log_points(x)
        return self._back(namespace(inside).where(inside, self._logarithms.cdf(logarithm), 0.0))

    def log_sf(self, x: Values | float) -> Values:
        """log Φ((μ̂ − log x)/σ̂), 0 for x ≤ 0."""
        logarithm, inside = self._log_points(x)
        return self._back(namespace(inside).where(inside, self._logarithms.log_sf(logarithm), 0.0))

    def log_prob(self, x: Values | float) -> Values:
        """The normal log density of log x, minus log x; −∞ for x ≤ 0."""
        logarithm, inside = self._log_points(x)
        density = self._logarithms.log_prob(logarithm) - logarithm
        return self._back(namespace(inside).where(inside, density, -math.inf))
