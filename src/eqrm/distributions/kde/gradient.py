"""The quantile of the kernel density estimate with its exact gradient.

The quantile q is defined by Σ p_i Φ((R_i − q)/h) = 1−α. The implicit function theorem gives,
with z_i = (q − R_i)/h, w_i ∝ p_i φ(z_i) and z̄ = Σ w_i z_i,

    dq/dR_i = w_i + z̄ · ∂h/∂R_i.

:func:`quantile_by_composition` builds q from differentiable pieces and works everywhere, to any
order of derivative. :func:`kde_quantile` is the fast path: value and gradient are computed
together, and the pieces are composed only if the gradient itself is differentiated.
:func:`compiled_quantile` is the same as an operator, so that nothing breaks the graph of
``torch.compile``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eqrm.distributions.bandwidths import (
    Bandwidth,
    Fixed,
    MedianDistance,
    SigmaRule,
    Silverman,
)
from eqrm.distributions.kde.one_row import LARGE, quantile_of_one
from eqrm.distributions.kde.root_in_tensors import roots_in_tensors
from eqrm.distributions.kde.shares import centres_of, relative_kernels, tail_mean, wide_enough
from eqrm.distributions.kde.sums import FAR_FROM_MEAN
from eqrm.distributions.moments import Moments, moments
from eqrm.errors import DomainDataError
from eqrm.execution import can_look, has_kernels
from eqrm.level import Level

Found = tuple[Tensor, Tensor | None, Tensor | None]
"""q and dq/dR in the dtype of the risks, and dq/dh (..., 1) where h was given."""

LARGEST_SINGLE = 3.4e38
"""Numbers up to this are numbers in float32 too."""


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


def centres_and_root(
    found: Moments, bandwidth: Tensor, weights: Tensor, level: Level
) -> tuple[Tensor, Tensor]:
    """y_i = (R_i − R̄)/h and t = (q − R̄)/h; where h = 0, the risks are equal and y = 0."""
    centres = centres_of(found, bandwidth)
    log_weights = weights.log().expand(centres.shape)
    root: Tensor = Root.apply(centres, log_weights, level)  # type: ignore[no-untyped-call]
    return centres, root


def quantile_by_composition(
    found: Moments, bandwidth: Tensor, weights: Tensor, level: Level
) -> Tensor:
    """q of shape ``(..., 1)``, float64; where h = 0, the mean of the (equal) risks."""
    bandwidth = wide_enough(bandwidth, found)
    _, root = centres_and_root(found, bandwidth, weights, level)
    value: Tensor = found.pivot + (found.mean_offset + bandwidth * root)
    return value


def knows_its_slope(rule: Bandwidth, risks: Tensor) -> bool:
    """Whether h follows from these risks alone and dq/dR is known with it; else autograd flows on.

    A rule of a user may depend on more than the risks.
    """
    known = Silverman, MedianDistance, Fixed
    on_cpu = risks.device.type == "cpu"
    return isinstance(rule, SigmaRule) or (type(rule) in known and on_cpu)


def kde_quantile(
    risks: Tensor, bandwidth: Bandwidth | Tensor, weights: Tensor | None, level: Level
) -> Tensor:
    """q, shape ``risks.shape[:-1]``, differentiable to any order.

    ``bandwidth`` is a rule that knows its slope (:func:`knows_its_slope`), or a tensor of shape
    (..., 1), into whose graph the gradient flows on.
    """
    given, rule = (bandwidth, None) if isinstance(bandwidth, Tensor) else (None, bandwidth)
    settings = weights, rule, level
    value: Tensor = KdeQuantile.apply(risks, given, settings)  # type: ignore[no-untyped-call]
    return value


class TailMean(torch.autograd.Function):
    """The mean of a tail, with the gradient v in x and Σ v_i r_i in h, and none through v and r.

    v and r depend on x and h too, but what flows through them adds up to 0: the superquantile is
    the least value of q + E[risk − q]₊/(1−α), so that it does not change with its own quantile.
    Computed, it would be a difference of numbers of the size of z², and in the end NaN.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(centred: Tensor, bandwidth: Tensor, shares: Tensor, rates: Tensor) -> Tensor:
        value: Tensor = tail_mean(centred, bandwidth, shares, rates)
        return value

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[2:])

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        shares, rates = ctx.saved_tensors  # of their own graph, for second derivatives
        return slope * shares, slope * (shares * rates).sum(-1, keepdim=True), None, None


class KdeQuantile(torch.autograd.Function):
    """Value and gradient together: dq/dR, total or at a given h, and then dq/dh = z̄."""

    @staticmethod
    def forward(ctx: Any, risks: Tensor, given: Tensor | None, settings: tuple[Any, ...]) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        value, *gradients = value_and_gradients(QuantileInputs(risks, given, *settings), wanted)
        if wanted:
            ctx.save_for_backward(risks, given)
            ctx.settings, ctx.gradients = settings, gradients
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        each = grad.unsqueeze(-1) if grad.ndim else grad
        if torch.is_grad_enabled():
            gradients = _gradients_with_graph(QuantileInputs(*ctx.saved_tensors, *ctx.settings))
            return *(None if g is None else each * g for g in gradients), None
        found: Any = ctx.gradients
        ctx.gradients = None
        if found is None:  # asked for a second time, by retain_graph
            found = value_and_gradients(QuantileInputs(*ctx.saved_tensors, *ctx.settings), True)[1:]
        by_risks, by_given = found
        if not (can_look(grad) and grad.ndim == 0 and grad.item() == 1.0):
            by_risks = by_risks.mul_(each)
        return by_risks, None if by_given is None else each * by_given, None


class QuantileInputs(NamedTuple):
    """Risks, their weights, and either a bandwidth (..., 1) or a rule that knows its slope.

    Weights sum to 1, except where a kernel on a GPU divides them by their sum itself.
    """

    risks: Tensor
    given: Any
    weights: Tensor | None
    rule: Any
    level: Level

    @property
    def shares(self) -> Tensor:
        """p_i, broadcastable to the risks."""
        if self.weights is not None:
            return self.weights
        each = 1.0 / self.risks.shape[-1]
        return torch.full_like(self.risks[..., :1], each, dtype=torch.float64)

    @property
    def wide(self) -> Tensor:
        """The risks in float64, those of absent domains 0."""
        wide = self.risks.to(torch.float64)
        return wide if self.weights is None else torch.where(self.weights > 0, wide, 0.0)


def _gradients_with_graph(inputs: QuantileInputs) -> list[Tensor | None]:
    """dq/dR and dq/dh, to be differentiated once more."""
    if inputs.weights is not None:
        inputs = inputs._replace(weights=inputs.weights / inputs.weights.sum(-1, keepdim=True))
    # Other views of the inputs, so that a bandwidth that depends on the risks counts as given.
    risks = inputs.risks.view_as(inputs.risks)
    given = None if inputs.given is None else inputs.given.view_as(inputs.given)
    wide = inputs._replace(risks=risks).wide
    h = inputs.rule(wide, inputs.weights) if given is None else given
    found = moments(wide, inputs.weights)
    value = quantile_by_composition(found, h, inputs.shares, inputs.level).sum()
    return [
        torch.autograd.grad(value, x, create_graph=True)[0]
        if x is not None and x.requires_grad
        else None
        for x in (risks, given)
    ]


def value_and_gradients(inputs: QuantileInputs, wants_gradient: bool) -> Found:
    """q, and where they are wanted dq/dR, and dq/dh where h is given."""
    risks, given, weights, rule, level = inputs
    if risks.ndim == 1 and risks.device.type == "cpu":
        return _of_one(inputs, wants_gradient)
    if has_kernels(risks):
        from eqrm.distributions.kde.triton_quantile import quantile_rows

        constant = rule.constant if given is None else 1.0
        return quantile_rows(risks, weights, given, constant, level, wants_gradient)
    dtype = risks.dtype
    value, gradient, by_given = _of_rows(inputs, wants_gradient)
    return value.to(dtype), None if gradient is None else in_dtype(gradient, dtype), by_given


def _of_one(inputs: QuantileInputs, wants_gradient: bool) -> Found:
    """A row on the CPU, in numpy."""
    risks, given, weights, rule, level = inputs
    dtype, row = risks.dtype, risks.detach()
    if dtype not in (torch.float64, torch.float32):
        row = row.to(torch.float64)
    h = None if given is None else given.item()
    shares = None if weights is None else weights.numpy()
    value, slope, mean_z = quantile_of_one(row.numpy(), h, shares, rule, level, wants_gradient)
    gradient = None if slope is None else in_dtype(torch.from_numpy(slope), dtype)
    by_given = None if given is None else torch.full_like(given, mean_z)
    if dtype == torch.float64 or (dtype == torch.float32 and abs(value) < LARGEST_SINGLE):
        return torch.scalar_tensor(value, dtype=dtype), gradient, by_given
    # By way of float64: a number that is too large for its dtype becomes infinite, and is refused.
    return torch.scalar_tensor(value, dtype=torch.float64).to(dtype), gradient, by_given


def in_dtype(gradient: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient in the dtype of the risks; refuses one that is too large for it."""
    if gradient.dtype == dtype:
        return gradient
    result = gradient.to(dtype)
    # A sum is cheaper than a look at each, and finite if they all are.
    if not can_look(result) or math.isfinite(float(result.sum(dtype=torch.float32))):
        return result
    if bool((result.isinf() & gradient.isfinite()).any()):
        raise DomainDataError(
            f"The gradient of the quantile is too large for {dtype}. "
            "Pass the risks in float32 or float64."
        )
    return result


def _of_rows(inputs: QuantileInputs, wants_gradient: bool) -> Found:
    """Rows in a batch and on other devices; on the CPU, those that need care one by one."""
    wide = inputs.wide
    found = moments(wide, inputs.weights)
    rule, ratio, slope = inputs.rule, None, 0.0
    if isinstance(rule, SigmaRule):
        ratio = rule.factor(found.effective)
        h = ratio * found.std
    elif rule is not None:
        h, slope = rule.of_rows(wide, inputs.weights, wants_gradient)
    else:
        h = inputs.given
    value, gradient, by_given = _in_tensors(inputs, found, h, ratio, wants_gradient)
    if gradient is not None and by_given is not None and rule is not None:
        gradient, by_given = gradient + by_given * slope, None
    results = value, gradient, by_given
    if can_look(wide):
        sizes = torch.maximum(wide.abs().amax(-1, keepdim=True), h)
        usual = (sizes == 0.0) | ((sizes < LARGE) & (sizes > 1.0 / LARGE))
        far = found.std if inputs.weights is None else found.centred.abs().amax(-1, keepdim=True)
        careful = ~(usual & (far <= FAR_FROM_MEAN * h)) & sizes.isfinite() & (h > 0.0)
        weights = None if inputs.weights is None else inputs.weights.expand(wide.shape)
        given = inputs.given
        for place in map(tuple, careful.squeeze(-1).nonzero().tolist()):
            row = inputs._replace(
                risks=wide[place],
                given=None if given is None else given[place],
                weights=None if weights is None else weights[place],
            )
            for result, own in zip(results, _of_one(row, wants_gradient), strict=True):
                if result is not None and own is not None:
                    result[place] = own
    return results


def _in_tensors(
    inputs: QuantileInputs, found: Moments, h: Tensor, ratio: Tensor | None, wants_gradient: bool
) -> Found:
    """All rows in tensors, without a look at them; ``ratio`` is h/σ̂ where h follows σ̂."""
    shares = inputs.shares
    h = h if ratio is not None else wide_enough(h, found)
    centres, root = centres_and_root(found, h, shares, inputs.level)
    value = (found.pivot + (found.mean_offset + h * root)).squeeze(-1)
    if not wants_gradient:
        return value, None, None
    kernels = relative_kernels(centres, shares.log(), root)
    mean_z = root - (kernels * centres).sum(-1, keepdim=True)
    if ratio is None:
        return value, kernels, mean_z
    # dh/dR_i = h·p_i·x_i/((1−Σp²)·σ̂²) = p_i·y_i·(h/σ̂)²/(1−Σp²), and y = 0 where h is.
    several = (1.0 - 1.0 / found.effective).clamp(min=1e-12)
    return value, kernels + shares * centres * (mean_z * ratio * ratio / several), None


Outputs = tuple[Tensor, Tensor, Tensor]


def compiled_quantile(
    risks: Tensor, bandwidth: SigmaRule | Tensor, weights: Tensor | None, level: Level
) -> Tensor:
    """What ``kde_quantile`` gives, traceable: one operator forward, a product backward.

    ``bandwidth`` is a rule that follows σ̂, or a tensor (..., 1), into which the gradient flows on.
    """
    given = bandwidth if isinstance(bandwidth, Tensor) else None
    constant = bandwidth.constant if isinstance(bandwidth, SigmaRule) else 0.0
    value: Tensor = _operator(risks, given, weights, constant, level.alpha, level.log_tail)[0]
    return value


@torch.library.custom_op("eqrm::kde_quantile", mutates_args=())
def _operator(
    risks: Tensor,
    given: Tensor | None,
    weights: Tensor | None,
    constant: float,
    alpha: float,
    log_tail: float,
) -> Outputs:
    level = Level(alpha) if alpha < 0.5 else Level(log_tail=log_tail)
    rule = SigmaRule(constant) if given is None else None
    found: Any = value_and_gradients(QuantileInputs(risks, given, weights, rule, level), True)
    value, gradient, slope = found
    return value, gradient, value.new_zeros(0, dtype=torch.float64) if slope is None else slope


@_operator.register_fake
def _(risks: Tensor, given: Tensor | None, *_: Any) -> Outputs:
    slope = risks.new_empty(0 if given is None else (*risks.shape[:-1], 1), dtype=torch.float64)
    return risks.new_empty(risks.shape[:-1]), torch.empty_like(risks), slope


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
    ctx.has_given = inputs[1] is not None
    ctx.save_for_backward(*output[1:])


def _slopes(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    gradient, slope = ctx.saved_tensors
    each = grad.unsqueeze(-1)
    by_given = each * slope if ctx.has_given else None
    return each * gradient, by_given, None, None, None, None


torch.library.register_autograd("eqrm::kde_quantile", _slopes, setup_context=_keep)
