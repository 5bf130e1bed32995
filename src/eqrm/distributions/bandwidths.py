"""Bandwidth rules of the kernel density estimate (the paper, appendix C).

A rule maps risks of shape ``(..., m)`` to bandwidths of shape ``(..., 1)``. Weights sum to 1
over the last dimension, or are None for equal ones; with weights, m becomes the effective
number of domains 1/Σp_i². The gradient of a quantile needs ∂h/∂R_i: autograd finds it, unless the
rule gives it in closed form (:meth:`Bandwidth.of_row`), which is many times faster for one row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from eqrm.arrays import Values
from eqrm.checks import POSITIVE
from eqrm.distributions.kde.native import Array
from eqrm.distributions.moments import moments
from eqrm.distributions.order_statistics import (
    interquartile_range,
    median_distance,
    row_interquartile_range,
    row_median_distance,
)
from eqrm.errors import SettingError
from eqrm.execution import is_tensor, namespace
from eqrm.text import did_you_mean

BandwidthFunction = Callable[[Values, Values], Values]


UNBOUNDED = 1e200
"""Stands for no bound: infinity has no place in the C part."""


class RowBandwidth(NamedTuple):
    """h of one row of risks: the lesser of factor·σ̂ and ``fixed``.

    In the second case ∂h/∂R_i are ``shares`` at some places, and 0 elsewhere; None stands for 0
    everywhere.
    """

    factor: float = UNBOUNDED
    fixed: float = UNBOUNDED
    shares: tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]] | None = None

    def value(self, std: float) -> float:
        if self.factor == UNBOUNDED:
            return self.fixed
        proportional = self.factor * std
        return proportional if self.fixed == UNBOUNDED else min(proportional, self.fixed)

    def in_units(self, exponent: int) -> RowBandwidth:
        """The same for risks that were divided by this power of 2."""
        if self.factor != UNBOUNDED and self.fixed == UNBOUNDED:
            return self
        least = math.ulp(0.0) if self.fixed > 0.0 else 0.0  # a positive h remains one
        return self._replace(fixed=max(scaled(self.fixed, -exponent), least))


class SpreadBandwidth(NamedTuple):
    """The same before the risks are seen: the lesser of factor·σ̂ and scale·spread.

    The spread is the interquartile range or, where not ``quartiles``, the median distance.
    """

    quartiles: bool
    factor: float
    scale: float


def scaled(value: float, exponent: int) -> float:
    """value·2^exponent, infinite where that is too large."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


class Bandwidth(ABC):
    """A bandwidth rule.

    ``forces_invariance`` says whether h → 0 forces σ̂ → 0. Proposition A.5 needs it: only
    then does minimising the quantile as α → 1 equalise the risks of all domains.
    """

    forces_invariance: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, risks: Values, weights: Values | None = None) -> Values:
        """The bandwidth, shape ``(..., 1)``, differentiable in ``risks`` (float64)."""

    def of_row(self, risks: Array, weights: Array | None) -> RowBandwidth:
        """The bandwidth of one row of an array and its slopes; only of the package's own rules.

        Weights are positive and sum to 1; None stands for equal ones.
        """
        raise NotImplementedError

    def of_rows(
        self, risks: Values, weights: Values | None, wants_slope: bool
    ) -> tuple[Values, Values | float]:
        """The bandwidths without a graph, and ∂h/∂R_i by autograd where they are wanted (else 0).

        Each row's bandwidth follows from the risks of that row alone.
        """
        import torch

        with torch.set_grad_enabled(wants_slope):
            leaf = risks.detach().requires_grad_(wants_slope)
            h = self(leaf, weights)
            slope = torch.autograd.grad(h.sum(), leaf)[0] if h.requires_grad else 0.0
        return h.detach(), slope


@dataclass(frozen=True)
class SigmaRule(Bandwidth):
    """h = constant · m^−0.2 · σ̂."""

    constant: float
    forces_invariance: ClassVar[bool] = True

    def factor(self, effective: Values) -> Values:
        return self.constant * effective**-0.2

    def __call__(self, risks: Values, weights: Values | None = None) -> Values:
        found = moments(risks, weights)
        return self.factor(found.effective) * found.std

    def of_row(self, risks: Array, weights: Array | None) -> RowBandwidth:
        effective = risks.size if weights is None else 1.0 / float(weights.dot(weights))
        return RowBandwidth(self.factor(effective))


@dataclass(frozen=True)
class Silverman(Bandwidth):
    """h = constant · m^−0.2 · min(σ̂, IQR/1.34), and σ̂ alone when the IQR is 0.

    The IQR can vanish while one domain is far away, so h → 0 does not force σ̂ → 0.
    """

    constant: float = 0.9

    def __call__(self, risks: Values, weights: Values | None = None) -> Values:
        found = moments(risks, weights)
        iqr = interquartile_range(risks, weights) / 1.34
        xp = namespace(risks)
        spread = xp.where((iqr > 0) & (iqr < found.std), iqr, found.std)
        bandwidth = SigmaRule(self.constant).factor(found.effective) * spread
        # Quartiles that differ by next to nothing must not round to kernels without a width.
        return xp.where((spread > 0) & (bandwidth == 0), math.ulp(0.0), bandwidth)

    def of_row(self, risks: Array, weights: Array | None) -> RowBandwidth:
        """As for σ̂ where it is smaller; else the derivatives of the two quartiles."""
        sigma = SigmaRule(self.constant).of_row(risks, weights)
        iqr, places, shares = row_interquartile_range(risks, weights)
        if not math.isfinite(iqr):
            return RowBandwidth(fixed=math.nan)
        if iqr <= 0.0:
            return sigma
        factor = sigma.factor / 1.34
        width = max(factor * iqr, math.ulp(0.0))
        return RowBandwidth(sigma.factor, width, (places, factor * shares))


@dataclass(frozen=True)
class MedianDistance(Bandwidth):
    """h = the median of |R_i − R_j| over i < j; the Gaussian-optimal rule when it is 0."""

    def __call__(self, risks: Values, weights: Values | None = None) -> Values:
        median = median_distance(risks, weights)
        return namespace(risks).where(median == 0, GAUSSIAN_OPTIMAL(risks, weights), median)

    def of_row(self, risks: Array, weights: Array | None) -> RowBandwidth:
        """½ or −½ at the risks of the two pairs in the middle."""
        median, places, shares = row_median_distance(risks, weights)
        if median == 0.0:
            return GAUSSIAN_OPTIMAL.of_row(risks, weights)
        return RowBandwidth(fixed=median, shares=(places, shares))


@dataclass(frozen=True, eq=False)
class Fixed(Bandwidth):
    """The same bandwidth whatever the risks are.

    Compared by identity: torch 2.11 looks up the hash before there is a value, when it compiles.
    """

    value: float

    def __post_init__(self) -> None:
        POSITIVE.check(self.value, "bandwidth")

    def __call__(self, risks: Values, weights: Values | None = None) -> Values:
        return namespace(risks).full_like(risks[..., :1], self.value)

    def of_row(self, risks: Array, weights: Array | None) -> RowBandwidth:
        return RowBandwidth(fixed=self.value)


@dataclass(frozen=True)
class UserRule(Bandwidth):
    """A user's function ``(risks, weights) -> bandwidth``, of shape ``(...)`` or ``(..., 1)``."""

    function: BandwidthFunction

    @property
    def forces_invariance(self) -> bool:  # type: ignore[override]
        """The function's own attribute of this name, False if it has none."""
        return bool(getattr(self.function, "forces_invariance", False))

    def __call__(self, risks: Values, weights: Values | None = None) -> Values:
        xp = namespace(risks)
        if weights is None:
            weights = xp.full_like(risks, 1.0 / risks.shape[-1])
        value = self.function(risks, weights)
        if is_tensor(risks):
            value = xp.as_tensor(value, dtype=risks.dtype, device=risks.device)
        else:
            value = np.asarray(value, dtype=risks.dtype)
        if value.shape == (*risks.shape[:-1], 1):
            return value
        if value.shape == risks.shape[:-1] or value.ndim == 0:
            return xp.broadcast_to(value, risks.shape[:-1])[..., None]
        raise SettingError(
            f"The bandwidth function returned shape {tuple(value.shape)}; for risks of shape "
            f"{tuple(risks.shape)} it must return {tuple(risks.shape[:-1])}, one per row."
        )


def spread_bandwidth(rule: Bandwidth, size: int) -> SpreadBandwidth | None:
    """What the C part needs of a rule for so many risks of equal weight; None: it has no spread."""
    if type(rule) is Silverman:
        factor = rule.constant * size**-0.2
        return SpreadBandwidth(True, factor, factor / 1.34)
    if type(rule) is MedianDistance:
        return SpreadBandwidth(False, UNBOUNDED, 1.0)
    return None


GAUSSIAN_OPTIMAL = SigmaRule((4.0 / 3.0) ** 0.2)

BANDWIDTHS: dict[str, Bandwidth] = {
    "gaussian-optimal": GAUSSIAN_OPTIMAL,
    "silverman": Silverman(),
    "scott": SigmaRule(1.0),
    "median": MedianDistance(),
    # The published code rounds (4/3)^0.2 = 1.0592 to 1.06.
    "gaussian-optimal-1.06": SigmaRule(1.06),
    # The paper's appendix C prints Silverman's rule without its factor 0.9.
    "silverman-paper": Silverman(constant=1.0),
}


def resolve_bandwidth(bandwidth: str | float | Bandwidth | BandwidthFunction) -> Bandwidth:
    """The rule behind a name, a number or a function.

    >>> resolve_bandwidth("scott")
    SigmaRule(constant=1.0)
    >>> resolve_bandwidth(0.1)
    Fixed(value=0.1)
    """
    if isinstance(bandwidth, Bandwidth):
        return bandwidth
    if isinstance(bandwidth, str):
        if bandwidth not in BANDWIDTHS:
            raise SettingError(
                f"Unknown bandwidth rule {bandwidth!r}. {did_you_mean(bandwidth, BANDWIDTHS)} "
                "A number or a function (risks, weights) -> bandwidth is accepted too."
            )
        return BANDWIDTHS[bandwidth]
    if callable(bandwidth):
        return UserRule(bandwidth)
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, (int, float)):
        raise SettingError(
            "bandwidth must be a name, a number or a function (risks, weights) -> bandwidth, "
            f"got {type(bandwidth).__name__}. {did_you_mean('', BANDWIDTHS)}"
        )
    return Fixed(float(bandwidth))
