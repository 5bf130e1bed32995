"""Bandwidth rules of the kernel density estimate (the paper, appendix C).

A rule maps risks of shape ``(..., m)`` to bandwidths of shape ``(..., 1)``. Weights sum to 1
over the last dimension, or are None for equal ones; with weights, m becomes the effective
number of domains 1/Σp_i².
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from eqrm.distributions.moments import moments
from eqrm.distributions.order_statistics import interquartile_range
from eqrm.distributions.pairwise_median import median_distance
from eqrm.errors import SettingError, did_you_mean

BandwidthFunction = Callable[[Tensor, Tensor], Tensor]


class Bandwidth(ABC):
    """A bandwidth rule.

    ``forces_invariance`` says whether h → 0 forces σ̂ → 0. Proposition A.5 needs it: only
    then does minimising the quantile as α → 1 equalise the risks of all domains.
    """

    forces_invariance: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """The bandwidth, shape ``(..., 1)``, differentiable in ``risks`` (float64)."""


@dataclass(frozen=True)
class SigmaRule(Bandwidth):
    """h = constant · m^−0.2 · σ̂.

    >>> rule = SigmaRule(1.0)
    >>> risks = torch.arange(32.0, dtype=torch.float64)
    >>> rule(risks) / risks.std()
    tensor([0.5000], dtype=torch.float64)
    """

    constant: float
    forces_invariance: ClassVar[bool] = True

    def factor(self, effective: float) -> float:
        """h/σ̂ for this (effective) number of domains."""
        return self.constant * math.pow(effective, -0.2)

    def __call__(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        found = moments(risks, weights)
        return self.constant * found.effective**-0.2 * found.std


@dataclass(frozen=True)
class Silverman(Bandwidth):
    """h = constant · m^−0.2 · min(σ̂, IQR/1.34), and σ̂ alone when the IQR is 0.

    The IQR can vanish while one domain is far away, so h → 0 does not force σ̂ → 0.
    """

    constant: float = 0.9

    def __call__(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        found = moments(risks, weights)
        iqr = interquartile_range(found.centred, weights) / 1.34
        spread = torch.where((iqr > 0) & (iqr < found.std), iqr, found.std)
        return self.constant * found.effective**-0.2 * spread


@dataclass(frozen=True)
class MedianDistance(Bandwidth):
    """h = the median of |R_i − R_j| over i < j; the Gaussian-optimal rule when it is 0."""

    def __call__(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        median = median_distance(moments(risks, weights).centred, weights)
        return torch.where(median > 0, median, GAUSSIAN_OPTIMAL(risks, weights))


@dataclass(frozen=True)
class Fixed(Bandwidth):
    """The same bandwidth whatever the risks are."""

    value: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise SettingError(
                f"A bandwidth given as a number must be positive and finite, not {self.value!r}."
            )

    def __call__(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        return risks.new_full((*risks.shape[:-1], 1), self.value)


@dataclass(frozen=True)
class UserRule(Bandwidth):
    """A user's function ``(risks, weights) -> bandwidth``, of shape ``(...)`` or ``(..., 1)``."""

    function: BandwidthFunction

    @property
    def forces_invariance(self) -> bool:  # type: ignore[override]
        """What the function says of itself, False if it says nothing."""
        return bool(getattr(self.function, "forces_invariance", False))

    def __call__(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        if weights is None:
            weights = torch.full_like(risks, 1.0 / risks.shape[-1])
        value = torch.as_tensor(
            self.function(risks, weights), dtype=risks.dtype, device=risks.device
        )
        if value.shape == (*risks.shape[:-1], 1):
            return value
        if value.shape == risks.shape[:-1] or value.ndim == 0:
            return value.expand(risks.shape[:-1]).unsqueeze(-1)
        raise SettingError(
            f"The bandwidth function returned shape {tuple(value.shape)}; for risks of shape "
            f"{tuple(risks.shape)} it must return {tuple(risks.shape[:-1])}, one per row."
        )


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
                f"There is no bandwidth rule {bandwidth!r}. {did_you_mean(bandwidth, BANDWIDTHS)} "
                "A number or a function (risks, weights) -> bandwidth will do too."
            )
        return BANDWIDTHS[bandwidth]
    if callable(bandwidth):
        return UserRule(bandwidth)
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, (int, float)):
        raise SettingError(
            "A bandwidth is a name, a number or a function (risks, weights) -> bandwidth, "
            f"but it is {type(bandwidth).__name__}. {did_you_mean('', BANDWIDTHS)}"
        )
    return Fixed(float(bandwidth))
