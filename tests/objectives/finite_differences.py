"""Gradients by central differences, for losses whose own gradient is under test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


def finite_difference_gradient(
    loss: Callable[[], Tensor], parameters: Sequence[nn.Parameter], step: float = 1e-5
) -> Tensor:
    """d loss / d parameters as one vector; the loss is a function without arguments."""
    slopes = []
    for parameter in parameters:
        flat = parameter.data.view(-1)
        for i in range(len(flat)):
            old = flat[i].item()
            values = []
            for shifted in (old + step, old - step):
                flat[i] = shifted
                values.append(float(loss().detach()))
            flat[i] = old
            slopes.append((values[0] - values[1]) / (2 * step))
    return torch.tensor(slopes, dtype=parameters[0].dtype)
