"""The quantile of the kernel density estimate with its exact gradient.

The quantile q is defined by Σ p_i Φ((R_i − q)/h) = 1−α. The implicit function theorem gives,
with z_i = (q − R_i)/h, w_i ∝ p_i φ(z_i) and z̄ = Σ w_i z_i,

    dq/dR_i = w_i + z̄ · ∂h/∂R_i.

:func:`quantile_by_composition` builds q from differentiable pieces and works everywhere, to
any order of derivative. :func:`kde_quantile` is the quick road: value and gradient are found in one
go, and only somebody who differentiates the gradient makes the pieces be put together.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eqrm.distributions.bandwidths import Bandwidth, RowBandwidth, SigmaRule
from eqrm.distributions.kde.root import quantile_of_row
from eqrm.distributions.kde.root_in_tensors import roots_in_tensors
from eqrm.distributions.moments import Moments, moments, row_moments
from eqrm.level import Level


class Root(torch.autograd.Function):
    """t(y) with Σ p_i Φ(y_i − t) = 1−α, and dt/dy_i = w_i ∝ p_i φ(t − y_i)."""

    @staticmethod
    def forward(centres: Tensor, log_weights: Tensor, level: Level) -> Tensor:
        return roots_in_tensors(centres, log_weights, level)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        centres, log_weights, _ = inputs
        ctx.save_for_backward(centres, log_weights, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        # The root is saved as this function's output, so that second derivatives flow
        # through it as well.
        centres, log_weights, root = ctx.saved_tensors
        return grad * relative_kernels(centres, log_weights, root), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], centres: Tensor, weights: Tensor, level: Level
    ) -> tuple[Tensor, int]:
        """Rows are solved together anyway: the mapped dimension becomes the first of them."""
        mapped = [
            values.expand(info.batch_size, *values.shape) if dim is None else values.movedim(dim, 0)
            for values, dim in zip((centres, weights), in_dims, strict=False)
        ]
        return Root.apply(*mapped, level), 0  # type: ignore[no-untyped-call]


def relative_kernels(centres: Tensor, log_weights: Tensor, root: Tensor) -> Tensor:
    """w_i ∝ p_i φ(t − y_i), from differences to the nearest centre.

    z_i² − z_j² = (z_i − z_j)(z_i + z_j) keeps the digits that squares of large z would lose.
    """
    z = root - centres
    logits = log_weights - 0.5 * z.detach() ** 2
    nearest = logits.argmax(-1, keepdim=True)
    reference = centres.gather(-1, nearest)
    difference = (reference - centres) * (z + root - reference)
    return (log_weights - 0.5 * difference).softmax(-1)


def centres_and_root(
    found: Moments, bandwidth: Tensor, weights: Tensor, level: Level
) -> tuple[Tensor, Tensor]:
    """y_i = (R_i − R̄)/h and t = (q − R̄)/h; where h = 0, the risks are equal and y = 0."""
    positive = bandwidth > 0
    centres = found.centred / torch.where(positive, bandwidth, 1.0)
    centres = torch.where(positive, centres, 0.0)
    log_weights = weights.log().expand(centres.shape)
    root: Tensor = Root.apply(centres, log_weights, level)  # type: ignore[no-untyped-call]
    return centres, root


def quantile_by_composition(
    found: Moments, bandwidth: Tensor, weights: Tensor, level: Level
) -> Tensor:
    """q of shape ``(..., 1)``, float64; where h = 0, the mean of the (equal) risks."""
    _, root = centres_and_root(found, bandwidth, weights, level)
    return found.pivot + (found.mean_offset + bandwidth * root)


def knows_its_slope(rule: Bandwidth, risks: Tensor) -> bool:
    """Whether the rule itself says how h follows these risks; else autograd has to."""
    return isinstance(rule, SigmaRule) or (rule.has_closed_form and _is_one_row(risks))


def _is_one_row(risks: Tensor) -> bool:
    return risks.ndim == 1 and risks.device.type == "cpu"


def kde_quantile(
    risks: Tensor, bandwidth: Bandwidth | Tensor, weights: Tensor | None, level: Level
) -> Tensor:
    """q, shape ``risks.shape[:-1]``, differentiable to any order.

    ``bandwidth`` is a rule that knows its slope (:func:`knows_its_slope`), or a tensor of shape
    (..., 1), into whose graph the gradient flows on.

    >>> risks = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> q = kde_quantile(risks, SigmaRule(1.0), None, Level(0.5))
    >>> q.backward()
    >>> round(q.item(), 6), [round(g, 3) for g in risks.grad.tolist()]
    (2.0, [0.24, 0.521, 0.24])
    """
    value: Tensor = KdeQuantile.apply(  # type: ignore[no-untyped-call]
        risks, bandwidth, weights, level
    )
    return value


class KdeQuantile(torch.autograd.Function):
    """Value and gradient in one go: dq/dR, in all or at a given h, and then dq/dh = z̄."""

    @staticmethod
    def forward(
        ctx: Any,
        risks: Tensor,
        bandwidth: Bandwidth | Tensor,
        weights: Tensor | None,
        level: Level,
    ) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        found = _value_and_gradients(risks, bandwidth, weights, level, wanted)
        if wanted:
            given, ctx.rule = (
                (bandwidth, None) if isinstance(bandwidth, Tensor) else (None, bandwidth)
            )
            ctx.save_for_backward(risks, given)
            ctx.settings, ctx.gradients = (weights, level), found.gradients
        return found.value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        risks, given = ctx.saved_tensors
        bandwidth, (weights, level) = ctx.rule if given is None else given, ctx.settings
        each = grad.unsqueeze(-1)
        if torch.is_grad_enabled():
            by_risks, by_bandwidth = _gradients_with_graph(risks, bandwidth, weights, level)
            by_risks = None if by_risks is None else each * by_risks
        else:
            gradients, ctx.gradients = ctx.gradients, None
            if gradients is None:  # asked for a second time, by retain_graph
                gradients = _value_and_gradients(risks, bandwidth, weights, level, True).gradients
            by_risks, by_bandwidth = gradients[0].mul_(each), gradients[1]
        return by_risks, None if by_bandwidth is None else each * by_bandwidth, None, None


class _Found(NamedTuple):
    """q and dq/dR in the dtype of the risks, and dq/dh (..., 1) where h was given."""

    value: Tensor
    by_risks: Tensor | None
    by_bandwidth: Tensor | None

    @property
    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        return self[1:]


def _gradients_with_graph(
    risks: Tensor, bandwidth: Bandwidth | Tensor, weights: Tensor | None, level: Level
) -> tuple[Tensor | None, Tensor | None]:
    """dq/dR and dq/dh, to be differentiated once more."""
    # Other views of the inputs, so that a bandwidth that depends on the risks counts as given.
    risks = risks.view_as(risks)
    wide = risks.to(torch.float64)
    if weights is None:
        shares = torch.full_like(wide[..., :1], 1.0 / risks.shape[-1])
    else:
        shares, wide = weights, torch.where(weights > 0, wide, 0.0)
    given = isinstance(bandwidth, Tensor)
    h = bandwidth.view_as(bandwidth) if isinstance(bandwidth, Tensor) else bandwidth(wide, weights)
    value = quantile_by_composition(moments(wide, weights), h, shares, level)
    by_risks = by_bandwidth = None
    if risks.requires_grad:
        (by_risks,) = torch.autograd.grad(value.sum(), risks, create_graph=True)
    if given and h.requires_grad:
        (by_bandwidth,) = torch.autograd.grad(value.sum(), h, create_graph=True)
    return by_risks, by_bandwidth


def _value_and_gradients(
    risks: Tensor,
    bandwidth: Bandwidth | Tensor,
    weights: Tensor | None,
    level: Level,
    wants_gradient: bool,
) -> _Found:
    dtype, exact = risks.dtype, torch.float64
    wide = risks.detach() if dtype == exact else risks.detach().to(exact)
    of_rows = _of_one_row if _is_one_row(risks) else _of_rows
    found = of_rows(wide, bandwidth, weights, level, wants_gradient)
    if dtype == exact:
        return found
    by_risks = None if found.by_risks is None else found.by_risks.to(dtype)
    return _Found(found.value.to(dtype), by_risks, found.by_bandwidth)


def _of_one_row(
    risks: Tensor,
    bandwidth: Bandwidth | Tensor,
    weights: Tensor | None,
    level: Level,
    wants_gradient: bool,
) -> _Found:
    """One row on the CPU. Domains without weight are left out; equal weights are none."""
    kept, domains, shares = None, risks.numel(), None
    if weights is not None:
        shares = weights.numpy()
        if not shares.all():
            kept = torch.from_numpy(np.flatnonzero(shares))
            risks, shares = risks.index_select(0, kept), weights.index_select(0, kept).numpy()
        shares = None if shares.min() == shares.max() else np.ascontiguousarray(shares)
    row, given = row_moments(risks, shares), isinstance(bandwidth, Tensor)
    if not math.isfinite(row.std):  # a bad risk that nobody refused, or risks too far apart
        nan = risks.new_full((domains,), math.nan)
        return _Found(nan.sum(), nan, nan[:1] if given else None)
    h = RowBandwidth(float(bandwidth)) if isinstance(bandwidth, Tensor) else bandwidth.of_row(row)
    value, gradient, mean_z = quantile_of_row(row, h, level, wants_gradient)
    if gradient is not None and kept is not None:
        gradient = risks.new_zeros(domains).index_copy_(0, kept, gradient)
    slope = torch.full((1,), mean_z, dtype=torch.float64) if given else None
    return _Found(torch.scalar_tensor(value, dtype=torch.float64), gradient, slope)


def _of_rows(
    risks: Tensor,
    bandwidth: Bandwidth | Tensor,
    weights: Tensor | None,
    level: Level,
    wants_gradient: bool,
) -> _Found:
    """Rows in a batch and on other devices, in tensors and without a look at them."""
    shares = torch.full_like(risks[..., :1], 1.0 / risks.shape[-1]) if weights is None else weights
    if weights is not None:
        risks = torch.where(weights > 0, risks, 0.0)
    found = moments(risks, weights)
    ratio: Any = bandwidth.factor(found.effective) if isinstance(bandwidth, SigmaRule) else None
    h = bandwidth if isinstance(bandwidth, Tensor) else ratio * found.std
    centres, root = centres_and_root(found, h, shares, level)
    value = (found.pivot + (found.mean_offset + h * root)).squeeze(-1)
    if not wants_gradient:
        return _Found(value, None, None)
    kernels = relative_kernels(centres, shares.log(), root)
    mean_z = root - (kernels * centres).sum(-1, keepdim=True)
    if ratio is None:
        return _Found(value, kernels, mean_z)
    # dh/dR_i = h·p_i·x_i/((1−Σp²)·σ̂²) = p_i·y_i·(h/σ̂)²/(1−Σp²), and y = 0 where h is.
    several = (1.0 - 1.0 / found.effective).clamp(min=1e-12)
    gradient = kernels + shares * centres * (mean_z * ratio * ratio / several)
    return _Found(value, gradient, None)
