"""Adam for a stack of networks, with a learning rate and a step count for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

BETAS, EPS = (0.9, 0.999), 1e-8
"""The defaults of ``torch.optim.Adam``."""


class StackedAdam:
    """Adam (Kingma & Ba 2015) as in ``torch.optim.Adam``, on parameters of shape (R, …).

    Every operation is element by element, so a network's steps do not depend on its neighbours.
    """

    def __init__(self, parameters: Sequence[Tensor], steps_taken: Tensor | None = None) -> None:
        self.parameters = list(parameters)
        self.first = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.second = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        runs, device = len(self.parameters[0]), self.parameters[0].device
        fresh = torch.zeros(runs, dtype=torch.float64, device=device)
        self.steps_taken = fresh if steps_taken is None else steps_taken

    def step(self, gradients: Sequence[Tensor], rates: Tensor) -> None:
        """One step of every network; ``rates`` (R,) are their learning rates (float64)."""
        self.steps_taken = self.steps_taken + 1
        scale = rates / (1.0 - BETAS[0] ** self.steps_taken)
        root = (1.0 - BETAS[1] ** self.steps_taken).sqrt()
        # rate·m̂/(√v̂ + ε) with the numbers of each network inside the divisor: fewer passes.
        factor, offset = 1.0 / (root * scale), EPS / scale
        with torch.no_grad():
            for parameter, gradient, first, second in zip(
                self.parameters, gradients, self.first, self.second, strict=True
            ):
                shape, dtype = (-1,) + (1,) * (parameter.ndim - 1), parameter.dtype
                first.lerp_(gradient, 1.0 - BETAS[0])
                second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1.0 - BETAS[1])
                divisor = second.sqrt().mul_(factor.to(dtype).reshape(shape))
                divisor.add_(offset.to(dtype).reshape(shape))
                parameter.addcdiv_(first, divisor, value=-1.0)

    def take(self, indices: Tensor, parameters: Sequence[Tensor]) -> StackedAdam:
        """The state of the networks at these positions, for ``parameters`` taken likewise."""
        here = indices.to(self.steps_taken.device)
        taken = StackedAdam(parameters, self.steps_taken[here])
        taken.first = [moment[here] for moment in self.first]
        taken.second = [moment[here] for moment in self.second]
        return taken

    def put(self, positions: Tensor, others: StackedAdam, taken: Tensor) -> None:
        """Overwrite the state at ``positions`` by that at ``taken`` of another stack."""
        self.steps_taken[positions] = others.steps_taken[taken]
        pairs = zip((*self.first, *self.second), (*others.first, *others.second), strict=True)
        for own, other in pairs:
            own[positions] = other[taken]

    def renew(self, fresh: Tensor) -> None:
        """Forget the state of the networks where ``fresh`` (R,) is True."""
        gone = fresh.to(self.steps_taken.device)
        self.steps_taken = torch.where(gone, 0.0, self.steps_taken)
        for moment in (*self.first, *self.second):
            moment[gone] = 0.0
