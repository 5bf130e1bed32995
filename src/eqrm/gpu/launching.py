"""Kernels launched again without Triton's look at every argument, which takes the host longest.

A float64 is given to them by its bits: of a Python float Triton makes a float32. Inside of them,
several blocks are summed at once: programs wait for their warps once instead of several times.
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


@triton.jit
def _add_two(a, b, c, d):  # type: ignore[no-untyped-def]
    return a + c, b + d


@triton.jit
def sum_of_two(a, b):  # type: ignore[no-untyped-def]
    """The sums of two blocks."""
    return tl.reduce((a, b), 0, _add_two)


@triton.jit
def _add_three(a, b, c, d, e, f):  # type: ignore[no-untyped-def]
    return a + d, b + e, c + f


@triton.jit
def sum_of_three(a, b, c):  # type: ignore[no-untyped-def]
    """The sums of three blocks."""
    return tl.reduce((a, b, c), 0, _add_three)


@triton.jit
def _add_four(a, b, c, d, e, f, g, h):  # type: ignore[no-untyped-def]
    return a + e, b + f, c + g, d + h


@triton.jit
def sum_of_four(a, b, c, d):  # type: ignore[no-untyped-def]
    """The sums of four blocks."""
    return tl.reduce((a, b, c, d), 0, _add_four)


@triton.jit
def _add_and_compare(a, b, c, d, e, f):  # type: ignore[no-untyped-def]
    return a + d, tl.maximum(b, e), tl.maximum(c, f)


@triton.jit
def sum_and_extremes(a, b, c):  # type: ignore[no-untyped-def]
    """The sum of the first block, the largest of the second and of the third."""
    return tl.reduce((a, b, c), 0, _add_and_compare)
