"""Sums over kernels for quantiles among the risks: in C where it was built, else in numpy.

Both are held to the same 50-digit oracle.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from scipy.special import erfc

from eqrm.distributions.kde import native
from eqrm.distributions.kde.native import Array, Row
from eqrm.distributions.kde.sums import (
    SQRT_2PI,
    Equation,
    KernelSums,
    Tail,
    TailSums,
    hermite,
)
from eqrm.distributions.normal_tails import SQRT_2

LONG = 8_192
"""Above this many kernels a rough solve comes first, and passes over the risks pay."""

SMALLEST_DENSITY = 1e-250
"""Below, the quantile lies in the middle of a wide gap, where kernels underflow."""

CLOSE = 2e-3
"""So near to a point where sums and kernels are known, in steps of the density, their series are
exact."""

FARTHEST_EXACT = 1e4
"""Beyond, the rounding of t shows in a series about a point nearby."""


def kernel_sums(equation: Equation) -> KernelSums:
    """The sums that serve an equation best."""
    largest = TailSums.reached(equation)
    if largest is not None:
        return TailSums(equation, largest)
    if native.LIBRARY is not None:
        return NativeSums(equation, native.Passes(equation.centred, equation.weights))
    return NumpySums(equation)


class BulkSums(KernelSums):
    """Sums that take one pass over the kernels each.

    On long rows a ``rough`` solve in float32 comes first, and leaves one exact pass as a rule.
    """

    def __init__(self, equation: Equation, rough: bool = False) -> None:
        self.equation, self.rough = equation, rough
        if rough:
            self.tolerance = 0.7
        self.latest = math.nan, Tail(math.nan, math.nan, 0.0, 0.0, 0.0, 0.0), math.nan

    @abstractmethod
    def sums(self, t: float) -> list[float]:
        """Σ p erfc(z/√2) and Σ p exp(−z²/2)(z/√2)ʲ for j = 0 … 4."""

    @abstractmethod
    def write_gradient(self, t: float, a: float, b: float) -> Row:
        """p_i·(a·exp(−z_i²/2) + b·x_i), with p = 1 for equal weights, maybe over the risks."""

    def at(self, t: float) -> Tail:
        sf, density, *moments = self.sums(t)
        tail = _tail(sf, density, *moments)
        self.latest = t, tail, density
        return tail

    def density_near(self, t: float) -> float:
        """Σ p exp(−z²/2) at a point so near to ``t`` that the sums there serve for both."""
        near, tail, _ = self.latest
        if not (abs(t - near) * tail.pace < CLOSE and abs(t) < FARTHEST_EXACT):
            self.at(t)
        return self.latest[-1]

    def gradient(self, t: float, coupling: float) -> tuple[Row, float]:
        if not self.density_near(t) > SMALLEST_DENSITY:
            return NumpySums(self.equation).shares_beside_gap(t), 0.0
        density, mean_z = _extrapolated(t, *self.latest)
        share = 1.0 / self.size if self.equation.weights is None else 1.0
        return self.write_gradient(t, share / density, share * coupling * mean_z), mean_z

    @property
    def size(self) -> int:
        """The number of kernels."""
        return self.equation.centred.size


class NumpySums(BulkSums):
    """Rows of any length, in numpy."""

    def __init__(self, equation: Equation) -> None:
        super().__init__(equation)
        self.shares = equation.shares
        self.scaled = equation.centred / (equation.bandwidth * SQRT_2)
        self.z = np.empty_like(self.scaled)

    def sums(self, t: float) -> list[float]:
        z = np.subtract(t / SQRT_2, self.scaled, out=self.z)
        found = [float(self.shares.dot(erfc(z)))]
        kernels = self.shares * np.exp(-(z * z))
        for _ in range(5):
            found.append(float(kernels.sum()))
            kernels *= z
        return found

    def write_gradient(self, t: float, a: float, b: float) -> Row:
        z = np.subtract(t / SQRT_2, self.scaled, out=self.z)
        gradient: Array = a * np.exp(-(z * z))
        gradient += b * self.equation.centred
        if self.equation.weights is not None:
            gradient *= self.equation.weights
        return gradient

    def shares_beside_gap(self, t: float) -> Array:
        """Half of the gradient to the kernels on each side of a wide gap, most to the nearest.

        There S is flat to the last digit, and its middle stands for all of the gap.
        """
        z = np.subtract(t / SQRT_2, self.scaled, out=self.z)
        square = z * z
        shares = np.zeros_like(square)
        sides = [side for side in (z > 0.0, z <= 0.0) if side.any()]
        for side in sides:
            kernels = self.shares[side] * np.exp(square[side].min() - square[side])
            shares[side] = kernels / (len(sides) * kernels.sum())
        return shares


class NativeSums(BulkSums):
    """Rows of any length, by the C part."""

    def __init__(self, equation: Equation, passes: native.Passes, rough: bool = False) -> None:
        super().__init__(equation, rough)
        self.passes = passes
        self.unit = -1.0 / (equation.bandwidth * SQRT_2)

    def rougher(self) -> KernelSums | None:
        if self.rough or self.size <= LONG:
            return None
        return NativeSums(self.equation, self.passes, rough=True)

    def sums(self, t: float) -> list[float]:
        return self.passes.sums(t / SQRT_2, self.unit, self.rough)

    def write_gradient(self, t: float, a: float, b: float) -> Row:
        return self.passes.gradient(0.0, t / SQRT_2, self.unit, a, b, 0.0)


def _tail(
    sf: float, density: float, first: float, second: float, third: float, fourth: float
) -> Tail:
    """From 2S, √(2π)·f and the moments of f in z/√2 to the derivatives."""
    if sf <= 0.0:
        return Tail(-math.inf, math.inf, 0.0, 0.0, 0.0, 0.0)
    log_sf = math.log(0.5 * sf)
    if density <= 0.0:
        return Tail(log_sf, 0.0, 0.0, 0.0, 0.0, 0.0)
    unit = 1.0 / density
    moments = hermite(
        SQRT_2 * first * unit, 2.0 * second * unit, 2.0 * SQRT_2 * third * unit, 4.0 * fourth * unit
    )
    return Tail(log_sf, 2.0 * density / (SQRT_2PI * sf), *moments)


def _extrapolated(t: float, near: float, tail: Tail, density: float) -> tuple[float, float]:
    """The density at ``t`` and the mean of z under it, from the sums at a point ``near``."""
    d = t - near
    _, _, a, b, c, e = tail
    ratio = 1.0 + d * (a + d * (b / 2.0 + d * (c / 6.0 + d * e / 24.0)))
    slope = a + d * (b + d * (c / 2.0 + d * e / 6.0))
    return density * ratio, -slope / ratio
