"""What ``x`` of a dataset may be: a tensor, or inputs whose rows are made when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from eqrm.errors import DomainDataError


@runtime_checkable
class Inputs(Protocol):
    """What ``x`` may be besides a tensor: images that are read lazily, a batch of graphs, …

    ``x[rows]`` takes a 1-d tensor of row numbers and returns inputs for a predictor. An optional
    ``to(device)`` moves what can be moved once.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor, /) -> Any: ...


@dataclass(frozen=True, eq=False)
class InputsAt:
    """Some rows of inputs that are not a tensor, without copying them."""

    inputs: Any
    positions: Tensor

    @staticmethod
    def of(inputs: Any, rows: Tensor) -> InputsAt:
        """The rows of ``inputs``, which may be a part of others already."""
        if isinstance(inputs, InputsAt):
            return InputsAt(inputs.inputs, inputs.positions[rows])
        return InputsAt(inputs, rows)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, rows: Tensor) -> Any:
        return self.inputs[self.positions[rows.cpu()]]

    def to(self, device: torch.device | str) -> InputsAt:
        """Move the inputs if they can be moved."""
        if not hasattr(self.inputs, "to"):
            return self
        return InputsAt(self.inputs.to(device), self.positions)


def is_lazy(x: Any) -> bool:
    """Whether rows of x are made when they are asked for.

    >>> is_lazy([1.0, 2.0]), is_lazy(range(3))
    (False, True)
    """
    plain = (Tensor, np.ndarray, list, tuple)
    return not isinstance(x, plain) and not hasattr(x, "__array__") and isinstance(x, Inputs)


def tensor_from(values: Any, what: str) -> Tensor:
    """Numbers as a tensor; float64 becomes float32, as networks compute.

    >>> tensor_from([[1.0, 2.0]], "x")
    tensor([[1., 2.]])
    """
    try:
        if isinstance(values, Tensor):
            tensor = values
        else:
            array = np.asarray(values)
            # torch would share the memory, and warns of arrays that must not be written to.
            tensor = torch.as_tensor(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError):
        raise DomainDataError(
            f"{what} must hold numbers in rows of equal length, got a {type(values).__name__} that "
            "does not."
        ) from None
    return tensor.float() if tensor.dtype == torch.float64 else tensor
