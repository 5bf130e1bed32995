"""Sums over the kernels of a long row, in blocks of torch (see :mod:`.kernel_sums`)."""

from __future__ import annotations

import math

import torch

from eqrm.distributions.kde.blocks import for_each_block
from eqrm.distributions.kde.sums import (
    Equation,
    KernelSums,
    Tail,
    derivatives,
    extrapolated,
    is_close,
)
from eqrm.distributions.normal_tails import SQRT_2

LONG = 8_192
"""Above this many kernels blocks of torch are faster, and BLAS would start its threads."""

UNDERFLOW = 26.0
"""exp(−26²) = 1e-293: kernels beyond are nothing, but slow to compute."""


class LongBulkSums(KernelSums):
    """Quantiles among many risks.

    A ``rough`` solve in float32 comes first, and leaves one exact pass as a rule.
    """

    def __init__(self, equation: Equation, rough: bool = False) -> None:
        self.equation, self.rough = equation, rough
        self.start = equation.near_root() if rough else math.nan
        if rough:
            self.tolerance = 0.8
        self.latest = math.nan, Tail(math.nan, math.nan, 0.0, 0.0, 0.0, 0.0), math.nan
        self.values = torch.from_numpy(equation.centred)
        weights = equation.weights
        self.shares = None if weights is None else torch.from_numpy(weights)
        self.unit = -1.0 / (equation.bandwidth * SQRT_2)

    def bracket(self) -> tuple[float, float]:
        bandwidth, goal = self.equation.bandwidth, self.equation.goal
        ends = torch.stack(torch.aminmax(self.values)).numpy() / bandwidth
        return float(ends.min()) + goal, float(ends.max()) + goal

    def rougher(self) -> KernelSums | None:
        return None if self.rough else LongBulkSums(self.equation, rough=True)

    def _standardise(self, shift: torch.Tensor, where: slice, z: torch.Tensor) -> torch.Tensor:
        """z/√2 of a block, into ``z``; ``shift`` is t/√2."""
        return torch.add(shift, self.values[where], alpha=self.unit, out=z)

    def at(self, t: float) -> Tail:
        shift = torch.scalar_tensor(t / SQRT_2, dtype=torch.float64)

        def work(where: slice, scratch: torch.Tensor) -> tuple[float, ...]:
            z, square, kernels = scratch
            self._standardise(shift, where, z)
            shares = None if self.shares is None else self.shares[where]
            if self.rough:
                z, square, kernels = _in_single_precision(z, square, kernels)
                shares = None if shares is None else shares.to(torch.float32)
            else:
                z.clamp_(-UNDERFLOW, UNDERFLOW)
            tails = torch.erfc(z, out=kernels)
            sf = tails.sum() if shares is None else tails.dot(shares)
            found = [float(sf)]
            torch.exp(negative_square(z, out=square), out=kernels)
            if shares is not None:
                kernels.mul_(shares)
            found += float(kernels.sum()), float(kernels.dot(z)), float(kernels.dot(square))
            kernels.mul_(square)
            found += float(kernels.dot(z)), float(kernels.dot(square))
            return tuple(found)

        sums = for_each_block(self.values.numel(), work, buffers=3).sum(0)
        if self.shares is None:
            sums /= self.values.numel()
        sf, density, first, second, third, fourth = sums.tolist()
        tail = derivatives(0.5 * sf, density, first, -second, -third, fourth)
        self.latest = t, tail, density
        return tail

    def _density_and_mean(self, t: float) -> tuple[float, float]:
        """Σ p exp(−z²/2) and the mean of z under it, from the latest pass near ``t``."""
        if not is_close(t, *self.latest[:2]):
            self.at(t)
        return extrapolated(t, *self.latest)

    def gradient(self, t: float, coupling: float) -> torch.Tensor:
        density, mean_z = self._density_and_mean(t)
        factor, size = coupling * mean_z, self.values.numel()
        if self.shares is None:
            factor, density = factor / size, density * size

        shift = torch.scalar_tensor(t / SQRT_2, dtype=torch.float64)

        def combine(where: slice, scratch: torch.Tensor) -> tuple[float, ...]:
            z, kernels = scratch
            self._standardise(shift, where, z).clamp_(-UNDERFLOW, UNDERFLOW)
            negative_square(z, out=kernels).exp_()
            row = self.values[where].mul_(factor).add_(kernels, alpha=1.0 / density)
            if self.shares is not None:
                row.mul_(self.shares[where])
            return ()

        for_each_block(size, combine)
        return self.values


def negative_square(z: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """−z² in one operation.

    >>> z = torch.tensor([3.0])
    >>> negative_square(z, out=torch.empty(1))
    tensor([-9.])
    """
    return torch.addcmul(torch.zeros((), dtype=z.dtype), z, z, value=-1.0, out=out)


def _in_single_precision(
    z: torch.Tensor, *buffers: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """float32 copies of z and of room for two more, in the buffers."""
    one, two = buffers[0].view(torch.float32).chunk(2)
    # Kernels beyond ±9 are below 1e-35 of the largest: nothing, but slow to compute.
    single = one.copy_(z).clamp_(-9.0, 9.0)
    return single, two, buffers[1].view(torch.float32)[: z.numel()]
