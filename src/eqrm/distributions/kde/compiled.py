"""The quantile as an operator of its own, so that nothing breaks the graph of ``torch.compile``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eqrm.distributions.bandwidths import SigmaRule
from eqrm.distributions.kde.gradient import QuantileInputs, value_and_gradients
from eqrm.level import Level

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
