"""Several MLPs of one shape as one: every layer is a batched matrix product.

The passes forwards and backwards are written out, so that activations are changed in place and
a gradient can be taken for any derivative in the outputs, as often as needed.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from eqrm.errors import SettingError
from eqrm.predictors import MLP
from studies.many_runs.activations import (
    Dropout,
    column_sums,
    rectified_gradient_,
    rectify_,
)

ALIGNED = 8
"""On a GPU, hidden layers are padded to a multiple of this: rows that begin at odd addresses make
matrix products up to three times as slow. Padding stays 0, whatever the steps."""
LARGEST = 64.0
"""Gradients in half precision are scaled so that none exceeds this in the outputs."""


@dataclass(frozen=True)
class Passed:
    """A pass forwards: ``inputs`` of every layer, (R, n, …), and the ``outputs`` (R, n, k).

    ``factors`` are 1/(1 − rate) of each hidden layer, or 1 where nothing was dropped.
    """

    inputs: list[Tensor]
    outputs: Tensor
    factors: list[float]


class StackedMLP:
    """R networks; ``parameters`` are tensors of shape (R, …), the i-th network's at [i].

    With ``half`` the factors of matrix products are rounded to float16, and sums and parameters
    stay float32. Float16 keeps as many bits as the TF32 of GPUs, and gradients are scaled by
    powers of two to remain in its range.
    """

    def __init__(
        self,
        networks: Sequence[MLP],
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        half: bool = False,
        multiple: int | None = None,
    ) -> None:
        if half and dtype != torch.float32:
            raise SettingError("half needs dtype=torch.float32, the type of sums and parameters.")
        self.template, self.half = networks[0], half
        if self.template.loss != "binary-cross-entropy":
            raise SettingError("Networks of a stack have one logit, and binary cross-entropy.")
        self.names = list(networks[0].state_dict())
        self.shapes = [tuple(p.shape) for p in networks[0].state_dict().values()]
        if multiple is None:
            multiple = ALIGNED if torch.device(device).type == "cuda" else 1
        self.parameters = self._stacked(networks, device, dtype, multiple)
        self.rates = _dropout_rates(self.template)

    def _stacked(
        self,
        networks: Sequence[MLP],
        device: torch.device | str,
        dtype: torch.dtype,
        multiple: int,
    ) -> list[Tensor]:
        states = [network.state_dict() for network in networks]
        found = []
        for place, (name, shape) in enumerate(zip(self.names, self.shapes, strict=True)):
            outputs = 0 if place >= len(self.names) - 2 else -shape[0] % multiple
            inputs = 0 if place < 2 else -shape[-1] % multiple
            padding = (0, outputs) if len(shape) == 1 else (0, inputs, 0, outputs)
            stacked = torch.stack([state[name] for state in states]).to(device, dtype)
            found.append(functional.pad(stacked, padding))
        return found

    def __len__(self) -> int:
        return len(self.parameters[0])

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.parameters[0].device

    @property
    def product_dtype(self) -> torch.dtype:
        """The type of the factors of matrix products, and of inputs."""
        return torch.float16 if self.half else self.parameters[0].dtype

    def take(self, indices: Tensor) -> StackedMLP:
        """The networks at these positions, copied; one may be taken several times."""
        taken = copy.copy(self)
        here = indices.to(self.device)
        taken.parameters = [p[here].clone() for p in self.parameters]
        return taken

    def put(self, positions: Tensor, networks: StackedMLP, taken: Tensor) -> None:
        """Overwrite the networks at ``positions`` by those at ``taken`` of another stack."""
        for own, other in zip(self.parameters, networks.parameters, strict=True):
            own[positions] = other[taken]

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs (R, n, k) of inputs (R, n, inputs), or (n, inputs) for all networks."""
        return self.forward(x).outputs

    @torch.no_grad()
    def forward(self, x: Tensor, dropout: Dropout | None = None) -> Passed:
        """The pass forwards; with ``dropout``, as in training."""
        h = x.expand(len(self), *x.shape) if x.ndim == 2 else x
        h = h.to(self.product_dtype)
        inputs, factors = [h], []
        for layer, rate in enumerate(self.rates):
            z = product(h, self.weight(layer).transpose(1, 2), self.product_dtype)
            h = rectify_(z, self.parameters[2 * layer + 1], rate, dropout)
            inputs.append(h)
            factors.append(1.0 if dropout is None else 1.0 / (1.0 - rate))
        last = self.weight(len(self.rates)).transpose(1, 2)
        outputs = product(h, last, self.parameters[0].dtype)
        return Passed(inputs, outputs.add_(self.parameters[-1].unsqueeze(1)), factors)

    def weight(self, layer: int) -> Tensor:
        """The weights (R, outputs, inputs) of a layer, as factors of products."""
        return self.parameters[2 * layer].to(self.product_dtype)

    @torch.no_grad()
    def gradients(self, passed: Passed, by_outputs: Tensor) -> list[Tensor]:
        """The derivatives in the parameters, from those in the outputs (R, n, k)."""
        wide = self.parameters[0].dtype
        gradient, scale = self.in_range(by_outputs)
        found = []
        for layer in reversed(range(len(self.rates) + 1)):
            if layer == len(self.rates):
                by_bias = column_sums(gradient)
            else:
                h, factor = passed.inputs[layer + 1], passed.factors[layer]
                gradient, by_bias = rectified_gradient_(gradient, h, factor)
            by_weight = product(gradient.transpose(1, 2), passed.inputs[layer], wide)
            found += [by_bias, by_weight]
            if layer:
                gradient = product(gradient, self.weight(layer), self.product_dtype)
        return [rescaled(each, scale) for each in reversed(found)]

    def in_range(self, values: Tensor, largest: float = LARGEST) -> tuple[Tensor, Tensor | None]:
        """Values (R, …) as factors of products, and the power of two (R,) they were divided by.

        In half precision the values are scaled to at most ``largest``; else they stay as they are.
        """
        if not self.half:
            return values.contiguous(), None
        reached = values.abs().flatten(1).amax(1).clamp(min=torch.finfo(values.dtype).tiny)
        scale = torch.exp2((reached / largest).log2().ceil().clamp(min=-100.0))
        return (values / _beside(scale, values)).to(torch.float16), scale

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """One loss per network and example, (R, n): outputs (R, n, k), targets y (R, n, …)."""
        flat = self.template.losses(outputs.flatten(0, 1), y.flatten(0, 1))
        return flat.reshape(outputs.shape[:2])

    def network(self, position: int) -> MLP:
        """One of the networks, as a predictor on the CPU with the stack's dtype."""
        network = copy.deepcopy(self.template).to("cpu", self.parameters[0].dtype)
        values = (
            p[position][tuple(slice(0, size) for size in shape)].cpu().clone()
            for p, shape in zip(self.parameters, self.shapes, strict=True)
        )
        network.load_state_dict(dict(zip(self.names, values, strict=True)))
        return network


def product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """left @ right, batch by batch; sums of half-precision products are single precision."""
    if left.dtype == dtype:
        if left.device.type == "cuda" and dtype == torch.float32 and right.stride(-1) == 1:
            # TF32 has fast kernels only for factors that lie along the summed dimension.
            small = right.shape[1] < left.shape[1]
            right = right.mT.contiguous().mT if small else right
        return torch.bmm(left, right)
    if left.device.type == "cuda":
        return torch.bmm(left, right, out_dtype=dtype)
    return torch.bmm(left.to(dtype), right.to(dtype))


def rescaled(values: Tensor, scale: Tensor | None) -> Tensor:
    """Values (R, …) multiplied by the scale (R,) of their run, if there is one."""
    return values if scale is None else values * _beside(scale, values)


def _beside(scale: Tensor, values: Tensor) -> Tensor:
    return scale.reshape(-1, *[1] * (values.ndim - 1))


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
