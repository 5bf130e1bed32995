"""The kernel density estimate of the risk distribution (the paper, section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqrm.arrays import Values, detached, log, special
from eqrm.checks import one_of
from eqrm.distributions import normal_tails
from eqrm.distributions.bandwidths import (
    Bandwidth,
    BandwidthFunction,
    SigmaRule,
    UserRule,
    resolve_bandwidth,
)
from eqrm.distributions.base import LevelLike, RiskDistribution, standardised
from eqrm.distributions.kde.one_row import quantile_of_one
from eqrm.distributions.kde.shares import centres_of, relative_tails, tail_mean, wide_enough
from eqrm.errors import DomainDataError
from eqrm.execution import being_transformed, is_tensor, namespace
from eqrm.level import Level

GRADIENTS = ("implicit", "bisection")
LARGEST_PRODUCT = 1e304
DEEP = -37.0
"""Logarithms of tails below which those of single kernels lose digits that shares need."""


class KDE(RiskDistribution):
    """Gaussian kernels of bandwidth h on the risks: F(x) = Σ p_i Φ((x − R_i)/h).

    ``bandwidth`` is a rule's name (see :data:`~eqrm.distributions.bandwidths.BANDWIDTHS`),
    a positive number, or a function ``(risks, weights) -> h``.

    ``gradient="bisection"`` exists only to reproduce published results, and is wrong on purpose:
    it is the gradient that back-propagation through bisection gives (Algorithm 1 as published).
    With q = s·R_min + (1−s)·R_max + h·Φ⁻¹(α), it is s at the smallest risk, 1−s at the largest,
    plus Φ⁻¹(α)·∂h/∂R. The value is the exact one. For three or more domains it points elsewhere
    than the true gradient.

    >>> import torch
    >>> risks = torch.tensor([0.2, 0.3, 0.7], requires_grad=True)
    >>> q = KDE(risks).quantile(0.9)
    >>> q.backward()
    >>> round(q.item(), 4), [round(g, 3) for g in risks.grad.tolist()]
    (0.8261, [-0.213, -0.049, 1.262])
    """

    def __init__(
        self,
        risks: Values | Sequence[float],
        bandwidth: str | float | Bandwidth | BandwidthFunction = "gaussian-optimal",
        *,
        weights: Values | Sequence[float] | None = None,
        gradient: str = "implicit",
        validate: bool | None = None,
    ) -> None:
        super().__init__(risks, weights=weights, validate=validate)
        self._rule = resolve_bandwidth(bandwidth)
        self._gradient = one_of(gradient, GRADIENTS, "gradient")

    @property
    def rule(self) -> Bandwidth:
        """The bandwidth rule."""
        return self._rule

    @property
    def bandwidth(self) -> Values:
        """h, shape ``risks.shape[:-1]``, differentiable in the risks."""
        return self._back(self._h[..., 0])

    @property
    def _h(self) -> Values:
        bandwidth = self._rule(self._wide, self._given_weights)
        finite = namespace(bandwidth).isfinite(bandwidth)
        if self._validate and not bool(((bandwidth >= 0) & finite).all()):
            raise DomainDataError(
                f"The bandwidth is {detached(bandwidth).flatten().tolist()[:5]}; it must be finite "
                "and not negative. Check the bandwidth rule, and the risks for extreme values."
            )
        return bandwidth

    def quantile(self, alpha: LevelLike) -> Values:
        """F⁻¹(α), differentiable in the risks with the exact gradient (Algorithm 1).

        Equal risks (or one domain) give that risk, with the gradient p_i for each domain.
        """
        level = Level.of(alpha).interior("A kernel density estimate")
        if not is_tensor(self._risks):
            rule = None if isinstance(self._rule, UserRule) else self._rule
            h = None if rule else self._h
            return self._finite(_of_rows(self._risks, h, self._given_weights, rule, level))
        import torch

        from eqrm.distributions.kde.gradient import (
            compiled_quantile,
            kde_quantile,
            knows_its_slope,
            quantile_by_composition,
        )

        if self._gradient == "bisection":
            return self._finite(self._quantile_with_published_gradient(level)[..., 0])
        if being_transformed():
            if not torch._C._are_functorch_transforms_active():
                given = self._rule if isinstance(self._rule, SigmaRule) else self._h
                return compiled_quantile(self._risks, given, self._raw_weights, level)
            composed = quantile_by_composition(self._moments, self._h, self.weights, level)
            return self._back(composed[..., 0])
        bandwidth: Bandwidth | Values = self._rule
        if not knows_its_slope(self._rule, self._risks):
            bandwidth = self._h
            if self._validate and bandwidth.requires_grad:
                bandwidth.register_hook(self._refuse_large_slopes)
        return self._finite(kde_quantile(self._risks, bandwidth, self._raw_weights, level))

    def _refuse_large_slopes(self, slopes: Values) -> None:
        """Refuse dq/dh with which the graph of h would overflow: it multiplies by the spread."""
        size = float(self._wide.detach().abs().max())
        if not float(slopes.detach().abs().max()) * size < LARGEST_PRODUCT:
            raise DomainDataError(
                "The gradient of the quantile cannot be computed for risks of this size. "
                "The result is too large: pass the risks in smaller units."
            )

    def _quantile_with_published_gradient(self, level: Level) -> Values:
        from eqrm.distributions.kde.gradient import kde_quantile, quantile_by_composition

        risks, bandwidth, xp = self._wide, self._h, namespace(self._risks)
        if being_transformed():
            exact = quantile_by_composition(self._moments, bandwidth, self.weights, level).detach()
        else:
            given, h = self._given_weights, bandwidth.detach()
            exact = kde_quantile(risks.detach(), h, given, level).unsqueeze(-1)
        present = self.weights > 0
        smallest = xp.amin(xp.where(present, risks, math.inf), axis=-1, keepdims=True)
        largest = xp.amax(xp.where(present, risks, -math.inf), axis=-1, keepdims=True)
        reach = (largest - smallest).detach()
        top = (largest + bandwidth * level.z).detach()
        share = xp.where(reach > 0, (top - exact) / xp.where(reach > 0, reach, 1.0), 0.5)
        share = share.clamp(0.0, 1.0)
        published = share * smallest + (1.0 - share) * largest + bandwidth * level.z
        return published + (exact - published).detach()

    def superquantile(self, alpha: LevelLike) -> Values:
        """E[risk | risk > q] = Σ v_i (R_i + h·φ(z_i)/Φ(−z_i)) with v_i ∝ p_i Φ(−z_i)."""
        level = Level.of(alpha)
        if level.log_tail == 0.0:
            return self.mean
        level = level.interior("A kernel density estimate")
        found = self._moments
        bandwidth = wide_enough(self._h, found)
        if is_tensor(bandwidth):
            from eqrm.distributions.kde.gradient import TailMean, centres_and_root

            centres, root = centres_and_root(found, bandwidth, self.weights, level)
            mean_of: Any = TailMean.apply
        else:
            centres, mean_of = centres_of(found, bandwidth), tail_mean
            # Roots are quantiles for kernels of width 1.
            one = np.ones_like(bandwidth)
            root = _of_rows(centres, one, self._given_weights, None, level)[..., None]
        z = root - centres
        log_weights = namespace(z).broadcast_to(log(self.weights), z.shape)
        if level.log_tail < DEEP:
            shares = relative_tails(centres, log_weights, root)
        else:
            shares = special(z).softmax(log_weights + normal_tails.log_sf(z), axis=-1)
        excess = mean_of(found.centred, bandwidth, shares, normal_tails.hazard(z))
        return self._finite((found.pivot + (found.mean_offset + excess))[..., 0])

    def _standardised(self, x: Values | float) -> Values:
        found = self._moments
        difference = self._points(x) - found.pivot - found.mean_offset - found.centred
        return standardised(difference, self._h)

    def cdf(self, x: Values | float) -> Values:
        """Σ p_i Φ((x − R_i)/h)."""
        z = self._standardised(x)
        return self._back((self.weights * normal_tails.sf(-z)).sum(axis=-1))

    def sf(self, x: Values | float) -> Values:
        """Σ p_i Φ((R_i − x)/h)."""
        z = self._standardised(x)
        return self._back((self.weights * normal_tails.sf(z)).sum(axis=-1))

    def log_sf(self, x: Values | float) -> Values:
        """log P(risk > x), exact in both tails."""
        z = self._standardised(x)
        xp = namespace(z)
        in_upper = special(z).logsumexp(log(self.weights) + normal_tails.log_sf(z), axis=-1)
        # Near S = 1 the sum of lower tails has the digits: log S = log1p(-F).
        lower = (self.weights * normal_tails.sf(-z)).sum(axis=-1)
        small = lower < 0.5
        return self._back(xp.where(small, xp.log1p(-xp.where(small, lower, 0.0)), in_upper))

    def log_prob(self, x: Values | float) -> Values:
        """log f(x), f(x) = Σ p_i φ((x − R_i)/h)/h."""
        kernels = log(self.weights) + normal_tails.log_density(self._standardised(x))
        return self._back(special(kernels).logsumexp(kernels, axis=-1) - log(self._h[..., 0]))

    @property
    def std(self) -> Values:
        """√(Σp_i(R_i − R̄)² + h²)."""
        found, bandwidth, xp = self._moments, self._h, namespace(self._risks)
        share = xp.clip(1.0 - 1.0 / found.effective, 0.0, None)
        scale = detached(xp.maximum(found.std, bandwidth))
        positive = scale > 0
        scale = xp.where(positive, scale, 1.0)
        variance = share * (found.std / scale) ** 2 + (bandwidth / scale) ** 2
        root = xp.where(positive, scale * xp.where(positive, variance, 1.0) ** 0.5, 0.0)
        return self._finite(root[..., 0])


def _of_rows(
    risks: Values, bandwidth: Values | None, weights: Values | None, rule: Any, level: Level
) -> Values:
    """The quantile of each row of an array, by a rule or at given bandwidths (..., 1)."""
    values = np.empty(risks.shape[:-1])
    shares = None if weights is None else np.broadcast_to(weights, risks.shape)
    for place in np.ndindex(values.shape):
        h = None if bandwidth is None else float(bandwidth[place][0])
        own = None if shares is None else shares[place]
        values[place] = quantile_of_one(risks[place], h, own, rule, level, False).value
    return values
