"""Sums over the kernels of one row on the CPU, as the root solve needs them.

For unit kernels at y_i = x_i/h with weights p_i, and z_i = t − y_i, each class gives at any t
log S, the hazard f/S and derivatives of f, with S = Σ p_i Φ(−z_i) and f = Σ p_i φ(z_i), and
after the solve the gradient. Levels under ½ come in mirrored, by a negative h.

Which class serves depends on where the quantile lies and how many kernels there are:
:class:`BulkSums` (numpy), :class:`LargeBulkSums` (blocks of torch) and
:class:`TailSums`, for quantiles beyond every risk.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import erfc, erfcx

from eqrm.distributions.blocks import for_each_block
from eqrm.distributions.normal_tails import LOG_SQRT_2PI, SQRT_2
from eqrm.level import normal_upper_quantile

Array = npt.NDArray[np.float64]

LARGE = 8_192
"""Above this many kernels blocks of torch are faster, and BLAS would start its threads."""

SQRT_2PI = math.sqrt(2.0 * math.pi)
SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
FAR_INSIDE_TAIL = -15.0
"""log S of a kernel at z = 5: below it, the quantile lies beyond the kernel that made it."""


class Tail(NamedTuple):
    """log S, f/S, and the first two derivatives of f over f, at one point."""

    log_sf: float
    hazard: float
    slope: float
    bend: float


class KernelSums(ABC):
    """One row of kernels, and the equation S(t) = exp(log_tail) to be solved on it."""

    centred: Array
    """x_i = R_i − R̄."""
    weights: Array | None
    """p_i > 0, summing to 1; None for equal ones."""
    bandwidth: float
    log_tail: float
    goal: float
    """Φ⁻¹ of the level, where the solver's scale must arrive."""
    origin: float = 0.0
    """Roots are relative to this, in units of h."""
    start: float
    tolerance: float = 5e-4
    """A step shorter than this ends the solve; it leaves an error of its fourth power."""

    @abstractmethod
    def bracket(self) -> tuple[float, float]:
        """An interval that holds the root; asked for only when a step goes astray."""

    @abstractmethod
    def at(self, t: float) -> Tail:
        """The tail probability and its derivatives at ``t``."""

    @abstractmethod
    def gradient(self, t: float, coupling: float) -> Array:
        """w_i + coupling·z̄·p_i·x_i at ``t``, with w_i ∝ p_i φ(z_i) and z̄ = Σ w_i z_i.

        The last thing asked of a row: it may be written over the centred risks.
        """

    def coarse(self) -> KernelSums | None:
        """A smaller row whose root is a good start, where that saves time."""
        return None

    def _pull(self, mean_z: float, coupling: float) -> Array:
        """coupling·z̄·p_i·x_i, what the bandwidth adds to the gradient."""
        share = 1.0 / self.centred.size if self.weights is None else self.weights
        return np.multiply(self.centred, share * (coupling * mean_z), out=self.centred)


def kernel_sums(
    centred: Array,
    weights: Array | None,
    std: float,
    bandwidth: float,
    log_tail: float,
    goal: float,
) -> KernelSums:
    """The sums for one row of risks that were centred on their mean.

    >>> sums = kernel_sums(np.array([-1.0, 1.0]), None, 1.4, 1.0, math.log(0.5), 0.0)
    >>> [round(value, 4) + 0.0 for value in sums.at(0.0)]
    [-0.6931, 0.4839, 0.0, 0.0]
    """
    if log_tail < FAR_INSIDE_TAIL:
        top = int(centred.argmax() if bandwidth > 0 else centred.argmin())
        share = 1.0 / centred.size if weights is None else float(weights[top])
        if log_tail < FAR_INSIDE_TAIL + math.log(share):
            return TailSums(centred, weights, float(centred[top]), bandwidth, log_tail, goal)
    kind = LargeBulkSums if centred.size > LARGE else BulkSums
    return kind(centred, weights, std, bandwidth, log_tail, goal)


class BulkSums(KernelSums):
    """Quantiles among the risks or not far beyond them, in numpy."""

    def __init__(
        self,
        centred: Array,
        weights: Array | None,
        std: float,
        bandwidth: float,
        log_tail: float,
        goal: float,
    ) -> None:
        self.centred, self.weights, self.bandwidth = centred, weights, bandwidth
        self.log_tail, self.goal = log_tail, goal
        self.start = goal * math.hypot(std / bandwidth, 1.0)
        self.scaled = centred / (bandwidth * SQRT_2)
        self.shares = equal_weights(centred.size) if weights is None else weights

    def bracket(self) -> tuple[float, float]:
        smallest, largest = float(self.scaled.min()), float(self.scaled.max())
        return smallest * SQRT_2 + self.goal, largest * SQRT_2 + self.goal

    def at(self, t: float) -> Tail:
        z = t / SQRT_2 - self.scaled
        sf = 0.5 * float(self.shares.dot(_erfc(z)))
        kernels = np.exp(-z * z)
        density = float(self.shares.dot(kernels))
        kernels *= z
        first = float(self.shares.dot(kernels))
        kernels *= z
        return _tail(sf, density, first, float(self.shares.dot(kernels)))

    def gradient(self, t: float, coupling: float) -> Array:
        z = t / SQRT_2 - self.scaled
        kernels: Array = np.exp(-z * z)
        if not kernels.max() > 1e-250:  # the middle of a wide gap
            square = z * z
            kernels = np.exp(square.min() - square)
        kernels *= self.shares
        kernels /= kernels.sum()
        kernels += self._pull(SQRT_2 * float(kernels.dot(z)), coupling)
        return kernels


class TailSums(KernelSums):
    """Quantiles beyond every kernel, at any depth.

    Everything is taken relative to the largest centre: with d_i its distance to the others
    and z its own z, φ(z_i)/φ(z) = exp(−d_i(z + d_i/2)) has no large numbers to subtract.
    Kernels that are e^−60 times smaller than the largest are left out.
    """

    def __init__(
        self,
        centred: Array,
        weights: Array | None,
        largest: float,
        bandwidth: float,
        log_tail: float,
        goal: float,
    ) -> None:
        self.centred, self.weights, self.bandwidth = centred, weights, bandwidth
        self.log_tail, self.goal = log_tail, goal
        self.origin = largest / bandwidth
        share = 1.0 / centred.size if weights is None else float(weights[centred == largest].min())
        # The root lies above that of one largest kernel alone, and below that of all kernels
        # gathered there.
        self.start = normal_upper_quantile(min(0.0, log_tail - math.log(share)))
        # d(start + d/2) <= 60, solved for d without a difference of large numbers
        reach = bandwidth * (120.0 / (math.hypot(self.start, math.sqrt(120.0)) + self.start))
        near = centred >= largest - reach if bandwidth > 0 else centred <= largest - reach
        self.kept = np.flatnonzero(near)
        self.distances = (largest - centred[self.kept]) / bandwidth
        self.shares = (
            equal_weights(centred.size)[: self.kept.size] if weights is None else weights[self.kept]
        )

    def bracket(self) -> tuple[float, float]:
        return self.start, self.goal

    def _relative_densities(self, z: float) -> Array:
        densities: Array = np.exp(-self.distances * (z + 0.5 * self.distances))
        densities *= self.shares
        return densities

    def at(self, t: float) -> Tail:
        densities = self._relative_densities(t)
        z = t + self.distances
        tails = SQRT_HALF_PI * float(densities.dot(erfcx(z / SQRT_2)))
        density = float(densities.sum())
        log_sf = -0.5 * t * t - LOG_SQRT_2PI + math.log(tails)
        densities /= density
        slope = -float(densities.dot(z))
        z *= z
        return Tail(log_sf, density / tails, slope, float(densities.dot(z)) - 1.0)

    def gradient(self, t: float, coupling: float) -> Array:
        densities = self._relative_densities(t)
        densities /= densities.sum()
        gradient = self._pull(t + float(densities.dot(self.distances)), coupling)
        gradient[self.kept] += densities
        return gradient


class LargeBulkSums(KernelSums):
    """As :class:`BulkSums`, for many kernels, in blocks.

    The root of every k-th kernel starts a ``rough`` solve over all of them in float32, and
    its root starts the exact one, of which one pass or two remain.
    """

    SAMPLE = 8_192

    def __init__(
        self,
        centred: Array,
        weights: Array | None,
        std: float,
        bandwidth: float,
        log_tail: float,
        goal: float,
        rough: bool = False,
    ) -> None:
        self.centred, self.weights, self.bandwidth = centred, weights, bandwidth
        self.log_tail, self.goal, self.std, self.rough = log_tail, goal, std, rough
        # The gradient extrapolates sums from the last pass to the root, hence the 5e-5.
        self.tolerance = 0.3 if rough else 5e-5
        self.start = goal * math.hypot(std / bandwidth, 1.0)
        self.latest = math.nan, math.nan, math.nan, math.nan
        self.values = torch.from_numpy(centred)
        self.shares = None if weights is None else torch.from_numpy(weights)

    def bracket(self) -> tuple[float, float]:
        ends = torch.stack(torch.aminmax(self.values)).numpy() / self.bandwidth
        return float(ends.min()) + self.goal, float(ends.max()) + self.goal

    def coarse(self) -> KernelSums | None:
        equation = (self.std, self.bandwidth, self.log_tail, self.goal)
        if not self.rough:
            return LargeBulkSums(self.centred, self.weights, *equation, rough=True)
        stride = -(-self.centred.size // self.SAMPLE)
        some = np.ascontiguousarray(self.centred[::stride])
        weights = self.weights
        if weights is not None:
            weights = weights[::stride] / weights[::stride].sum()
        return BulkSums(some, weights, *equation)

    def _standardise(self, t: float, where: slice, z: torch.Tensor) -> torch.Tensor:
        """z/√2 of a block, into ``z``."""
        shift = torch.tensor(t / SQRT_2, dtype=torch.float64)
        unit = -1.0 / (self.bandwidth * SQRT_2)
        return torch.add(shift, self.values[where], alpha=unit, out=z)

    def _weigh(self, values: torch.Tensor, where: slice) -> torch.Tensor:
        return values if self.shares is None else values.mul_(self.shares[where])

    def at(self, t: float) -> Tail:
        def work(where: slice, scratch: torch.Tensor) -> tuple[float, ...]:
            z, term = scratch
            self._standardise(t, where, z)
            if self.rough:
                single, term = term.view(torch.float32).chunk(2)
                # Kernels beyond ±9 are below 1e-35: nothing, but slow to compute.
                z = single.copy_(z).clamp_(-9.0, 9.0)
            else:
                z.clamp_(-26.0, 26.0)  # 1e-293
            sf = float(self._weigh(torch.erfc(z, out=term), where).sum())
            density = float(self._weigh(_kernels(z, out=term), where).sum())
            first = float(term.mul_(z).sum())
            return sf, density, first, float(term.mul_(z).sum())

        sums = for_each_block(self.centred.size, work).sum(0)
        if self.weights is None:
            sums /= self.centred.size
        sf, density, first, second = sums.tolist()
        self.latest = t, density, first, second
        return _tail(0.5 * sf, density, first, second)

    def _density_and_moment(self, t: float) -> tuple[float, float]:
        """Σ p exp(−z²) and Σ p z exp(−z²), z scaled by √2, from the latest pass near ``t``."""
        if abs(t - self.latest[0]) > self.tolerance:
            self.at(t)
        near, density, first, second = self.latest
        step = (t - near) / SQRT_2
        return (
            density - 2.0 * step * first + step * step * (2.0 * second - density),
            first + step * (density - 2.0 * second),
        )

    def gradient(self, t: float, coupling: float) -> Array:
        density, moment = self._density_and_moment(t)
        factor, size = coupling * SQRT_2 * moment / density, self.centred.size
        if self.weights is None:
            factor, density = factor / size, density * size

        def combine(where: slice, scratch: torch.Tensor) -> tuple[float, ...]:
            z, kernel = scratch
            self._standardise(t, where, z).clamp_(-26.0, 26.0)
            _kernels(z, out=kernel).div_(density)
            self._weigh(self.values[where].mul_(factor).add_(kernel), where)
            return ()

        for_each_block(size, combine)
        return self.centred


@lru_cache(maxsize=64)
def equal_weights(size: int) -> Array:
    """1/m for each of m kernels; one read-only array per size."""
    weights = np.full(size, 1.0 / size)
    weights.flags.writeable = False
    return weights


def _erfc(z: Array) -> Array:
    """erfc by scipy, or by torch, whose vector code wins from about 64 elements on."""
    if z.size < 64:
        values: Array = erfc(z)
        return values
    return torch.erfc(torch.from_numpy(z)).numpy()


def _kernels(z: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """exp(−z²) in two operations."""
    zero = torch.zeros((), dtype=z.dtype)
    return torch.addcmul(zero, z, z, value=-1.0, out=out).exp_()


def _tail(sf: float, density: float, first: float, second: float) -> Tail:
    """From S, √(2π)·f and the moments of f in z/√2 to the derivatives."""
    if sf <= 0.0:
        return Tail(-math.inf, math.inf, 0.0, 0.0)
    if density <= 0.0:
        return Tail(math.log(sf), 0.0, 0.0, 0.0)
    slope, bend = -SQRT_2 * first / density, 2.0 * second / density - 1.0
    return Tail(math.log(sf), density / (SQRT_2PI * sf), slope, bend)
