"""Numbers in double precision as arguments of kernels, which take a Python float as a float32."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import triton
import triton.language as tl


@triton.jit
def double(high, middle, low):  # type: ignore[no-untyped-def]
    """A float64 from three float32."""
    return tl.cast(high, tl.float64) + tl.cast(middle, tl.float64) + tl.cast(low, tl.float64)


@lru_cache(maxsize=256)
def in_three(value: float) -> tuple[float, float, float]:
    """Three float32 numbers whose sum is this one.

    >>> sum(in_three(-1e30 / 3)) == -1e30 / 3
    True
    """
    high = float(np.float32(value))
    middle = float(np.float32(value - high))
    return high, middle, float(np.float32(value - high - middle))
