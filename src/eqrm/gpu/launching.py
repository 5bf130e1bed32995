"""Kernels launched again without Triton's look at every argument, which takes the host longest.

A float64 is given to them by its bits: of a Python float Triton makes a float32.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

_LARGEST = 1 << 31


class Launcher:
    """Launches a kernel that takes tensors, then integers, then constants.

    The first time Triton compiles it for the tensors' dtypes and alignment, for the width of the
    integers (all of which must be among its ``do_not_specialize``) and for the constants. Later the
    compiled kernel is launched with the tensors' addresses.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._compiled: dict[tuple[Any, ...], Any] = {}

    def __call__(
        self,
        programs: int,
        tensors: tuple[Tensor, ...],
        integers: tuple[int, ...],
        constants: tuple[Any, ...],
        warps: int = 4,
        **options: bool,
    ) -> None:
        places = [tensor.data_ptr() for tensor in tensors]
        key = (
            tensors[0].device,
            constants,
            warps,
            tuple([tensor.dtype for tensor in tensors]),
            tuple([place % 16 == 0 for place in places]),
            tuple([-_LARGEST <= number < _LARGEST for number in integers]),
        )
        compiled = self._compiled.get(key)
        if compiled is None:  # as it always is in Triton's interpreter
            self._compiled[key] = self._kernel[(programs,)](
                *tensors, *integers, *constants, num_warps=warps, **options
            )
        else:
            compiled[(programs, 1, 1)](*places, *integers, *constants)


@triton.jit
def double(bits):  # type: ignore[no-untyped-def]
    """The float64 with these bits."""
    return bits.to(tl.int64).to(tl.float64, bitcast=True)


@lru_cache(maxsize=256)
def bits_of(value: float) -> int:
    """The bits of a float64, as an integer."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])
