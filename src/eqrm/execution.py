"""How tensors are being worked on: whether values may be looked at, and whether kernels exist."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def being_transformed() -> bool:
    """Whether ``torch.compile`` or a transform of ``torch.func`` is active.

    Values cannot be inspected then, and only differentiable operations are allowed.

    >>> being_transformed()
    False
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def can_look(values: Tensor) -> bool:
    """Whether a look at values costs nothing: on the CPU, and not while compiling.

    >>> can_look(torch.zeros(3))
    True
    """
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def has_kernels(values: Tensor) -> bool:
    """Whether the package's own kernels (Triton, on a GPU) can work on these values.

    >>> has_kernels(torch.zeros(3))
    False
    """
    return values.device.type == "cuda" and _triton_is_there()


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None
