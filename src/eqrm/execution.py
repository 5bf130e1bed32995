"""Arrays and tensors: which of the two, and what may be done with them.

Nothing here imports torch: whoever has a tensor has imported it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from eqrm.errors import naming_torch

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def is_tensor(values: object) -> TypeGuard[Tensor]:
    """Whether it is a tensor of torch; arrays, and all else, are worked on in numpy."""
    return hasattr(values, "detach")


def namespace(values: object) -> Any:
    """The module whose functions take these values: torch, or numpy."""
    if not is_tensor(values):
        return np
    import torch

    return torch


def torch_for(purpose: str) -> Any:
    """torch, or an error that says what needs it."""
    with naming_torch(purpose):
        return import_module("torch")


def thread_count() -> int:
    """How many threads may share an operation: as torch is set, where it is loaded."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else processors()


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def being_transformed() -> bool:
    """Whether ``torch.compile`` or ``torch.func`` is active: values cannot be inspected then."""
    import torch

    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def can_read(values: Tensor) -> bool:
    """Whether numpy may work on them: in memory of the host, and not in a transform."""
    return values.device.type == "cpu" and not being_transformed()


def can_look(values: Tensor) -> bool:
    """Whether a look at values costs nothing: on the CPU, and not while compiling."""
    import torch

    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def can_fetch(values: Tensor) -> bool:
    """Whether numbers may be :class:`Fetched`: not in transforms, nor into a CUDA graph."""
    import torch

    kind = values.device.type
    outside = kind == "cuda" and not torch.cuda.is_current_stream_capturing()
    return not being_transformed() and (kind == "cpu" or outside)


def has_kernels(values: Tensor) -> bool:
    """Whether the package's own kernels (Triton, on a GPU) can work on these values."""
    return values.device.type == "cuda" and _triton_is_there()


class Fetched:
    """Numbers of tensors of one shape, fetched without waiting for a GPU: they may come later."""

    def __init__(self) -> None:
        self._numbers: Tensor | None = None
        self._pinned: Tensor | None = None
        self._arrival: torch.cuda.Event | None = None

    def send(self, numbers: Tensor) -> None:
        """Fetch these numbers; nothing else may be on its way."""
        if numbers.device.type == "cpu":
            self._numbers = numbers
            return
        import torch

        if self._pinned is None or self._arrival is None:
            self._pinned = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._arrival = torch.cuda.Event()
        self._numbers = self._pinned.copy_(numbers, non_blocking=True)
        self._arrival.record()

    @property
    def waiting(self) -> bool:
        """Whether numbers are on their way."""
        return self._arrival is not None and not self._arrival.query()

    def take(self) -> list[float] | None:
        """What has arrived, once; None before that."""
        if self._numbers is None or self.waiting:
            return None
        found: list[float] = self._numbers.tolist()
        self._numbers = None
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles leave out what belongs to a device."""
        return vars(Fetched())


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None
