"""Several MLPs of one shape as one: every layer is a batched matrix product."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eqrm.errors import SettingError
from eqrm.predictors.mlp import MLP


class StackedMLP:
    """R networks; ``parameters`` are tensors of shape (R, …), the i-th network's at [i].

    >>> stack = StackedMLP([MLP(4, 1, width=8), MLP(4, 1, width=8)])
    >>> stack(torch.zeros(2, 5, 4)).shape
    torch.Size([2, 5, 1])
    """

    def __init__(
        self,
        networks: Sequence[MLP],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        states = [network.state_dict() for network in networks]
        self.template = networks[0]
        self.names = list(states[0])
        self.parameters = []
        for name in self.names:
            stacked = torch.stack([state[name] for state in states])
            self.parameters.append(stacked.to(device, dtype).requires_grad_())
        self.rates = _dropout_rates(self.template)

    def __len__(self) -> int:
        return len(self.parameters[0])

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.parameters[0].device

    def take(self, indices: Tensor) -> StackedMLP:
        """The networks at these positions, copied; one may be taken several times."""
        taken = object.__new__(StackedMLP)
        taken.template, taken.names, taken.rates = self.template, self.names, self.rates
        here = indices.to(self.device)
        taken.parameters = [p.detach()[here].clone().requires_grad_() for p in self.parameters]
        return taken

    def put(self, positions: Tensor, networks: StackedMLP, taken: Tensor) -> None:
        """Overwrite the networks at ``positions`` by those at ``taken`` of another stack."""
        with torch.no_grad():
            for own, other in zip(self.parameters, networks.parameters, strict=True):
                own[positions] = other[taken]

    def __call__(self, x: Tensor, masks: Sequence[Tensor] | None = None) -> Tensor:
        """Outputs (R, n, outputs) of inputs (R, n, inputs), or (n, inputs) for all networks.

        ``masks`` are one (R, n, width) boolean tensor per hidden layer: True where a unit is
        kept in training. Without masks nothing is dropped.
        """
        h = x.expand(len(self), *x.shape) if x.ndim == 2 else x
        hidden = len(self.parameters) // 2 - 1
        for layer in range(hidden):
            h = self._linear(layer, h)
            if masks is None:
                h = h.relu()
            else:
                # Dropout and ReLU in one: all that the backward pass needs is one bit each.
                kept = masks[layer] & (h > 0)
                h = (h * kept).mul_(1.0 / (1.0 - self.rates[layer]))
        return self._linear(hidden, h)

    def _linear(self, layer: int, h: Tensor) -> Tensor:
        weight, bias = self.parameters[2 * layer], self.parameters[2 * layer + 1]
        return torch.baddbmm(bias.unsqueeze(1), h, weight.transpose(1, 2))

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """One loss per network and example, (R, n): outputs (R, n, k), targets y (R, n, …)."""
        flat = self.template.losses(outputs.flatten(0, 1), y.flatten(0, 1))
        return flat.reshape(outputs.shape[:2])

    def network(self, position: int) -> MLP:
        """One of the networks, as a predictor on the CPU with the stack's dtype."""
        network = copy.deepcopy(self.template).to("cpu", self.parameters[0].dtype)
        values = (p.detach()[position].cpu().clone() for p in self.parameters)
        network.load_state_dict(dict(zip(self.names, values, strict=True)))
        return network


def _dropout_rates(network: MLP) -> list[float]:
    """The rate of dropout after each hidden layer."""
    rates: list[float] = []
    for module in network.featurizer.modules():
        if isinstance(module, nn.Linear):
            rates.append(0.0)
        elif isinstance(module, nn.Dropout):
            rates[-1] = module.p
    if len(network.state_dict()) != 2 * (len(rates) + 1):
        raise SettingError(
            "Only an eqrm.predictors.MLP can be trained in a stack: linear layers and ReLU."
        )
    return rates
