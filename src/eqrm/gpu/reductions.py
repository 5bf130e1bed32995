"""Sums of several blocks at once: programs wait for their warps once instead of several times."""

from __future__ import annotations

import triton
import triton.language as tl


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
