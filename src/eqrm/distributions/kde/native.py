"""The C part: the sums of one row in one pass each (native.c), where it was built.

``LIBRARY`` is None where it was not (see hatch_build.py) or where the environment variable
``EQRM_NATIVE`` is 0; then :class:`~eqrm.distributions.kde.sums.BulkSums` and
:class:`~eqrm.distributions.kde.long_rows.LongBulkSums` do the same in numpy and torch.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from eqrm.distributions.kde.long_rows import LONG
from eqrm.distributions.kde.sums import (
    FEW_CENTRES,
    Array,
    BulkSums,
    Equation,
    KernelSums,
    Tail,
    derivatives,
    extrapolated,
    is_close,
    quantile_of_some,
)
from eqrm.distributions.normal_tails import SQRT_2
from eqrm.level import Level

VERSION = 5
WORTH_THREADS = 200_000
"""From this many kernels on the work is shared among as many threads as torch uses."""

NORMAL_ENOUGH = 1.0
"""Φ⁻¹(α) beyond which the quantile of normal risks is a poor start."""

_POINTER, _SIZE, _NUMBER = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_double
_ARGUMENTS = {
    "eqrm_centre": (_POINTER, _POINTER, _SIZE, _NUMBER, _POINTER, _POINTER),
    "eqrm_sums": (_POINTER, _POINTER, _SIZE, _NUMBER, _NUMBER, _POINTER),
    "eqrm_rough_sums": (_POINTER, _POINTER, _SIZE, _NUMBER, _NUMBER, _POINTER),
    "eqrm_gradient": (_POINTER, _POINTER, _SIZE, *(4 * (_NUMBER,)), _POINTER),
    "eqrm_quantile": (_POINTER, _POINTER, _SIZE, *(6 * (_NUMBER,)), *(4 * (_POINTER,))),
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
            function.argtypes, function.restype = arguments, ctypes.c_int
    except (OSError, AttributeError):
        # Built elsewhere, for another platform or from another version: not ours to use.
        return None
    return library


LIBRARY = _load()


def centre(
    library: ctypes.CDLL, risks: Tensor, weights: Array | None
) -> tuple[float, float, Array, float]:
    """R_0, mean − R_0, risks − mean, and Σp_i(R_i − mean)², from contiguous float64 risks."""
    centred, found = torch.empty_like(risks), _Three()
    size = risks.numel()
    total, shares = (float(size), None) if weights is None else (1.0, weights.ctypes.data)
    library.eqrm_centre(risks.data_ptr(), shares, size, total, centred.data_ptr(), found)
    pivot, offset, square = found
    return pivot, offset, centred.numpy(), square / total


def quantile(
    library: ctypes.CDLL,
    risks: Tensor,
    weights: Tensor | None,
    factor: float,
    concentration: float,
    level: Level,
    gradient: Tensor | None,
) -> float | None:
    """The quantile of contiguous float64 risks, in the common case; None in others.

    ``factor`` is h/σ̂. The weights are positive; ``gradient`` is written to.
    """
    log_tail, goal, guess = level.log_tail, level.z, None
    if abs(goal) > NORMAL_ENOUGH and risks.numel() >= FEW_CENTRES:
        shape = None if weights is None else weights.numpy()
        guess = quantile_of_some(risks.numpy(), shape, level.alpha)
    if goal < 0.0:
        factor, log_tail, goal = -factor, level.log_alpha, -goal
    size, found, scratch = risks.numel(), _Three(), torch.empty_like(risks)
    total, shares = (float(size), None) if weights is None else (1.0, weights.data_ptr())
    if library.eqrm_quantile(
        risks.data_ptr(),
        shares,
        size,
        total,
        1.0 - concentration,
        factor,
        log_tail,
        goal,
        KernelSums.tolerance,
        None if guess is None else ctypes.byref(_NUMBER(guess)),
        scratch.data_ptr(),
        None if gradient is None else gradient.data_ptr(),
        found,
    ):
        pivot, offset, beyond = found
        return float(pivot + (offset + beyond))
    return None


_Three, _Six = 3 * _NUMBER, 6 * _NUMBER


class NativeBulkSums(KernelSums):
    """Quantiles among the risks or not far beyond them, by the C part."""

    def __init__(self, library: ctypes.CDLL, equation: Equation, rough: bool = False) -> None:
        self.library, self.equation, self.rough = library, equation, rough
        self.latest = math.nan, Tail(math.nan, math.nan, 0.0, 0.0, 0.0, 0.0), math.nan
        self.in_two = equation.centred.size > LONG and not rough
        if rough:
            self.tolerance = 0.8
        self.start = math.nan if self.in_two else equation.near_root()
        self.size = size = equation.centred.size
        self.unit = -1.0 / (equation.bandwidth * SQRT_2)
        self.centred = equation.centred.ctypes.data
        weights = equation.weights
        self.weights, self.total = (None, float(size))
        if weights is not None:
            self.weights, self.total = weights.ctypes.data, 1.0
        threads = 1 if size < WORTH_THREADS else torch.get_num_threads()
        self.parts = _parts(size, threads) if threads > 1 else None

    def bracket(self) -> tuple[float, float]:
        centred, bandwidth = self.equation.centred, self.equation.bandwidth
        ends = float(centred.min()) / bandwidth, float(centred.max()) / bandwidth
        return min(ends) + self.equation.goal, max(ends) + self.equation.goal

    def rougher(self) -> KernelSums | None:
        if not self.in_two:
            return None
        return NativeBulkSums(self.library, self.equation, rough=True)

    def _over(self, function: Callable[..., None], *settings: float) -> list[float]:
        """The sums that ``function`` finds, over all parts."""
        if self.parts is None:
            found = _Six()
            function(self.centred, self.weights, self.size, *settings, found)
            return list(found)

        def work(part: tuple[int, int]) -> list[float]:
            begin, length = part
            weights = None if self.weights is None else self.weights + 8 * begin
            found = _Six()
            function(self.centred + 8 * begin, weights, length, *settings, found)
            return list(found)

        pool = _pool(os.getpid(), len(self.parts))
        return [sum(column) for column in zip(*pool.map(work, self.parts), strict=True)]

    def at(self, t: float) -> Tail:
        sums = self.library.eqrm_rough_sums if self.rough else self.library.eqrm_sums
        found = self._over(sums, t / SQRT_2, self.unit)
        sf, density, *moments = (value / self.total for value in found)
        tail = derivatives(0.5 * sf, density, *moments)
        self.latest = t, tail, density
        return tail

    def gradient(self, t: float, coupling: float) -> Tensor:
        if not is_close(t, *self.latest[:2]):
            self.at(t)
        density, mean_z = extrapolated(t, *self.latest)
        if not density > 1e-250:  # the middle of a wide gap
            return BulkSums(self.equation).gradient(t, coupling)
        shares = 1.0 / self.total
        pull = coupling * mean_z * shares
        self._over(self.library.eqrm_gradient, t / SQRT_2, self.unit, shares / density, pull)
        return torch.from_numpy(self.equation.centred)


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
