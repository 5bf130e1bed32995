"""Every distribution, bandwidth rule and level that the gradient checks go through."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import eqrm

Build = Callable[..., eqrm.distributions.RiskDistribution]

BANDWIDTHS = (
    "gaussian-optimal",
    "silverman",
    "scott",
    "median",
    "gaussian-optimal-1.06",
    "silverman-paper",
)
EQUIVARIANT_DISTRIBUTIONS: dict[str, Build] = {
    "gaussian": eqrm.Gaussian,
    "empirical step": partial(eqrm.Empirical, interpolation="step"),
    "empirical linear": partial(eqrm.Empirical, interpolation="linear"),
    **{f"kde {name}": partial(eqrm.KDE, bandwidth=name) for name in BANDWIDTHS},
}
"""Location-scale equivariant: q(a + b R) = a + b q(R) for b > 0."""


def third_of_the_mean(risks: Tensor, weights: Tensor) -> Tensor:
    """A user's own bandwidth rule: smooth, and positive even for equal risks."""
    return (weights * risks).sum(-1) / 3.0


DISTRIBUTIONS: dict[str, Build] = {
    **EQUIVARIANT_DISTRIBUTIONS,
    "lognormal": eqrm.distributions.LogNormal,
    "kde number": partial(eqrm.KDE, bandwidth=0.3),
    "kde function": partial(eqrm.KDE, bandwidth=third_of_the_mean),
}

LEVELS: dict[str, eqrm.Level] = {
    **{str(a): eqrm.Level(a) for a in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)},
    **{f"1-e^{tail:g}": eqrm.Level(log_tail=tail) for tail in (-20.0, -100.0, -1000.0)},
}

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def distinct_risks(m: int = 6) -> Tensor:
    """Positive risks whose order, quartiles and distances have no ties, in float64."""
    generator = torch.Generator().manual_seed(m)
    steps = 0.2 + torch.rand(m, dtype=torch.float64, generator=generator)
    order = torch.randperm(m, generator=generator)
    return steps.cumsum(0)[order]


def unequal_weights(m: int = 6) -> Tensor:
    """Positive weights without ties, in float64."""
    generator = torch.Generator().manual_seed(100 + m)
    return 0.5 + torch.rand(m, dtype=torch.float64, generator=generator)
