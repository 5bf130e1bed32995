"""From a batch of losses to the quantile of its domains' risks on a GPU, as one function.

Three launches forward and one backward, where :func:`eqrm.risks.domain_risks` and
:class:`eqrm.KDE` take six. Imported only where triton and a GPU are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eqrm.distributions.bandwidths import SigmaRule
from eqrm.distributions.kde.triton_quantile import quantile_of_totals
from eqrm.distributions.kernel import KDE
from eqrm.level import Level
from eqrm.risks import domain_risks
from eqrm.triton_means import add_up, spread


class BatchQuantile(torch.autograd.Function):
    """The quantile of the risks of the domains present, each counting once."""

    @staticmethod
    def forward(
        ctx: Any, losses: Tensor, ids: Tensor, domains: int, rule: SigmaRule, level: Level
    ) -> Tensor:
        totals = add_up(losses, ids, domains)
        dtype = torch.promote_types(losses.dtype, torch.float32)
        value, slopes = quantile_of_totals(totals, domains, rule.constant, level, dtype)
        ctx.save_for_backward(losses, ids, totals, slopes)
        ctx.settings = (domains, rule, level)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        losses, ids, totals, slopes = ctx.saved_tensors
        if torch.is_grad_enabled():
            return grad * _gradient_with_graph(losses, ids, *ctx.settings), None, None, None, None
        gradient = spread(slopes, ids, totals, losses.dtype, grad)
        return gradient, None, None, None, None


def _gradient_with_graph(
    losses: Tensor, ids: Tensor, domains: int, rule: SigmaRule, level: Level
) -> Tensor:
    """To be differentiated once more, by composition."""
    risks = domain_risks(losses.view_as(losses), ids, domains)
    value = KDE(risks.values, rule, weights=risks.weights).quantile(level)
    return torch.autograd.grad(value, risks.losses, create_graph=True)[0]
