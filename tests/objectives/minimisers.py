"""Minimise an objective of explicit risks to high accuracy, for tests with known answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

Risks = Callable[[Tensor], Tensor]
"""Parameters (d,) to risks (m,)."""


def minimiser(
    objective: Callable[[Tensor], Tensor], risks: Risks, starts: Sequence[Sequence[float]]
) -> Tensor:
    """The best end point of BFGS over the starts; the start itself where BFGS gains nothing."""

    def value_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        value = objective(risks(theta))
        (gradient,) = torch.autograd.grad(value, theta)
        return value.item(), gradient.numpy()

    ends = [
        minimize(value_and_gradient, start, jac=True, method="BFGS", options={"gtol": 1e-10})
        for start in starts
    ]
    best = min(ends, key=lambda end: end.fun)
    return torch.tensor(best.x, dtype=torch.float64)


def trained(
    objective: Callable[[Tensor], Tensor], risks: Risks, start: Sequence[float], steps: int = 400
) -> Tensor:
    """Where Adam ends as its learning rate decays to nothing; it copes with kinks."""
    theta = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        objective(risks(theta)).backward()
        optimizer.step()
        schedule.step()
    return theta.detach()
