"""IGA in a stack: the variance of the domains' gradients, and its own gradient.

The penalty P = mean_e‖g_e − ḡ‖² over m domains has the gradient (2/m)·Σ_e H_e(g_e − ḡ), a sum of
products of each domain's Hessian with a vector v_e; ḡ's own derivative drops out. H_e·v_e is the
gradient of ∂R_e/∂v_e = mean_i ℓ'(f_i)·ḟ_i, where ḟ is how the outputs move when the parameters
move along v_e: one more pass forwards and one backwards, written out layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from studies.many_runs.activations import masked_by
from studies.many_runs.mlp import Passed, StackedMLP, product, rescaled
from studies.many_runs.objectives import MeasuredStep


def mean_and_variance_gradients(
    stack: StackedMLP, passed: Passed, measured: MeasuredStep, weights: Tensor, divisors: Tensor
) -> list[Tensor]:
    """The gradients of (mean risk + weight·variance)/divisor of every run, (R,) each."""
    # With the graph of the losses only, so that slopes can be differentiated in the outputs.
    (slopes,) = torch.autograd.grad(measured.risks.sum(), measured.outputs, create_graph=True)
    of_domains = _Domains(stack, passed, measured.sizes, slopes.detach())
    gradients = of_domains.gradients()
    means = [torch.stack(each).mean(0) for each in zip(*gradients, strict=True)]
    share = 2.0 * weights / len(measured.sizes)
    directions = [
        [rescaled(g - mean, share.to(g.dtype)) for g, mean in zip(each, means, strict=True)]
        for each in gradients
    ]
    penalties = of_domains.along(directions, slopes, measured.outputs)
    return [
        rescaled(mean + penalty, 1.0 / divisors)
        for mean, penalty in zip(means, penalties, strict=True)
    ]


LARGEST_MOVE = 2.0**-4
"""In half precision directions are scaled to this, so that what they move stays in range."""


class _Domains:
    """The pass backwards from the slopes of the risks, kept layer by layer, domain by domain."""

    def __init__(
        self, stack: StackedMLP, passed: Passed, sizes: Sequence[int], slopes: Tensor
    ) -> None:
        self.stack, self.passed = stack, passed
        ends = torch.tensor(sizes).cumsum(0).tolist()
        self.rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self.layers = len(stack.rates) + 1
        gradient, self.scale = stack.in_range(slopes)
        self.kept = [gradient]
        for layer in reversed(range(1, self.layers)):
            gradient = product(gradient, stack.weight(layer), stack.product_dtype)
            gradient = masked_by(gradient, passed.inputs[layer], passed.factors[layer - 1])
            self.kept.insert(0, gradient)

    def gradients(self) -> list[list[Tensor]]:
        """Of each domain's risk, in the order of the stack's parameters."""
        return [
            [rescaled(each, self.scale) for each in self._by_parameters(rows)] for rows in self.rows
        ]

    def _by_parameters(self, rows: slice) -> list[Tensor]:
        found = []
        for gradient, h in zip(self.kept, self.passed.inputs, strict=True):
            found += _by_layer(gradient[:, rows], h[:, rows], self.stack.parameters[0].dtype)
        return found

    def along(
        self, directions: list[list[Tensor]], slopes: Tensor, outputs: Tensor
    ) -> list[Tensor]:
        """Σ_e H_e·v_e for directions v_e of every domain."""
        flat = torch.cat([each.flatten(1) for one in directions for each in one], dim=1)
        _, scale = self.stack.in_range(flat, LARGEST_MOVE)
        inverse = None if scale is None else 1.0 / scale
        directions = [[rescaled(each, inverse) for each in one] for one in directions]
        moved = [self._moved(one, rows) for one, rows in zip(directions, self.rows, strict=True)]
        change = torch.cat([outputs_moved for outputs_moved, _ in moved], dim=1)
        (top,) = torch.autograd.grad((slopes * change).sum(), outputs)
        found = [
            self._backwards(one, hidden, top[:, rows], rows)
            for one, (_, hidden), rows in zip(directions, moved, self.rows, strict=True)
        ]
        return [rescaled(sum(each[1:], each[0]), scale) for each in zip(*found, strict=True)]

    @torch.no_grad()
    def _moved(self, direction: list[Tensor], rows: slice) -> tuple[Tensor, list[Tensor]]:
        """How the outputs of a domain, and the inputs of its layers but the first, move."""
        stack, kind = self.stack, self.stack.product_dtype
        hidden: list[Tensor] = []
        for layer in range(self.layers):
            out = kind if layer < self.layers - 1 else stack.parameters[0].dtype
            weight, bias = direction[2 * layer].to(kind), direction[2 * layer + 1]
            h = self.passed.inputs[layer][:, rows]
            change = product(h, weight.transpose(1, 2), out).add_(bias.unsqueeze(1).to(out))
            if hidden:
                change += product(hidden[-1], stack.weight(layer).transpose(1, 2), out)
            if layer < self.layers - 1:
                h = self.passed.inputs[layer + 1][:, rows]
                hidden.append(masked_by(change, h, self.passed.factors[layer]))
        return change, hidden

    @torch.no_grad()
    def _backwards(
        self, direction: list[Tensor], hidden: list[Tensor], top: Tensor, rows: slice
    ) -> list[Tensor]:
        """The gradient of Σ_i slope_i·ḟ_i of a domain in the parameters.

        What flows back through ḟ are the kept gradients of the risk itself; what flows back
        through f starts from ``top``, and takes up the former at every layer.
        """
        stack, kind = self.stack, self.stack.product_dtype
        wide = stack.parameters[0].dtype
        gradient = rescaled(top, None if self.scale is None else 1.0 / self.scale).to(kind)
        found: list[Tensor] = []
        for layer in reversed(range(self.layers)):
            kept = self.kept[layer][:, rows]
            by_weight, by_bias = _by_layer(gradient, self.passed.inputs[layer][:, rows], wide)
            if layer:
                by_weight += product(kept.transpose(1, 2), hidden[layer - 1], wide)
                below = product(gradient, stack.weight(layer), kind)
                below += product(kept, direction[2 * layer].to(kind), kind)
                h = self.passed.inputs[layer][:, rows]
                gradient = masked_by(below, h, self.passed.factors[layer - 1])
            found = [by_weight, by_bias, *found]
        return [rescaled(each, self.scale) for each in found]


def _by_layer(gradient: Tensor, h: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """In the weights and the bias of a layer, from the gradient in what it makes of h."""
    return [product(gradient.transpose(1, 2), h, dtype), gradient.sum(1, dtype=dtype)]
