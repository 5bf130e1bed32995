"""Nested state as named tensors and plain JSON, and back.

States of networks, optimizers, samplers and random generators are dicts and lists with tensors
in them. Tensors go into a safetensors file under their path; what remains is JSON. Neither can
hold code, so nothing that is read back can run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.errors import CheckpointError

_TENSOR, _ARRAY, _TUPLE, _LIST, _PAIRS = "tensor", "array", "tuple", "list", "pairs"


def flatten(state: Any, path: str = "state") -> tuple[Any, dict[str, Tensor]]:
    """JSON that describes the state, and its tensors by path.

    Every container becomes a list whose first element says what it is, so that no content can
    be mistaken for a description.

    >>> plain, tensors = flatten({"step": 3, "momentum": {0: torch.zeros(2)}})
    >>> list(tensors)
    ['state/momentum/0']
    >>> unflatten(plain, tensors)
    {'step': 3, 'momentum': {0: tensor([0., 0.])}}
    """
    tensors: dict[str, Tensor] = {}
    return _described(state, path, tensors), tensors


def _described(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().clone().contiguous()
        return [_TENSOR, path]
    if isinstance(value, np.ndarray):
        # Not every torch knows unsigned integers; those of generators fit into int64.
        known = value.astype(np.int64) if value.dtype.kind in "iu" else value.copy()
        return [_ARRAY, [str(value.dtype), _described(torch.from_numpy(known), path, tensors)]]
    if isinstance(value, Mapping):
        pairs = [[key, _described(v, f"{path}/{key}", tensors)] for key, v in value.items()]
        return [_PAIRS, pairs]
    if isinstance(value, (list, tuple)):
        kind = _TUPLE if isinstance(value, tuple) else _LIST
        return [kind, [_described(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]]
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{path} is a {type(value).__name__}, which a checkpoint cannot hold")


def unflatten(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The state that :func:`flatten` described."""
    if not isinstance(plain, list):
        return plain
    try:
        kind, content = plain
        if kind == _TENSOR:
            return tensors[content]
        if kind == _ARRAY:
            dtype, described = content
            return unflatten(described, tensors).numpy().astype(np.dtype(str(dtype)))
        if kind == _PAIRS:
            return {key: unflatten(value, tensors) for key, value in content}
        if kind in (_TUPLE, _LIST):
            parts = [unflatten(value, tensors) for value in content]
            return tuple(parts) if kind == _TUPLE else parts
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise CheckpointError(f"It holds a description that cannot be read: {str(plain)[:80]}.")
