"""Sums over the kernels of one row on the CPU, as the root solve needs them.

For unit kernels at y_i = x_i/h with weights p_i, and z_i = t − y_i, each class gives at any t
log S, the hazard f/S and derivatives of f, with S = Σ p_i Φ(−z_i) and f = Σ p_i φ(z_i), and
after the solve the gradient. Levels under ½ come in mirrored, by a negative h.

:class:`TailSums` serves quantiles beyond every risk; those among the risks are served in C or in
numpy (:mod:`eqrm.distributions.kde.bulk_sums`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx

from eqrm.distributions.kde.native import Array, Row
from eqrm.distributions.normal_tails import LOG_SQRT_2PI, SQRT_2
from eqrm.level import Level, normal_upper_quantile

SQRT_2PI = math.sqrt(2.0 * math.pi)
SQRT_HALF_PI = math.sqrt(0.5 * math.pi)

ENOUGH_CENTRES = 8_192
"""The quantile of more centres than this is not worth the time, for a start."""

ENOUGH_BEYOND = 300
"""With fewer centres beyond it, that quantile may be several bandwidths away."""

NORMAL_ENOUGH = 1.0
"""Φ⁻¹(α) beyond which the quantile of normal risks is a poor start."""

NEIGHBOURS = 4.0
"""Kernels with centres at most so many bandwidths apart overlap."""

NARROW, WIDE = 0.15, 0.48
"""The same bound for bandwidths, in units of σ̂: in the middle of the risks, and towards their
ends."""

NARROWEST = 1e-90
"""Kernels narrower than this part of the spread of the risks are taken to be as wide: nothing of
the quantile is lost, and squares of distances in bandwidths stay finite."""

FAR_FROM_MEAN = 1e3
"""Bandwidths between mean and quantile, or in σ̂, from which centring at the mean costs digits."""

LOG_HALF = -math.log(2.0)

FAR_INSIDE_TAIL = -15.0
"""log S of a kernel at z = 5: below it, the quantile lies beyond the kernel that made it."""


def upper(level: Level) -> tuple[float, float, float]:
    """log tail, Φ⁻¹ and sign of a level, or of its mirror image (sign −1) where it is under ½."""
    if level.log_tail > LOG_HALF:
        return level.log_alpha, -level.z, -1.0
    return level.log_tail, level.z, 1.0


def narrow(goal: float) -> float:
    """Bandwidths in units of σ̂ below which the quantile of normal risks is a poor start."""
    return NARROW if goal <= NORMAL_ENOUGH else WIDE


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

    @classmethod
    def at(
        cls, level: Level, centred: Array, weights: Array | None, std: float, bandwidth: float
    ) -> Equation:
        """The equation of a quantile; under ½ the mirror image, in which no digits are lost."""
        log_tail, goal, sign = upper(level)
        return cls(np.ascontiguousarray(centred), weights, std, sign * bandwidth, log_tail, goal)

    @property
    def shares(self) -> Array:
        return equal_weights(self.centred.size) if self.weights is None else self.weights

    def near_root(self) -> float:
        """A point near the root, to start from.

        Where kernels are wide, the root for normal risks; where they are narrow, the quantile of
        (some of) their centres, and beyond those the root of the largest kernel alone.
        """
        width, size, tail = abs(self.bandwidth), self.centred.size, math.exp(self.log_tail)
        if width >= narrow(self.goal) * self.std:
            return self.goal * math.hypot(self.std / width, 1.0)
        stride = max(1, min(size // ENOUGH_CENTRES, 16, int(tail * size) // ENOUGH_BEYOND))
        if tail * size < stride:
            top = self.centred.max() if self.bandwidth > 0.0 else self.centred.min()
            alone = normal_upper_quantile(min(LOG_HALF, self.log_tail + math.log(size)))
            return float(top) / self.bandwidth + alone
        below = 1.0 - tail if self.bandwidth > 0.0 else tail
        some = self.centred[::stride]
        if self.weights is None:
            return quantile_of_kernels(some, width, below) / self.bandwidth
        order = some.argsort()
        reached = self.weights[::stride][order].cumsum()
        rank = int(reached.searchsorted(below * reached[-1]))
        return float(some[order[min(rank, some.size - 1)]]) / self.bandwidth

    def bracket_of(self, smallest: float, largest: float) -> tuple[float, float]:
        """From the root of the smallest kernel alone to that of the largest."""
        ends = smallest / self.bandwidth, largest / self.bandwidth
        return min(ends) + self.goal, max(ends) + self.goal


class Tail(NamedTuple):
    """log S, f/S, and the first four derivatives of f over f, at one point."""

    log_sf: float
    hazard: float
    first: float
    second: float
    third: float
    fourth: float

    @property
    def pace(self) -> float:
        """How fast the density changes, where it does so faster than one kernel; at least 1."""
        return max(1.0, abs(self.first), math.sqrt(abs(self.second)))


class KernelSums(ABC):
    """The sums over one row of kernels."""

    equation: Equation
    origin: float = 0.0
    """The centred risk from which roots are counted."""
    tolerance: float = 1e-2
    """A step shorter than this ends the solve: what it leaves is of the order of its sixth
    power over 720."""

    @property
    def start(self) -> float:
        return self.equation.near_root()

    def bracket(self) -> tuple[float, float]:
        """An interval that holds the root; asked for only when a step goes astray.

        As a rule from the root of the smallest kernel alone to that of the largest.
        """
        centred = self.equation.centred
        return self.equation.bracket_of(float(centred.min()), float(centred.max()))

    @abstractmethod
    def at(self, t: float) -> Tail:
        """The tail probability and its derivatives at ``t``."""

    @abstractmethod
    def gradient(self, t: float, coupling: float) -> tuple[Row, float]:
        """w_i + coupling·z̄·p_i·x_i at ``t``, with w_i ∝ p_i φ(z_i), and z̄ = Σ w_i z_i.

        The last thing asked of a row: it may be written over the centred risks.
        """

    def rougher(self) -> KernelSums | None:
        """The same in less precision, whose root is a good start, where that saves time."""
        return None


class TailSums(KernelSums):
    """Quantiles beyond every kernel, at any depth.

    Everything is taken relative to the largest centre: with d_i its distance to the others
    and z its own z, φ(z_i)/φ(z) = exp(−d_i(z + d_i/2)) has no large numbers to subtract.
    Kernels that count e^−60 times less than the largest are left out.
    """

    def __init__(self, equation: Equation, largest: float) -> None:
        self.equation, self.origin = equation, largest
        centred, weights, bandwidth = equation.centred, equation.weights, equation.bandwidth
        share = 1.0 / centred.size if weights is None else float(weights[centred == largest].max())
        # The root lies above that of one largest kernel alone, and below that of all kernels
        # gathered there.
        self.lowest = normal_upper_quantile(min(0.0, equation.log_tail - math.log(share)))
        # A kernel counts by its weight too, which may be far larger than that of the largest one.
        depth = 60.0 if weights is None else 60.0 + math.log(float(weights.max()) / share)
        # d(lowest + d/2) <= depth, solved for d without a difference of large numbers
        reach = bandwidth * (
            2.0 * depth / (math.hypot(self.lowest, math.sqrt(2.0 * depth)) + self.lowest)
        )
        near = centred >= largest - reach if bandwidth > 0 else centred <= largest - reach
        self.kept = np.flatnonzero(near)
        self.distances = (largest - centred[self.kept]) / bandwidth
        kept = self.kept.size
        self.shares = np.full(kept, share) if weights is None else weights[self.kept]

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

    @property
    def start(self) -> float:
        return self.lowest

    def bracket(self) -> tuple[float, float]:
        return self.lowest, self.equation.goal

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

    def gradient(self, t: float, coupling: float) -> tuple[Row, float]:
        densities = self._relative_densities(t)
        densities /= densities.sum()
        mean_z = t + float(densities.dot(self.distances))
        centred, weights = self.equation.centred, self.equation.weights
        share = 1.0 / centred.size if weights is None else weights
        gradient: Array = np.multiply(centred, share * (coupling * mean_z), out=centred)
        gradient[self.kept] += densities
        return gradient, mean_z


def quantile_of_kernels(centres: Array, width: float, below: float) -> float:
    """Near the quantile of two narrow kernels or more: that of the nearest, or of the centres."""
    place = max(below * centres.size - 0.5, 0.0)
    rank = min(int(place), centres.size - 2)
    parted = np.partition(centres, rank)
    here, share = float(parted[rank]), place - rank
    gap = float(parted[rank + 1 :].min()) - here
    if gap < NEIGHBOURS * width or abs(share - 0.5) < 1e-12:
        return here + share * gap
    # A kernel of its own, of which a part lies below the quantile.
    nearest, part = (here, share + 0.5) if share < 0.5 else (here + gap, share - 0.5)
    inside = -normal_upper_quantile(math.log(part))
    return nearest + width * inside


def risk_near_quantile(risks: Array, weights: Array | None, level: Level) -> float:
    """The risk that the quantile is nearest to when kernels are narrow."""
    if weights is None:
        rank = min(int(level.alpha * risks.size), risks.size - 1)
        return float(np.partition(risks, rank)[rank])
    order = risks.argsort()
    reached = weights[order].cumsum()
    rank = min(int(reached.searchsorted(level.alpha * reached[-1])), risks.size - 1)
    return float(risks[order[rank]])


@lru_cache(maxsize=64)
def equal_weights(size: int) -> Array:
    """1/m for each of m kernels; one read-only array per size."""
    weights = np.full(size, 1.0 / size)
    weights.flags.writeable = False
    return weights


def hermite(
    first: float, second: float, third: float, fourth: float
) -> tuple[float, float, float, float]:
    """From the means of z … z⁴ under the density to the derivatives of the density over itself."""
    return -first, second - 1.0, 3.0 * first - third, fourth - 6.0 * second + 3.0
