"""Sums over the kernels of one row on the CPU, as the root solve needs them.

For unit kernels at y_i = x_i/h with weights p_i, and z_i = t − y_i, each class gives at any t
log S, the hazard f/S and derivatives of f, with S = Σ p_i Φ(−z_i) and f = Σ p_i φ(z_i), and
after the solve the gradient. Levels under ½ come in mirrored, by a negative h.

Which class serves depends on where the quantile lies and how many kernels there are:
:class:`BulkSums` and :class:`~eqrm.distributions.kde.long_rows.LongBulkSums` for quantiles among
the risks, :class:`TailSums` for quantiles beyond every risk.
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

from eqrm.distributions.normal_tails import LOG_SQRT_2PI, SQRT_2
from eqrm.level import normal_upper_quantile

Array = npt.NDArray[np.float64]

SQRT_2PI = math.sqrt(2.0 * math.pi)
SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
WORTH_A_TENSOR = 150
"""torch's vectorised erfc beats scipy's from about this many elements on."""

FEW_CENTRES, ENOUGH_CENTRES = 64, 8_192
"""A start from fewer centres is no better than a normal law's; from more, not worth the time."""


class Equation(NamedTuple):
    """One row of kernels, and the equation S(t) = exp(log_tail) to be solved on it."""

    centred: Array
    """x_i = R_i − R̄."""
    weights: Array | None
    """p_i > 0, summing to 1; None for equal ones."""
    std: float
    """σ̂ of the risks."""
    bandwidth: float
    log_tail: float
    goal: float
    """Φ⁻¹ of the level, where the solver's scale must arrive."""

    @property
    def shares(self) -> Array:
        """p_i, whether given or equal."""
        return equal_weights(self.centred.size) if self.weights is None else self.weights

    def near_root(self) -> float:
        """A point near the root, to start from: the quantile of (some of) the kernels' centres.

        Where these are few it is the root for normal risks.
        """
        below = -math.expm1(self.log_tail) if self.bandwidth > 0.0 else math.exp(self.log_tail)
        centre = quantile_of_some(self.centred, self.weights, below)
        if centre is None:
            return self.goal * math.hypot(self.std / self.bandwidth, 1.0)
        return centre / self.bandwidth

    def pull(self, mean_z: float, coupling: float) -> Array:
        """coupling·z̄·p_i·x_i, what the bandwidth adds to the gradient; over the centred risks."""
        share = 1.0 / self.centred.size if self.weights is None else self.weights
        return np.multiply(self.centred, share * (coupling * mean_z), out=self.centred)


class Tail(NamedTuple):
    """log S, f/S, and the first four derivatives of f over f, at one point."""

    log_sf: float
    hazard: float
    first: float
    second: float
    third: float
    fourth: float


class KernelSums(ABC):
    """The sums over one row of kernels."""

    equation: Equation
    start: float
    """Where to begin."""
    origin: float = 0.0
    """Roots are relative to this, in units of h."""
    tolerance: float = 1e-2
    """A step shorter than this ends the solve: what it leaves is of the order of its sixth
    power over 720."""

    @abstractmethod
    def bracket(self) -> tuple[float, float]:
        """An interval that holds the root; asked for only when a step goes astray."""

    @abstractmethod
    def at(self, t: float) -> Tail:
        """The tail probability and its derivatives at ``t``."""

    @abstractmethod
    def gradient(self, t: float, coupling: float) -> torch.Tensor:
        """w_i + coupling·z̄·p_i·x_i at ``t``, with w_i ∝ p_i φ(z_i) and z̄ = Σ w_i z_i.

        The last thing asked of a row: it may be written over the centred risks.
        """

    def rougher(self) -> KernelSums | None:
        """The same in less precision, whose root is a good start, where that saves time."""
        return None


class BulkSums(KernelSums):
    """Quantiles among the risks or not far beyond them, in numpy."""

    def __init__(self, equation: Equation) -> None:
        self.equation = equation
        self.start = equation.near_root()
        self.shares = equation.shares
        self.scaled = equation.centred / (equation.bandwidth * SQRT_2)
        self._tensors: tuple[torch.Tensor, torch.Tensor] | None = None
        if self.scaled.size < WORTH_A_TENSOR:
            self.z = np.empty_like(self.scaled)
        else:
            z = torch.empty(self.scaled.size, dtype=torch.float64)
            self._tensors = z, torch.empty_like(z)
            self.z = z.numpy()
            self.tails = self._tensors[1].numpy()

    def bracket(self) -> tuple[float, float]:
        goal = self.equation.goal
        smallest, largest = float(self.scaled.min()), float(self.scaled.max())
        return smallest * SQRT_2 + goal, largest * SQRT_2 + goal

    def _erfc(self) -> Array:
        """erfc(z)."""
        if self._tensors is None:
            values: Array = erfc(self.z)
            return values
        torch.erfc(self._tensors[0], out=self._tensors[1])
        return self.tails

    def at(self, t: float) -> Tail:
        z, weights = self.z, self.equation.weights
        np.subtract(t / SQRT_2, self.scaled, out=z)
        sf = 0.5 * float(self.shares.dot(self._erfc()))
        square = z * z
        kernels = np.exp(-square)
        density = float(self.shares.dot(kernels))
        share = 1.0 / z.size
        if weights is not None:
            kernels *= weights
            share = 1.0
        first, second = share * float(kernels.dot(z)), share * float(kernels.dot(square))
        kernels *= square
        third, fourth = share * float(kernels.dot(z)), share * float(kernels.dot(square))
        return derivatives(sf, density, first, second, third, fourth)

    def gradient(self, t: float, coupling: float) -> torch.Tensor:
        z = np.subtract(t / SQRT_2, self.scaled, out=self.z)
        square = z * z
        kernels: Array = np.exp(-square)
        if self.equation.weights is not None:
            kernels *= self.shares
        density = float(kernels.sum())
        if not density > 1e-250:  # the middle of a wide gap
            kernels = self.shares * np.exp(square.min() - square)
            density = float(kernels.sum())
        kernels /= density
        kernels += self.equation.pull(SQRT_2 * float(kernels.dot(z)), coupling)
        return torch.from_numpy(kernels)


class TailSums(KernelSums):
    """Quantiles beyond every kernel, at any depth.

    Everything is taken relative to the largest centre: with d_i its distance to the others
    and z its own z, φ(z_i)/φ(z) = exp(−d_i(z + d_i/2)) has no large numbers to subtract.
    Kernels that are e^−60 times smaller than the largest are left out.
    """

    def __init__(self, equation: Equation, largest: float) -> None:
        self.equation = equation
        centred, weights, bandwidth = equation.centred, equation.weights, equation.bandwidth
        self.origin = largest / bandwidth
        share = 1.0 / centred.size if weights is None else float(weights[centred == largest].min())
        # The root lies above that of one largest kernel alone, and below that of all kernels
        # gathered there.
        self.start = normal_upper_quantile(min(0.0, equation.log_tail - math.log(share)))
        # d(start + d/2) <= 60, solved for d without a difference of large numbers
        reach = bandwidth * (120.0 / (math.hypot(self.start, math.sqrt(120.0)) + self.start))
        near = centred >= largest - reach if bandwidth > 0 else centred <= largest - reach
        self.kept = np.flatnonzero(near)
        self.distances = (largest - centred[self.kept]) / bandwidth
        self.shares = (
            equal_weights(centred.size)[: self.kept.size] if weights is None else weights[self.kept]
        )

    @staticmethod
    def reached(equation: Equation) -> float | None:
        """The largest centre if the quantile lies beyond its kernel, else None."""
        if equation.log_tail >= FAR_INSIDE_TAIL:
            return None
        centred, weights = equation.centred, equation.weights
        top = int(centred.argmax() if equation.bandwidth > 0 else centred.argmin())
        share = 1.0 / centred.size if weights is None else float(weights[top])
        beyond = equation.log_tail < FAR_INSIDE_TAIL + math.log(share)
        return float(centred[top]) if beyond else None

    def bracket(self) -> tuple[float, float]:
        return self.start, self.equation.goal

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
        square = z * z
        first, second = float(densities.dot(z)), float(densities.dot(square))
        densities *= square
        third, fourth = float(densities.dot(z)), float(densities.dot(square))
        return Tail(log_sf, density / tails, *hermite(first, second, third, fourth))

    def gradient(self, t: float, coupling: float) -> torch.Tensor:
        densities = self._relative_densities(t)
        densities /= densities.sum()
        gradient = self.equation.pull(t + float(densities.dot(self.distances)), coupling)
        gradient[self.kept] += densities
        return torch.from_numpy(gradient)


def quantile_of_some(values: Array, weights: Array | None, below: float) -> float | None:
    """The quantile of every k-th value, quickly; None where they are too few to tell.

    >>> quantile_of_some(np.arange(100.0), None, 0.5)
    49.5
    """
    stride = max(1, min(values.size // ENOUGH_CENTRES, 16))
    if values.size < FEW_CENTRES or min(below, 1.0 - below) * values.size < 0.5 * stride:
        return None
    some = values[::stride]
    if weights is None:
        place = max(below * some.size - 0.5, 0.0)
        rank = min(int(place), some.size - 2)
        parted = np.partition(some, rank)
        here = float(parted[rank])
        return here + (place - rank) * (float(parted[rank + 1 :].min()) - here)
    order = some.argsort()
    reached = weights[::stride][order].cumsum()
    rank = int(reached.searchsorted(below * reached[-1]))
    return float(some[order[min(rank, some.size - 1)]])


FAR_INSIDE_TAIL = -15.0
"""log S of a kernel at z = 5: below it, the quantile lies beyond the kernel that made it."""


@lru_cache(maxsize=64)
def equal_weights(size: int) -> Array:
    """1/m for each of m kernels; one read-only array per size."""
    weights = np.full(size, 1.0 / size)
    weights.flags.writeable = False
    return weights


def hermite(
    first: float, second: float, third: float, fourth: float
) -> tuple[float, float, float, float]:
    """From the means of z … z⁴ under the density to the derivatives of the density over itself.

    >>> hermite(1.0, 1.0, 1.0, 3.0)
    (-1.0, 0.0, 2.0, 0.0)
    """
    return -first, second - 1.0, 3.0 * first - third, fourth - 6.0 * second + 3.0


def derivatives(
    sf: float, density: float, first: float, second: float, third: float, fourth: float
) -> Tail:
    """From S, √(2π)·f and the moments of f in z/√2 to the derivatives."""
    if sf <= 0.0:
        return Tail(-math.inf, math.inf, 0.0, 0.0, 0.0, 0.0)
    if density <= 0.0:
        return Tail(math.log(sf), 0.0, 0.0, 0.0, 0.0, 0.0)
    unit = 1.0 / density
    moments = hermite(
        SQRT_2 * first * unit, 2.0 * second * unit, 2.0 * SQRT_2 * third * unit, 4.0 * fourth * unit
    )
    return Tail(math.log(sf), density / (SQRT_2PI * sf), *moments)


CLOSE = 2e-3
"""So near to a point where the sums are known, in steps of the density, their series is exact."""


def is_close(t: float, near: float, tail: Tail) -> bool:
    """Whether the sums at ``near`` tell those at ``t``."""
    return abs(t - near) * max(1.0, abs(tail.first), math.sqrt(abs(tail.second))) < CLOSE


def extrapolated(t: float, near: float, tail: Tail, density: float) -> tuple[float, float]:
    """The density at ``t`` and the mean of z under it, from the sums at a point ``near``."""
    d = t - near
    _, _, a, b, c, e = tail
    ratio = 1.0 + d * (a + d * (b / 2.0 + d * (c / 6.0 + d * e / 24.0)))
    slope = a + d * (b + d * (c / 2.0 + d * e / 6.0))
    return density * ratio, -slope / ratio
