"""The C part: the sums of one row in one pass each (native.c), where it was built.

``LIBRARY`` is None where it was not (see hatch_build.py) or where the environment variable
``EQRM_NATIVE`` is 0; then :class:`~eqrm.distributions.kernel_sums.BulkSums` and
:class:`~eqrm.distributions.long_rows.LongBulkSums` do the same in numpy and torch.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import torch

from eqrm.distributions.kernel_sums import (
    Array,
    BulkSums,
    Equation,
    KernelSums,
    Tail,
    derivatives,
)
from eqrm.distributions.normal_tails import SQRT_2

VERSION = 1
WORTH_THREADS = 200_000
"""From this many kernels on the work is shared among as many threads as torch uses."""

_POINTER, _SIZE, _NUMBER = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double
_ARGUMENTS = {
    "eqrm_centre": (_POINTER, _POINTER, _SIZE, _NUMBER, _NUMBER, _POINTER, _POINTER),
    "eqrm_sums": (_POINTER, _POINTER, _SIZE, _NUMBER, _NUMBER, _POINTER),
    "eqrm_kernels": (_POINTER, _POINTER, _SIZE, _NUMBER, _NUMBER, _POINTER, _POINTER),
    "eqrm_combine": (_POINTER, _POINTER, _SIZE, _NUMBER, _NUMBER, _POINTER),
}


def _load() -> ctypes.CDLL | None:
    path = Path(__file__).with_name("libeqrm.so")
    if os.environ.get("EQRM_NATIVE") == "0" or not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
        if library.eqrm_version() != VERSION:
            return None
        for name, arguments in _ARGUMENTS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, None
    except (OSError, AttributeError):
        # Built elsewhere, for another platform or from another version: not ours to use.
        return None
    return library


LIBRARY = _load()


def centre(
    library: ctypes.CDLL, values: Array, weights: Array | None, pivot: float
) -> tuple[Array, float, float]:
    """risks − mean, mean − pivot, and Σp_i(R_i − mean)², from contiguous float64 risks."""
    centred = np.empty_like(values)
    found = np.empty(2)
    size = values.size
    total, shares = (float(size), None) if weights is None else (1.0, weights.ctypes.data)
    target, sums = centred.ctypes.data, found.ctypes.data
    library.eqrm_centre(values.ctypes.data, shares, size, pivot, total, target, sums)
    offset, square = found.tolist()
    return centred, offset, square / total


class NativeBulkSums(KernelSums):
    """Quantiles among the risks or not far beyond them, by the C part."""

    def __init__(self, library: ctypes.CDLL, equation: Equation) -> None:
        self.library, self.equation = library, equation
        self.start = equation.near_root()
        self.size = equation.centred.size
        self.unit = -1.0 / (equation.bandwidth * SQRT_2)
        self.centred = equation.centred.ctypes.data
        weights = equation.weights
        self.weights = None if weights is None else weights.ctypes.data
        self.total = self.size if weights is None else 1.0
        self.parts = _parts(self.size)
        self.found = np.empty((len(self.parts), 6))
        self.results = self.found.ctypes.data

    def bracket(self) -> tuple[float, float]:
        centred, bandwidth = self.equation.centred, self.equation.bandwidth
        ends = float(centred.min()) / bandwidth, float(centred.max()) / bandwidth
        return min(ends) + self.equation.goal, max(ends) + self.equation.goal

    def _place(self, part: tuple[int, int]) -> tuple[int, int | None, int]:
        """Where a part of the kernels begins in memory, its weights, and its length."""
        begin, length = part
        weights = None if self.weights is None else self.weights + 8 * begin
        return self.centred + 8 * begin, weights, length

    def at(self, t: float) -> Tail:
        shift = t / SQRT_2
        if len(self.parts) == 1:
            self.library.eqrm_sums(
                self.centred, self.weights, self.size, shift, self.unit, self.results
            )
            sums = self.found[0].tolist()
        else:

            def work(index: int) -> None:
                place = self._place(self.parts[index])
                self.library.eqrm_sums(*place, shift, self.unit, self.results + 48 * index)

            _share(work, len(self.parts))
            sums = self.found.sum(0).tolist()
        sf, *moments = [value / self.total for value in sums]
        return derivatives(0.5 * sf, *moments)

    def gradient(self, t: float, coupling: float) -> Array:
        shift, gradient = t / SQRT_2, np.empty(self.size)
        target = gradient.ctypes.data
        self.found[:] = 0.0

        def kernels(index: int) -> None:
            place, own = self._place(self.parts[index]), target + 8 * self.parts[index][0]
            results = self.results + 48 * index
            self.library.eqrm_kernels(*place, shift, self.unit, own, results)

        _share(kernels, len(self.parts))
        density, first, *_ = self.found.sum(0).tolist()
        if not density > 1e-250:  # the middle of a wide gap
            return BulkSums(self.equation).gradient(t, coupling)
        pull = coupling * SQRT_2 * first / density / self.total

        def combine(index: int) -> None:
            place, own = self._place(self.parts[index]), target + 8 * self.parts[index][0]
            self.library.eqrm_combine(*place, 1.0 / density, pull, own)

        _share(combine, len(self.parts))
        return gradient


def _parts(size: int) -> list[tuple[int, int]]:
    """(begin, length) of what each thread does.

    >>> _parts(1000)
    [(0, 1000)]
    """
    threads = torch.get_num_threads() if size >= WORTH_THREADS else 1
    bounds = [size * part // threads for part in range(threads + 1)]
    return [(begin, end - begin) for begin, end in zip(bounds, bounds[1:], strict=False)]


def _share(work: Callable[[int], None], parts: int) -> None:
    """Call ``work`` for each part, in threads when there are several (C code frees the lock)."""
    if parts == 1:
        work(0)
        return
    others = [_pool(os.getpid(), parts).submit(work, part) for part in range(1, parts)]
    work(0)
    for other in others:
        other.result()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"eqrm-{process}")
