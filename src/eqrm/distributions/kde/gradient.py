"""The quantile of the kernel density estimate with its exact gradient.

The quantile q is defined by Σ p_i Φ((R_i − q)/h) = 1−α. The implicit function theorem gives,
with z_i = (q − R_i)/h, w_i ∝ p_i φ(z_i) and z̄ = Σ w_i z_i,

    dq/dR_i = w_i + z̄ · ∂h/∂R_i.

:func:`quantile_by_composition` builds q from differentiable pieces and works everywhere, to
any order of derivative. :func:`sigma_quantile` is the quick road for bandwidths proportional to
σ̂: it finds value and gradient in one go, and falls back on the first road when somebody
differentiates the gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.distributions.bandwidths import Bandwidth, SigmaRule
from eqrm.distributions.kde import native
from eqrm.distributions.kde.centred_row import center_row
from eqrm.distributions.kde.long_rows import LONG, LongBulkSums
from eqrm.distributions.kde.root import root_of_one, roots_in_tensors
from eqrm.distributions.kde.sums import (
    FAR_INSIDE_TAIL,
    Array,
    BulkSums,
    Equation,
    KernelSums,
    TailSums,
    equal_weights,
)
from eqrm.distributions.moments import Moments, moments
from eqrm.errors import DomainDataError
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


class SigmaQuantile(torch.autograd.Function):
    """Value and gradient in one go for h = c·σ̂, shape ``risks.shape[:-1]``."""

    @staticmethod
    def forward(
        ctx: Any, risks: Tensor, weights: Tensor | None, rule: SigmaRule, level: Level
    ) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        value, gradient = _value_and_gradient(risks.detach(), weights, rule, level, wanted)
        if wanted:
            ctx.save_for_backward(risks)
            ctx.gradient, ctx.settings = gradient, (weights, rule, level)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        each = grad.unsqueeze(-1)
        if torch.is_grad_enabled():
            (risks,) = ctx.saved_tensors
            return each * _gradient_with_graph(risks, *ctx.settings), None, None, None
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:  # asked for a second time, by retain_graph
            (risks,) = ctx.saved_tensors
            _, gradient = _value_and_gradient(risks.detach(), *ctx.settings)
        return gradient.mul_(each), None, None, None


def _representable(value: float, dtype: torch.dtype) -> float:
    if abs(value) <= _LARGEST[dtype]:
        return value
    raise DomainDataError(
        f"The quantile {value:g} is too large for {dtype}. Pass the risks in "
        f"{'smaller units' if dtype == torch.float64 else 'float32 or float64'}."
    )


_LARGEST = {
    dtype: torch.finfo(dtype).max
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
}


def _gradient_with_graph(
    risks: Tensor, weights: Tensor | None, rule: Bandwidth, level: Level
) -> Tensor:
    wide = risks.to(torch.float64)
    if weights is None:
        shares = torch.full_like(wide[..., :1], 1.0 / risks.shape[-1])
    else:
        shares, wide = weights, torch.where(weights > 0, wide, 0.0)
    value = quantile_by_composition(moments(wide, weights), rule(wide, weights), shares, level)
    (gradient,) = torch.autograd.grad(value.sum(), risks, create_graph=True)
    return gradient


def _value_and_gradient(
    risks: Tensor,
    weights: Tensor | None,
    rule: SigmaRule,
    level: Level,
    wants_gradient: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Value and gradient in the dtype of the risks."""
    wide = risks if risks.dtype == torch.float64 else risks.to(torch.float64)
    if risks.ndim == 1 and risks.device.type == "cpu":
        found, gradient = _of_one_row(wide, weights, rule, level, wants_gradient)
        value = torch.scalar_tensor(_representable(found, risks.dtype), dtype=risks.dtype)
    else:
        wide_value, gradient = _of_rows(wide, weights, rule, level, wants_gradient)
        value = wide_value.to(risks.dtype)
    if gradient is not None and gradient.dtype != risks.dtype:
        gradient = gradient.to(risks.dtype)
    return value, gradient


def _of_one_row(
    risks: Tensor, weights: Tensor | None, rule: SigmaRule, level: Level, wants_gradient: bool
) -> tuple[float, Tensor | None]:
    """One row on the CPU. Domains without weight are left out; equal weights are none."""
    kept, domains = None, risks.numel()
    if weights is not None:
        if not bool(weights.all()):
            kept = torch.from_numpy(np.flatnonzero(weights.numpy()))
            risks, weights = risks.index_select(0, kept), weights.index_select(0, kept)
        low, high = torch.aminmax(weights)
        weights = None if bool(low == high) else weights
    found = _by_native_part(risks, weights, rule, level, wants_gradient)
    if found is None:
        kernels = None if weights is None else weights.numpy()
        found = _in_float64(risks, kernels, rule, level, wants_gradient)
    value, gradient = found
    if gradient is not None and kept is not None:
        gradient = risks.new_zeros(domains).index_copy_(0, kept, gradient)
    return value, gradient


def _of_rows(
    risks: Tensor, weights: Tensor | None, rule: SigmaRule, level: Level, wants_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Rows in a batch and on other devices, in tensors and without a look at them."""
    shares = torch.full_like(risks[..., :1], 1.0 / risks.shape[-1]) if weights is None else weights
    if weights is not None:
        risks = torch.where(weights > 0, risks, 0.0)
    found = moments(risks, weights)
    bandwidth = rule.constant * found.effective**-0.2 * found.std
    centres, root = centres_and_root(found, bandwidth, shares, level)
    value = (found.pivot + (found.mean_offset + bandwidth * root)).squeeze(-1)
    if not wants_gradient:
        return value, None
    kernels = relative_kernels(centres, shares.log(), root)
    mean_z = root - (kernels * centres).sum(-1, keepdim=True)
    # dh/dR_i = h·p_i·x_i/((1−Σp²)·σ̂²) = p_i·y_i·(h/σ̂)²/(1−Σp²), and y = 0 where h is.
    ratio = rule.constant * found.effective**-0.2
    several = (1.0 - 1.0 / found.effective).clamp(min=1e-12)
    gradient = kernels + shares * centres * (mean_z * ratio * ratio / several)
    return value, gradient


def _by_native_part(
    risks: Tensor, weights: Tensor | None, rule: SigmaRule, level: Level, wants_gradient: bool
) -> tuple[float, Tensor | None] | None:
    """Value and gradient where one call of the C part gives them: rows of usual length."""
    library, m = native.LIBRARY, risks.numel()
    deep = min(level.log_tail, level.log_alpha) < FAR_INSIDE_TAIL
    if library is None or m > LONG or deep or not risks.is_contiguous():
        return None
    concentration = 1.0 / m
    if weights is not None:
        if not weights.is_contiguous():
            return None
        concentration = float(weights.dot(weights))
    gradient = torch.empty_like(risks) if wants_gradient else None
    factor = rule.factor(1.0 / concentration)
    value = native.quantile(library, risks, weights, factor, concentration, level, gradient)
    return None if value is None else (value, gradient)


def _in_float64(
    risks: Tensor, weights: Array | None, rule: SigmaRule, level: Level, wants_gradient: bool
) -> tuple[float, Tensor | None]:
    row = center_row(risks, weights)
    bandwidth = rule.factor(1.0 / row.concentration) * row.std
    if bandwidth == 0.0:
        value = row.pivot + row.offset
        shares = equal_weights(row.centred.size) if weights is None else weights
        gradient = torch.from_numpy(shares.copy())
    else:
        tail, goal = level.log_tail, level.z
        if level.log_tail > -math.log(2.0):
            bandwidth, tail, goal = -bandwidth, level.log_alpha, -level.z
        sums = _sums(Equation(row.centred, weights, row.std, bandwidth, tail, goal))
        root = root_of_one(sums)
        value = row.pivot + (row.offset + bandwidth * (sums.origin + root))
        if not wants_gradient:
            return value, None
        # dh/dR_i = h·p_i·x_i/((1-Σp²)·σ̂²)
        coupling = bandwidth / row.std / row.std / (1.0 - row.concentration)
        gradient = sums.gradient(root, coupling)
    return value, gradient


def _sums(equation: Equation) -> KernelSums:
    largest = TailSums.reached(equation)
    if largest is not None:
        return TailSums(equation, largest)
    if native.LIBRARY is not None:
        return native.NativeBulkSums(native.LIBRARY, equation)
    return LongBulkSums(equation) if equation.centred.size > LONG else BulkSums(equation)


def sigma_quantile(risks: Tensor, weights: Tensor | None, rule: SigmaRule, level: Level) -> Tensor:
    """q for h = c·σ̂, shape ``risks.shape[:-1]``, differentiable to any order.

    >>> risks = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> q = sigma_quantile(risks, None, SigmaRule(1.0), Level(0.5))
    >>> q.backward()
    >>> round(q.item(), 6), [round(g, 3) for g in risks.grad.tolist()]
    (2.0, [0.24, 0.521, 0.24])
    """
    value: Tensor = SigmaQuantile.apply(  # type: ignore[no-untyped-call]
        risks, weights, rule, level
    )
    return value
