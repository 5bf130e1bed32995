"""Bias, ReLU and dropout between the layers of a stack of networks, forwards and backwards.

On a GPU with triton each direction is one kernel (:mod:`.triton_activations`); elsewhere, a few
operations in place. Dropout depends on a run's seed, the phase and the step only, so runs of one
seed drop the same units.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor


class Dropout:
    """Which units are dropped, by seed and phase; runs of one seed drop the same."""

    def __init__(self, seeds: Sequence[int], phase: int, device: torch.device) -> None:
        self.device = device
        self._keys = {
            seed: int(np.random.SeedSequence([seed, phase + 1]).generate_state(1, np.uint64)[0])
            >> 1
            for seed in seeds
        }
        self._generators = {
            seed: torch.Generator(device).manual_seed(key) for seed, key in self._keys.items()
        }
        self.keep(seeds)
        self.drawn = 0

    def keep(self, seeds: Sequence[int]) -> None:
        """Go on with runs of these seeds only."""
        self.seeds = list(dict.fromkeys(seeds))
        self._which = torch.tensor([self.seeds.index(seed) for seed in seeds], device=self.device)
        # Room below 2^63 for the layers and steps that are counted up from here.
        self.keys = torch.tensor([self._keys[s] >> 1 for s in seeds], device=self.device)

    def masks(self, rows: int, width: int, rate: float) -> Tensor:
        """(R, rows, width): True where a unit is kept in the layer that comes next."""
        shape = (rows, width)
        drawn = torch.stack(
            [
                torch.rand(shape, generator=self._generators[seed], device=self.device) >= rate
                for seed in self.seeds
            ]
        )
        return drawn if len(self.seeds) == len(self._which) else drawn[self._which]


def rectify_(z: Tensor, bias: Tensor, rate: float, dropout: Dropout | None) -> Tensor:
    """z (R, n, width) becomes relu(z + bias), a share ``rate`` of it dropped, in place.

    What is kept is divided by 1 − rate, as in training torch's ``nn.Dropout`` does.
    """
    if dropout is None or rate == 0.0:
        return z.add_(bias.unsqueeze(1).to(z.dtype)).relu_()
    if fused(z):
        from studies.many_runs.triton_activations import rectify_and_drop_

        dropout.drawn += 1
        return rectify_and_drop_(z, bias, rate, dropout.keys, dropout.drawn)
    z = z.add_(bias.unsqueeze(1).to(z.dtype)).relu_()
    kept = dropout.masks(z.shape[1], z.shape[2], rate)
    return z.mul_(kept).mul_(1.0 / (1.0 - rate))


def rectified_gradient_(gradient: Tensor, h: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """From the gradient in h = rectify_(z) to that in z, in place, and its sum over rows.

    ``factor`` is 1/(1 − rate) where units were dropped. The sum (R, width) is the gradient in
    the bias.
    """
    if fused(gradient):
        from studies.many_runs.triton_activations import rectified_gradient_and_sum_

        return rectified_gradient_and_sum_(gradient, h, factor)
    gradient = masked_by(gradient, h, factor)
    return gradient, column_sums(gradient)


def masked_by(values: Tensor, h: Tensor, factor: float) -> Tensor:
    """What a small change of z, where h = rectify_(z), does to h."""
    values = torch.ops.aten.threshold_backward(values, h, 0.0)
    return values if factor == 1.0 else values.mul_(factor)


def column_sums(values: Tensor) -> Tensor:
    """(R, width) sums over rows, of half-precision numbers in single precision."""
    wide = torch.promote_types(values.dtype, torch.float32)
    return values.sum(1, dtype=wide)


def fused(values: Tensor) -> bool:
    """Whether there are kernels for these values: on a GPU, with triton."""
    kinds = (torch.float16, torch.float32)
    return values.dtype in kinds and values.is_cuda and _triton_is_there()


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None
