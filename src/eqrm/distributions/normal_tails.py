"""The upper tail of the standard normal law, on tensors, stable at any depth.

All functions expect float64: float32 has too few digits in the tail, and
``torch.special.ndtr`` is 0 at −10 even in float64.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
SQRT_2 = math.sqrt(2.0)


def log_sf(z: Tensor) -> Tensor:
    """log Φ(−z)."""
    result: Tensor = torch.special.log_ndtr(-z)
    return result


def sf(z: Tensor) -> Tensor:
    """Φ(−z), with full relative precision until it underflows near z = 38."""
    return 0.5 * torch.erfc(z / SQRT_2)


def log_density(z: Tensor) -> Tensor:
    """log φ(z)."""
    return -0.5 * z * z - LOG_SQRT_2PI


def hazard(z: Tensor) -> Tensor:
    """φ(z)/Φ(−z), the density at z given that z is passed; about z + 1/z deep in the tail."""
    # Below -20 the direct form is exact, and erfcx would overflow in the branch not taken.
    deep = z > -20.0
    mills = torch.special.erfcx(torch.where(deep, z, 0.0) / SQRT_2) * math.sqrt(math.pi / 2.0)
    return torch.where(deep, 1.0 / mills, log_density(torch.where(deep, 0.0, z)).exp())
