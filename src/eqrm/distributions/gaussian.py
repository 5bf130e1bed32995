"""The Gaussian estimate of the risk distribution (the paper, Algorithm 1, ``gauss``)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from eqrm.distributions import normal_tails
from eqrm.distributions.base import LevelLike, RiskDistribution
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
        positive = found.std > 0
        z = difference / torch.where(positive, found.std, 1.0)
        step = torch.where(difference >= 0, math.inf, -math.inf)
        return torch.where(positive, z, step).squeeze(-1)

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

    def sample(self, shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """R̄ + σ̂ times normal draws."""
        full = (*shape, *self._risks.shape[:-1])
        noise = torch.randn(
            full, dtype=torch.float64, device=self._risks.device, generator=generator
        )
        found = self._moments
        return self._back(found.mean.squeeze(-1) + found.std.squeeze(-1) * noise)
