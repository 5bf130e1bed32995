"""The kernel density estimate of the risk distribution (the paper, section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eqrm.checks import one_of
from eqrm.distributions import normal_tails
from eqrm.distributions.bandwidths import (
    Bandwidth,
    BandwidthFunction,
    SigmaRule,
    resolve_bandwidth,
)
from eqrm.distributions.base import LevelLike, RiskDistribution, standardised
from eqrm.distributions.kde.gradient import (
    centres_and_root,
    compiled_quantile,
    kde_quantile,
    knows_its_slope,
    quantile_by_composition,
    relative_tails,
    wide_enough,
)
from eqrm.errors import DomainDataError
from eqrm.execution import being_transformed
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

    >>> risks = torch.tensor([0.2, 0.3, 0.7], requires_grad=True)
    >>> q = KDE(risks).quantile(0.9)
    >>> q.backward()
    >>> round(q.item(), 4), [round(g, 3) for g in risks.grad.tolist()]
    (0.8261, [-0.213, -0.049, 1.262])
    """

    def __init__(
        self,
        risks: Tensor | Sequence[float],
        bandwidth: str | float | Bandwidth | BandwidthFunction = "gaussian-optimal",
        *,
        weights: Tensor | Sequence[float] | None = None,
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
    def bandwidth(self) -> Tensor:
        """h, shape ``risks.shape[:-1]``, differentiable in the risks."""
        return self._back(self._h.squeeze(-1))

    @property
    def _h(self) -> Tensor:
        bandwidth = self._rule(self._wide, self._given_weights)
        if self._validate and not bool(((bandwidth >= 0) & bandwidth.isfinite()).all()):
            raise DomainDataError(
                f"The bandwidth is {bandwidth.detach().flatten().tolist()[:5]}; it must be finite "
                "and not negative. Check the bandwidth rule, and the risks for extreme values."
            )
        return bandwidth

    def quantile(self, level: LevelLike) -> Tensor:
        """F⁻¹(α), differentiable in the risks with the exact gradient (Algorithm 1).

        Equal risks (or one domain) give that risk, with the gradient p_i for each domain.
        """
        level = Level.of(level).interior("A kernel density estimate")
        if self._gradient == "bisection":
            return self._finite(self._quantile_with_published_gradient(level).squeeze(-1))
        if being_transformed():
            if not torch._C._are_functorch_transforms_active():
                rule = self._rule if isinstance(self._rule, SigmaRule) else self._h
                return compiled_quantile(self._risks, rule, self._raw_weights, level)
            composed = quantile_by_composition(self._moments, self._h, self.weights, level)
            return self._back(composed.squeeze(-1))
        bandwidth: Bandwidth | Tensor = self._rule
        if not knows_its_slope(self._rule, self._risks):
            bandwidth = self._h
            if self._validate and bandwidth.requires_grad:
                bandwidth.register_hook(self._refuse_large_slopes)
        return self._finite(kde_quantile(self._risks, bandwidth, self._raw_weights, level))

    def _refuse_large_slopes(self, slopes: Tensor) -> None:
        """Refuse dq/dh with which the graph of h would overflow: it multiplies by the spread."""
        size = float(self._wide.detach().abs().max())
        if not float(slopes.detach().abs().max()) * size < LARGEST_PRODUCT:
            raise DomainDataError(
                "The gradient of the quantile cannot be computed for risks of this size. "
                "The result is too large: pass the risks in smaller units."
            )

    def _quantile_with_published_gradient(self, level: Level) -> Tensor:
        risks, bandwidth = self._wide, self._h
        if being_transformed():
            exact = quantile_by_composition(self._moments, bandwidth, self.weights, level).detach()
        else:
            given, h = self._given_weights, bandwidth.detach()
            exact = kde_quantile(risks.detach(), h, given, level).unsqueeze(-1)
        present = self.weights > 0
        smallest = torch.where(present, risks, math.inf).amin(-1, keepdim=True)
        largest = torch.where(present, risks, -math.inf).amax(-1, keepdim=True)
        reach = (largest - smallest).detach()
        top = (largest + bandwidth * level.z).detach()
        share = torch.where(reach > 0, (top - exact) / torch.where(reach > 0, reach, 1.0), 0.5)
        share = share.clamp(0.0, 1.0)
        published = share * smallest + (1.0 - share) * largest + bandwidth * level.z
        return published + (exact - published).detach()

    def superquantile(self, level: LevelLike) -> Tensor:
        """E[risk | risk > q] = Σ v_i (R_i + h·φ(z_i)/Φ(−z_i)) with v_i ∝ p_i Φ(−z_i)."""
        level = Level.of(level)
        if level.log_tail == 0.0:
            return self.mean
        level = level.interior("A kernel density estimate")
        found = self._moments
        bandwidth = wide_enough(self._h, found)
        centres, root = centres_and_root(found, bandwidth, self.weights, level)
        z = root - centres
        log_weights = self.weights.log().expand(z.shape)
        if level.log_tail < DEEP:
            shares = relative_tails(centres, log_weights, root)
        else:
            shares = (log_weights + normal_tails.log_sf(z)).softmax(-1)
        excess: Tensor = _TailMean.apply(  # type: ignore[no-untyped-call]
            found.centred, bandwidth, shares, normal_tails.hazard(z)
        )
        return self._finite((found.pivot + (found.mean_offset + excess)).squeeze(-1))

    def _standardised(self, x: Tensor | float) -> Tensor:
        found = self._moments
        difference = self._points(x) - found.pivot - found.mean_offset - found.centred
        return standardised(difference, self._h)

    def cdf(self, x: Tensor | float) -> Tensor:
        """Σ p_i Φ((x − R_i)/h)."""
        z = self._standardised(x)
        return self._back((self.weights * normal_tails.sf(-z)).sum(-1))

    def sf(self, x: Tensor | float) -> Tensor:
        """Σ p_i Φ((R_i − x)/h)."""
        z = self._standardised(x)
        return self._back((self.weights * normal_tails.sf(z)).sum(-1))

    def log_sf(self, x: Tensor | float) -> Tensor:
        """log P(risk > x), exact in both tails."""
        z = self._standardised(x)
        in_upper = (self.weights.log() + normal_tails.log_sf(z)).logsumexp(-1)
        # Near S = 1 the sum of lower tails has the digits: log S = log1p(-F).
        lower = (self.weights * normal_tails.sf(-z)).sum(-1)
        small = lower < 0.5
        return self._back(
            torch.where(small, torch.log1p(-torch.where(small, lower, 0.0)), in_upper)
        )

    def log_prob(self, x: Tensor | float) -> Tensor:
        """log f(x), f(x) = Σ p_i φ((x − R_i)/h)/h."""
        kernels = self.weights.log() + normal_tails.log_density(self._standardised(x))
        return self._back(kernels.logsumexp(-1) - self._h.squeeze(-1).log())

    @property
    def std(self) -> Tensor:
        """√(Σp_i(R_i − R̄)² + h²)."""
        found, bandwidth = self._moments, self._h
        share = (1.0 - 1.0 / found.effective).clamp(min=0.0)
        scale = torch.maximum(found.std, bandwidth).detach()
        positive = scale > 0
        scale = torch.where(positive, scale, 1.0)
        variance = share * (found.std / scale) ** 2 + (bandwidth / scale) ** 2
        root = torch.where(positive, scale * torch.where(positive, variance, 1.0).sqrt(), 0.0)
        return self._finite(root.squeeze(-1))


class _TailMean(torch.autograd.Function):
    """Σ v_i (x_i + h·r_i), with the gradient v in x and Σ v_i r_i in h, and none through v and r.

    v and r depend on x and h too, but what flows through them adds up to 0: the superquantile is
    the least value of q + E[risk − q]₊/(1−α), so that it does not change with its own quantile.
    Computed, it would be a difference of numbers of the size of z², and in the end NaN.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(centred: Tensor, bandwidth: Tensor, shares: Tensor, rates: Tensor) -> Tensor:
        return (shares * (centred + bandwidth * rates)).sum(-1, keepdim=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[2:])

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        shares, rates = ctx.saved_tensors  # of their own graph, for second derivatives
        return slope * shares, slope * (shares * rates).sum(-1, keepdim=True), None, None
