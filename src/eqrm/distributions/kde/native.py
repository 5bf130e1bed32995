"""The C part (native.c), where it was built: its functions, called with arrays.

``LIBRARY`` is None where it was not built (see hatch_build.py) or where the environment variable
``EQRM_NATIVE`` is 0. Callers then do the same in numpy.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eqrm.execution import thread_count

Array = npt.NDArray[np.float64]
Row = npt.NDArray[Any]
"""Risks, float64 or float32, contiguous."""

VERSION = 11
SHORT = 2_048
"""Up to so many risks make a row whose quantile is found in one call."""
ROWS_BESIDE_BINS = 4
"""Of the table of bins, on each side."""
WORTH_THREADS = 100_000
"""From this many kernels on the work is shared among as many threads as may be used."""
TORCH_USES_THREADS = 32_768
"""Above so many elements torch shares an operation among its threads."""

_POINTER, _SIZE, _NUMBER = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double
_FLAG = ctypes.c_int
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "eqrm_spread": (_POINTER, _SIZE, _NUMBER, _POINTER),
    "eqrm_bins": (_POINTER, _SIZE, *(4 * (_NUMBER,)), _POINTER),
    "eqrm_gradient": (_POINTER, _POINTER, _POINTER, _SIZE, *(6 * (_NUMBER,)), _POINTER),
    "eqrm_row_quantile": (_POINTER, _POINTER, _SIZE, *(9 * (_NUMBER,)), _POINTER, _POINTER),
}
"""Of the functions that there are for float64, and for float32 with ``_single`` in their names."""
_ARGUMENTS = {f"{name}{of}": types for name, types in _ARGUMENTS.items() for of in ("", "_single")}
_ARGUMENTS |= {
    "eqrm_centre": (_POINTER, _POINTER, _SIZE, _NUMBER, _POINTER, _POINTER),
    "eqrm_sums": (_POINTER, _POINTER, _POINTER, _SIZE, *(2 * (_NUMBER,)), _POINTER),
    "eqrm_rough_sums": (_POINTER, _POINTER, _SIZE, *(2 * (_NUMBER,)), _POINTER),
    "eqrm_sums_of_bins": (_POINTER, _SIZE, _NUMBER, _NUMBER, _POINTER),
    "eqrm_quantile": (_POINTER, _POINTER, _SIZE, *(6 * (_NUMBER,)), _POINTER, _POINTER),
    "eqrm_spread_quantile": (_POINTER, _SIZE, _FLAG, *(7 * (_NUMBER,)), _POINTER, _POINTER),
    "eqrm_middle_pairs": (_POINTER, _POINTER, _SIZE, _POINTER, _POINTER),
}
_Callback, _PROCESS = ctypes.CFUNCTYPE(None, _POINTER), os.getpid()
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


def centre(risks: Row, weights: Array | None) -> tuple[float, float, Array, float]:
    """R_0, mean − R_0, risks − mean, and Σp_i(R_i − mean)², from contiguous float64 risks."""
    centred, found = np.empty(risks.size), _Three()
    pointer, shares, size, total = _row(centred, weights)
    LIBRARY.eqrm_centre(pointer_to(risks), shares, size, total, pointer, found)
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
        cumulative = pointer_to(before)
    given = None if given is None else np.ascontiguousarray(given)
    places = None if given is None else pointer_to(given)
    LIBRARY.eqrm_middle_pairs(pointer_to(padded), cumulative, values.size, places, found)
    return [(found[0], found[1]), (found[2], found[3])]


def quantile(
    centred: Array,
    weights: Array | None,
    bandwidth: float,
    coupling: float,
    log_tail: float,
    start: float,
    tolerance: float,
    gradient: Array | None,
) -> tuple[float, float] | None:
    """The root t and z̄ of :class:`~eqrm.distributions.kde.sums.Equation`, in the common case.

    w_i + coupling·z̄·p_i·x_i is written to ``gradient``; without one, z̄ is 0.
    """
    found = _Two()
    written = None if gradient is None else pointer_to(gradient)
    pointer, shares, size, total = _row(centred, weights)
    settings = bandwidth, coupling, log_tail, start, tolerance
    if LIBRARY.eqrm_quantile(pointer, shares, size, total, *settings, written, found):
        return found[0], found[1]
    return None


def row_quantile(
    risks: Row, weights: Array | None, *settings: float, gradient: Row | None
) -> tuple[float, float, bool] | None:
    """q, z̄ and whether h is fixed, for a contiguous row of at most ``SHORT`` risks.

    Risks are float64 or float32, and so is the gradient. ``settings`` are the two numbers of which
    the lesser, factor·σ̂ or fixed, is h; log tail, goal and sign of the equation; the least h/σ̂ at
    which normal risks are a good start; and the tolerance. None where the solve needs more care.
    """
    found, size = _Six(), risks.size
    if weights is None:
        shares, total, apart = None, float(size), 1.0 - 1.0 / size
    else:
        shares, total, apart = pointer_to(weights), 1.0, 1.0 - float(weights.dot(weights))
    written = None if gradient is None else pointer_to(gradient)
    single = risks.dtype == np.float32
    solve = LIBRARY.eqrm_row_quantile_single if single else LIBRARY.eqrm_row_quantile
    if solve(pointer_to(risks), shares, size, total, apart, *settings, written, found):
        _, mean_z, beyond, pivot, offset, fixed = found
        return pivot + (offset + beyond), mean_z, fixed > 0.0
    return None


def spread_quantile(
    risks: Row, quartiles: bool, *settings: float, gradient: Row | None
) -> tuple[float, float] | None:
    """q and z̄ of a contiguous float64 row of at most ``SHORT`` risks of equal weight.

    h is the lesser of factor·σ̂ and scale times the interquartile range, or else the median of all
    distances; these two numbers are the first of ``settings``, the others are those of
    :func:`row_quantile`. The gradient is complete.
    """
    found, size = _Six(), risks.size
    written = None if gradient is None else pointer_to(gradient)
    if LIBRARY.eqrm_spread_quantile(pointer_to(risks), size, quartiles, *settings, written, found):
        _, mean_z, beyond, pivot, offset, _ = found
        return pivot + (offset + beyond), mean_z
    return None


def in_threads(work: Callable[[int], None], parts: int) -> None:
    """Call ``work(0)``, ``work(1)``, … at the same time.

    In the threads of torch where they can be had: after its last operation they go on waiting for
    the next one, and would keep others from the processors. OpenMP must not be used after a fork.
    """
    forked = os.getpid() != _PROCESS or multiprocessing.parent_process() is not None
    openmp = None if forked else _openmp_of_torch()
    if openmp is None:
        _in_pool(work, parts)
        return
    done, raised = bytearray(parts), []

    def share(_: None) -> None:
        # OpenMP may give fewer threads than it was asked for.
        try:
            for part in range(openmp.omp_get_thread_num(), parts, openmp.omp_get_num_threads()):
                work(part)
                done[part] = True
        except BaseException as error:  # noqa: BLE001 - what leaves a callback is lost
            raised.append(error)

    openmp.GOMP_parallel(_Callback(share), None, parts, 0)
    if raised:
        raise raised[0]
    if not all(done):  # interrupted outside of the block above
        raise KeyboardInterrupt


def _in_pool(work: Callable[[int], None], parts: int) -> None:
    waiting = [_pool(os.getpid(), parts - 1).submit(work, part) for part in range(1, parts)]
    try:
        work(0)
    finally:  # also when interrupted: others still write to arrays that would be gone
        while any(not each.done() for each in waiting):
            wait(waiting)
    for each in waiting:
        each.result()


@cache
def _openmp_of_torch() -> Any:
    """The OpenMP library that torch has loaded; None where it cannot be found."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        loaded = {Path(line.split()[-1]) for line in maps.splitlines()}
        found = [path for path in loaded if path.name.startswith(("libgomp", "libiomp", "libomp"))]
        of_torch = [path for path in found if any("torch" in part for part in path.parts)] or found
        library = ctypes.CDLL(str(of_torch[0])) if len(of_torch) == 1 else None
        if library is not None:
            _ = library.GOMP_parallel, library.omp_get_thread_num, library.omp_get_num_threads
    except (OSError, AttributeError):
        return None
    return library


class Passes:
    """Passes over a contiguous row, float64 or float32, shared among threads where it is long.

    Weights are p_i > 0, summing to 1, or None for equal ones, which count 1 each.
    """

    def __init__(self, row: Row, weights: Array | None = None) -> None:
        self.row, self.size = row, row.size
        self._single = row.dtype == np.float32
        self._total = float(self.size) if weights is None else 1.0
        self._row = pointer_to(row), row.itemsize
        self._kept = weights  # alive while pointed at
        self._weights = None if weights is None else (pointer_to(weights), 8)

    def spread(self, pivot: float) -> tuple[float, float]:
        """mean − pivot and the mean of (R_i − mean)², for equal weights, a pivot near the mean."""
        total, square = self._each("eqrm_spread", (self._row,), pivot, results=2).tolist()
        offset = total / self.size
        return offset, square / self.size - offset * offset

    def bins(self, pivot: float, shift: float, unit: float, count: int) -> Array:
        """For equal weights, Σ dʲ for j = 0 … 7 of the risks in each bin; see ``sums_of_bins``.

        Bins have width 1 on the scale u = shift + unit·(R_i − pivot), on which they begin at 0,
        and d is the distance of u from the middle of its bin. The table has more rows than there
        are bins, for the risks on both sides of them.
        """
        rows = count + 2 * ROWS_BESIDE_BINS
        settings = pivot, shift, unit, float(count)
        table = self._each("eqrm_bins", (self._row,), *settings, results=8 * rows)
        return table.reshape(rows, 8)

    def sums(self, shift: float, unit: float, rough: bool) -> list[float]:
        """Σ p erfc(z) and Σ p exp(−z²)zʲ for j = 0 … 4, z = shift + unit·R_i, of a float64 row.

        ``rough`` ones are in single precision.
        """
        if rough:
            found = self._each("eqrm_rough_sums", (self._row, self._weights), shift, unit)
        else:
            found = self._each("eqrm_sums", (self._row, self._weights, None), shift, unit)
        return [value / self._total for value in found.tolist()]

    def ends(self, pivot: float, offset: float) -> tuple[float, float]:
        """The smallest and the largest R_i − pivot − offset."""
        return float(self.row.min()) - pivot - offset, float(self.row.max()) - pivot - offset

    def gradient(self, *settings: float) -> Row:
        """p·(a·exp(−z²) + b·(R − pivot − offset)) with z = shift + unit·(R_i − pivot).

        ``settings`` are pivot, shift, unit, a, b and offset; it is in the dtype of the row.
        """
        written = np.empty_like(self.row)
        arrays = self._row, self._weights, (pointer_to(written), written.itemsize)
        self._each("eqrm_gradient", arrays, *settings)
        return written

    def _each(
        self,
        name: str,
        arrays: tuple[tuple[int, int] | None, ...],
        *settings: float,
        results: int = 6,
    ) -> Array:
        """The sums that a function finds over the row, or over its parts, one for each thread."""
        function = getattr(LIBRARY, f"{name}_single" if self._single else name)
        threads = thread_count() if self.size >= WORTH_THREADS else 1
        found = np.zeros((threads, results))
        written = pointer_to(found)

        def work(part: int) -> None:
            begin, end = self.size * part // threads, self.size * (part + 1) // threads
            pointers = (None if each is None else each[0] + begin * each[1] for each in arrays)
            function(*pointers, end - begin, *settings, written + 8 * results * part)

        if threads == 1:
            work(0)
        else:
            in_threads(work, threads)
        summed: Array = found.sum(0)
        return summed


def sums_of_bins(table: Array, shift: float, unit: float) -> list[float]:
    """Σ erfc(z) and Σ exp(−z²)zʲ for j = 0 … 4, of risks in bins whose middles are at z = shift,
    shift + unit, …"""
    found = _Six()
    bins = len(table) - 2 * ROWS_BESIDE_BINS
    LIBRARY.eqrm_sums_of_bins(pointer_to(table), bins, shift, unit, found)
    return list(found)


def total(values: Row) -> float:
    """Σ of all values, which is not finite if one of them is not.

    Long rows are added up by the threads that then pass over them: those of torch would go on
    waiting for work, and keep the others from it.
    """
    single, size = values.dtype == np.float32, values.size
    known = single or values.dtype == np.float64
    if LIBRARY is None or not known or not values.flags.c_contiguous:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(values.sum())
    if size > TORCH_USES_THREADS:
        return Passes(values.reshape(-1)).spread(0.0)[0] * size
    found = _Two()
    add_up = LIBRARY.eqrm_spread_single if single else LIBRARY.eqrm_spread
    add_up(pointer_to(values), size, 0.0, found)
    return found[0]


def _row(centred: Array, weights: Array | None) -> tuple[int, int | None, int, float]:
    """What the C functions take for a row: two pointers, its length and its total weight."""
    if weights is None:
        return pointer_to(centred), None, centred.size, float(centred.size)
    return pointer_to(centred), pointer_to(weights), centred.size, 1.0


def pointer_to(array: Any) -> int:
    """Where an array of one element or more is in memory."""
    if array.flags.writeable:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # in half the time
    return int(array.ctypes.data)


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a forked one has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"eqrm-{process}")
