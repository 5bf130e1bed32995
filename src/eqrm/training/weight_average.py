"""An average of the weights over the steps, which often predicts better than the last ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class WeightAverage:
    """θ̄ ← d·θ̄ + (1 − d)·θ after every step, with d = min(decay, (1 + t)/(10 + t)).

    The smaller d of the first steps lets the average forget the random weights it began with.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> _ = network.weight.data.fill_(0.0)
    >>> average = WeightAverage(network, decay=0.9)
    >>> _ = network.weight.data.fill_(1.0)
    >>> average.update(network)  # d = 2/11
    >>> with average.in_place_of(network):
    ...     print(round(network.weight.item(), 4))
    0.8182
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.weights: dict[str, Tensor] = {
            name: parameter.detach().clone() for name, parameter in network.named_parameters()
        }

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Take in the weights of one more step."""
        self.steps += 1
        keep = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, parameter in network.named_parameters():
            self.weights[name].lerp_(parameter.detach(), 1 - keep)

    @torch.no_grad()
    def put_into(self, network: nn.Module) -> None:
        """Give the network the average weights."""
        for name, parameter in network.named_parameters():
            parameter.copy_(self.weights[name])

    @contextmanager
    def in_place_of(self, network: nn.Module) -> Iterator[None]:
        """Inside, the network has the average weights."""
        own = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
        self.put_into(network)
        try:
            yield
        finally:
            with torch.no_grad():
                for name, parameter in network.named_parameters():
                    parameter.copy_(own[name])

    def state_dict(self) -> dict[str, Any]:
        """The average and the steps in it."""
        return {"steps": self.steps, "weights": self.weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on averaging where ``state`` was taken."""
        self.steps = state["steps"]
        for name, weight in self.weights.items():
            weight.copy_(state["weights"][name])
