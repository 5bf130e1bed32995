"""Numbers in double precision as arguments of kernels, which take a Python float as a float32."""

from __future__ import annotations

import struct
from functools import lru_cache

import triton
import triton.language as tl


@triton.jit
def double(bits):  # type: ignore[no-untyped-def]
    """The float64 with these bits."""
    return bits.to(tl.int64).to(tl.float64, bitcast=True)


@lru_cache(maxsize=256)
def bits_of(value: float) -> int:
    """The bits of a float64, as an integer."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])
