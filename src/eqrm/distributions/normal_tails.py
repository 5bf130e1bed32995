"""The upper tail of the standard normal law, on arrays and tensors, stable at any depth.

All functions expect float64: float32 has too few digits in the tail, and
``torch.special.ndtr`` is 0 at −10 even in float64.
"""

from __future__ import annotations

import math

from eqrm.arrays import Values, exp, special
from eqrm.execution import namespace

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
SQRT_2 = math.sqrt(2.0)


def log_sf(z: Values) -> Values:
    """log Φ(−z)."""
    return special(z).log_ndtr(-z)


def sf(z: Values) -> Values:
    """Φ(−z), with full relative precision until it underflows near z = 38."""
    return 0.5 * special(z).erfc(z / SQRT_2)


def log_density(z: Values) -> Values:
    """log φ(z)."""
    return -0.5 * z * z - LOG_SQRT_2PI


def hazard(z: Values) -> Values:
    """φ(z)/Φ(−z), the density at z given that z is passed; about z + 1/z deep in the tail."""
    xp = namespace(z)
    # Below -20 the direct form is exact, and erfcx would overflow in the branch not taken.
    deep = z > -20.0
    mills = special(z).erfcx(xp.where(deep, z, 0.0) / SQRT_2) * math.sqrt(math.pi / 2.0)
    return xp.where(deep, 1.0 / mills, exp(log_density(xp.where(deep, 0.0, z))))
