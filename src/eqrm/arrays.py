"""What numpy and torch call by different names, for formulas that serve arrays and tensors alike.

The rest is called through :func:`eqrm.execution.namespace`; torch knows ``axis`` and ``keepdims``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special as of_arrays

from eqrm.errors import DomainDataError
from eqrm.execution import is_tensor

Values = Any
"""An array or a tensor; what is made of it is of the same kind."""


def special(values: Values) -> Any:
    """The module of special functions: ``torch.special`` or ``scipy.special``."""
    if not is_tensor(values):
        return of_arrays
    import torch

    return torch.special


def log(values: Values) -> Values:
    """log, −∞ at 0."""
    if is_tensor(values):
        return values.log()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(values)


def exp(values: Values) -> Values:
    """exp, infinite where that is too large."""
    if is_tensor(values):
        return values.exp()
    with np.errstate(over="ignore"):
        return np.exp(values)


def detached(values: Values) -> Values:
    """The values without their graph."""
    return values.detach() if is_tensor(values) else values


def as_array(values: Values) -> Any:
    """The values as an array, in the memory of the host."""
    refuse_masked(values)
    return values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)


def refuse_masked(values: Any) -> None:
    """Raise for an array that hides values, which would come to light."""
    if not is_tensor(values) and np.ma.is_masked(values):
        raise DomainDataError(
            "An array hides values behind a mask. Fill them, as by values.filled(numpy.nan), or "
            "leave their rows out."
        )


def in_type(values: Values, dtype: Any) -> Values:
    """The values in a dtype of their kind."""
    if is_tensor(values):
        return values.to(dtype)
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(dtype, copy=False)


def taken(values: Values, places: Values) -> Values:
    """The values at these places of each row."""
    if is_tensor(values):
        return values.gather(-1, places)
    return np.take_along_axis(values, places, -1)


def replaced(values: Values, places: Values, new: Values) -> Values:
    """The same with one value of each row replaced."""
    if is_tensor(values):
        return values.scatter(-1, places, new)
    result = values.copy()
    np.put_along_axis(result, places, new, -1)
    return result


def sums_of_groups(values: Values, groups: Values) -> Values:
    """Of each value the sum of its group; rows of groups begin at 0 and rise by steps of 1."""
    if is_tensor(values):
        return values.new_zeros(values.shape).scatter_add(-1, groups, values).gather(-1, groups)
    size = values.shape[-1]
    rows = np.arange(values.size // size).repeat(size) * size + groups.ravel()
    return np.bincount(rows, values.ravel())[rows].reshape(values.shape)


def ranks(values: Values) -> Values:
    """0 … m−1 in float64, for rows of m values."""
    if not is_tensor(values):
        return np.arange(values.shape[-1], dtype=np.float64)
    import torch

    # In float64, because torch 2.11 cannot compile the smallest of these integers on a GPU.
    return torch.arange(values.shape[-1], dtype=torch.float64, device=values.device)


def pairs(values: Values) -> tuple[Values, Values]:
    """The places i < j of all pairs in a row."""
    m = values.shape[-1]
    if not is_tensor(values):
        return np.triu_indices(m, 1)
    import torch

    first, second = torch.triu_indices(m, m, offset=1, device=values.device)
    return first, second


def first_place(condition: Values) -> tuple[int, ...]:
    """Where the first True is."""
    return tuple(np.argwhere(as_array(condition))[0].tolist())
