"""The C part (native.c), where it was built: its functions, called with arrays and tensors.

``LIBRARY`` is None where it was not built (see hatch_build.py) or where the environment variable
``EQRM_NATIVE`` is 0. Callers then do the same in numpy or torch.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[np.float64]

VERSION = 9
SHORT = 2_048
"""Up to so many risks make a row whose quantile is found in one call."""
WORTH_THREADS = 100_000
"""From this many kernels on the work is shared among as many threads as torch uses."""
TORCH_USES_THREADS = 32_768
"""Above so many elements torch shares an operation among its threads."""

_POINTER, _SIZE, _NUMBER = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double
_ARGUMENTS = {
    "eqrm_spread": (_POINTER, _SIZE, _NUMBER, _POINTER),
    "eqrm_sums": (_POINTER, _POINTER, _POINTER, _SIZE, *(3 * (_NUMBER,)), _POINTER),
    "eqrm_rough_sums": (_POINTER, _POINTER, _SIZE, *(3 * (_NUMBER,)), _POINTER),
    "eqrm_gradient": (_POINTER, _POINTER, _POINTER, _SIZE, *(7 * (_NUMBER,)), _POINTER),
    "eqrm_row_quantile": (_POINTER, _POINTER, _SIZE, *(9 * (_NUMBER,)), _POINTER, _POINTER),
}
"""Of the functions that there are for float64, and for float32 with ``_single`` in their names."""
_ARGUMENTS = {f"{name}{of}": types for name, types in _ARGUMENTS.items() for of in ("", "_single")}
_ARGUMENTS |= {
    "eqrm_centre": (_POINTER, _POINTER, _SIZE, _NUMBER, _POINTER, _POINTER),
    "eqrm_quantile": (_POINTER, _POINTER, _SIZE, *(6 * (_NUMBER,)), _POINTER, _POINTER),
    "eqrm_middle_pairs": (_POINTER, _POINTER, _SIZE, _POINTER, _POINTER),
}
_BEYOND = np.full(8, np.finfo(np.float64).max)
_Two, _Three, _Six, _Places = 2 * _NUMBER, 3 * _NUMBER, 6 * _NUMBER, 4 * _SIZE


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
            function.argtypes, function.restype = arguments, ctypes.c_int
    except (OSError, AttributeError):
        # Built elsewhere, for another platform or from another version: not ours to use.
        return None
    return library


LIBRARY: Any = _load()
"""None where there is none; the functions below are for where it is."""


def centre(risks: Tensor, weights: Array | None) -> tuple[float, float, Array, float]:
    """R_0, mean − R_0, risks − mean, and Σp_i(R_i − mean)², from contiguous float64 risks."""
    centred, found = np.empty(risks.numel()), _Three()
    pointer, shares, size, total = _row(centred, weights)
    LIBRARY.eqrm_centre(risks.data_ptr(), shares, size, total, pointer, found)
    pivot, offset, square = found
    return pivot, offset, centred, square / total


def middle_pairs(
    values: Array, weights: Array | None, given: Array | None = None
) -> list[tuple[int, int]]:
    """The pairs (i < j) at the lower and the upper median of the distances of ascending values.

    Pairs weigh p_i·p_j; None stands for equal weights. With ``given``, the same values in another
    order, i and j are places among those.
    """
    found, cumulative = _Places(), None
    padded = np.concatenate([values, _BEYOND])
    if weights is not None:
        before = np.concatenate([[0.0], weights.cumsum(), np.zeros(8)])
        cumulative = _pointer(before)
    given = None if given is None else np.ascontiguousarray(given)
    places = None if given is None else _pointer(given)
    LIBRARY.eqrm_middle_pairs(_pointer(padded), cumulative, values.size, places, found)
    return [(found[0], found[1]), (found[2], found[3])]


def quantile(
    centred: Array,
    weights: Array | None,
    bandwidth: float,
    coupling: float,
    log_tail: float,
    start: float,
    tolerance: float,
    gradient: Tensor | None,
) -> tuple[float, float] | None:
    """The root t and z̄ of :class:`~eqrm.distributions.kde.sums.Equation`, in the common case.

    w_i + coupling·z̄·p_i·x_i is written to ``gradient``; without one, z̄ is 0.
    """
    found = _Two()
    written = None if gradient is None else gradient.data_ptr()
    pointer, shares, size, total = _row(centred, weights)
    settings = bandwidth, coupling, log_tail, start, tolerance
    if LIBRARY.eqrm_quantile(pointer, shares, size, total, *settings, written, found):
        return found[0], found[1]
    return None


def row_quantile(
    risks: Tensor, weights: Array | None, *settings: float, gradient: Tensor | None
) -> tuple[float, float, bool] | None:
    """q, z̄ and whether h is fixed, for a contiguous row of at most ``SHORT`` risks.

    Risks are float64 or float32, and so is the gradient. ``settings`` are the two numbers of which
    the lesser, factor·σ̂ or fixed, is h; log tail, goal and sign of the equation; the least h/σ̂ at
    which normal risks are a good start; and the tolerance. None where the solve needs more care.
    """
    found, size = _Six(), risks.numel()
    if weights is None:
        shares, total, apart = None, float(size), 1.0 - 1.0 / size
    else:
        shares, total, apart = _pointer(weights), 1.0, 1.0 - float(weights.dot(weights))
    written = None if gradient is None else gradient.data_ptr()
    single = risks.dtype == torch.float32
    solve = LIBRARY.eqrm_row_quantile_single if single else LIBRARY.eqrm_row_quantile
    if solve(risks.data_ptr(), shares, size, total, apart, *settings, written, found):
        _, mean_z, beyond, pivot, offset, fixed = found
        return pivot + (offset + beyond), mean_z, fixed > 0.0
    return None


class Passes:
    """Passes over a contiguous row, float64 or float32, shared among threads where it is long.

    Everywhere z = shift + unit·(R_i − pivot). Weights are p_i > 0, summing to 1, or None for equal
    ones, which count 1 each. ``kernels`` is room for p_i·exp(−z²), in the dtype of the row, where
    the gradient is wanted.
    """

    def __init__(self, row: Tensor, weights: Array | None, kernels: Tensor | None) -> None:
        self.size, self._single = row.numel(), row.dtype == torch.float32
        self._total = float(self.size) if weights is None else 1.0
        self.row, self.kernels, self._kept = row, kernels, weights  # alive while pointed at
        width = row.element_size()
        self._row = row.data_ptr(), width
        self._weights = None if weights is None else (_pointer(weights), 8)
        self._kernels = None if kernels is None else (kernels.data_ptr(), width)

    def spread(self, pivot: float) -> tuple[float, float]:
        """mean − pivot and the mean of (R_i − mean)², for equal weights, a pivot near the mean."""
        total, square, *_ = self._each("eqrm_spread", (self._row,), pivot)
        offset = total / self.size
        return offset, square / self.size - offset * offset

    def sums(self, *place: float) -> list[float]:
        """Σ p erfc(z) and Σ p exp(−z²)zʲ for j = 0 … 4; ``place`` is pivot, shift and unit.

        The kernels are written where there is room for them.
        """
        arrays = self._row, self._weights, self._kernels
        return [value / self._total for value in self._each("eqrm_sums", arrays, *place)]

    def rough_sums(self, *place: float) -> list[float]:
        """The same in single precision, without the kernels."""
        arrays = self._row, self._weights
        return [value / self._total for value in self._each("eqrm_rough_sums", arrays, *place)]

    def ends(self, pivot: float, offset: float) -> tuple[float, float]:
        """The smallest and the largest R_i − pivot − offset."""
        smallest, largest = self.row.aminmax()
        return smallest.item() - pivot - offset, largest.item() - pivot - offset

    def write_gradient(self, *settings: float) -> None:
        """a·p·exp(−(z + by)²) + b·p·(R − pivot − offset) over the kernels, which ``sums`` wrote.

        ``settings`` are pivot, shift and unit of those, ``by``, which must be small, a, b, offset.
        """
        self._each("eqrm_gradient", (self._row, self._weights, self._kernels), *settings)

    def _each(
        self, name: str, arrays: tuple[tuple[int, int] | None, ...], *settings: float
    ) -> list[float]:
        """The sums that a function finds over the row, or over its parts, one for each thread."""
        function = getattr(LIBRARY, f"{name}_single" if self._single else name)

        def work(part: tuple[int, int]) -> list[float]:
            begin, length = part
            pointers = (None if each is None else each[0] + begin * each[1] for each in arrays)
            found = _Six()
            function(*pointers, length, *settings, found)
            return list(found)

        threads = torch.get_num_threads() if self.size >= WORTH_THREADS else 1
        if threads == 1:
            return work((0, self.size))
        first, *others = _parts(self.size, threads)
        waiting = [_pool(os.getpid(), threads - 1).submit(work, part) for part in others]
        found = [work(first), *(each.result() for each in waiting)]
        return [sum(column) for column in zip(*found, strict=True)]


def total(values: Tensor) -> float:
    """Σ of all values, which is not finite if one of them is not.

    Long rows are added up by the threads that then pass over them: those of torch would go on
    waiting for work, and keep the others from it.
    """
    long = values.numel() > TORCH_USES_THREADS and values.dtype in (torch.float32, torch.float64)
    if LIBRARY is None or not long or values.device.type != "cpu" or not values.is_contiguous():
        return float(values.sum())
    return Passes(values, None, None).spread(0.0)[0] * values.numel()


def _row(centred: Array, weights: Array | None) -> tuple[int, int | None, int, float]:
    """What the C functions take for a row: two pointers, its length and its total weight."""
    if weights is None:
        return _pointer(centred), None, centred.size, float(centred.size)
    return _pointer(centred), _pointer(weights), centred.size, 1.0


def _pointer(array: Array) -> int:
    return torch.from_numpy(array).data_ptr()  # in half the time of array.ctypes.data


def _parts(size: int, parts: int) -> list[tuple[int, int]]:
    """(begin, length) of what each thread does.

    >>> _parts(10, 3)
    [(0, 3), (3, 3), (6, 4)]
    """
    bounds = [size * part // parts for part in range(parts + 1)]
    return [(begin, end - begin) for begin, end in pairwise(bounds)]


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"eqrm-{process}")
