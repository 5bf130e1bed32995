"""Small networks as arrays, which predict without torch; network_training trains them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from eqrm.linear.solving.risk_functions import Array

STEPS_TOLD: ContextVar[Callable[[int, int], None] | None] = ContextVar("steps", default=None)
"""Called with the steps taken and all steps of a fit, now and then."""


def check_shape(name: str, array: Array, shape: tuple[int, ...]) -> None:
    """Raise ``ValueError`` unless an array of a model file has this shape and finite floats."""
    if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError(f"its {name!r} has the shape {array.shape}, and needs {shape}")


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network as arrays: weights (out, in) and biases (out,), with ReLU in between.

    Features are standardised by ``centre`` and ``spread`` (d,); outputs are multiplied by
    ``scale`` and moved by ``offset``, which are 1 and 0 for logits.
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    centre: Array
    spread: Array
    offset: float = 0.0
    scale: float = 1.0

    def __call__(self, X: Array) -> Array:
        """Outputs (n, C) of features (n, d)."""
        values = (X - self.centre) / self.spread
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = values @ weight.T + bias
            if place + 1 < len(self.weights):
                values = np.maximum(values, 0.0)
        return values if (self.offset, self.scale) == (0, 1) else self.offset + self.scale * values

    def check_shapes(self, features: int, outputs: int) -> None:
        """Raise ``ValueError`` unless the layers fit together, and to this many columns."""
        widths = [features, *(len(weight) for weight in self.weights)]
        layers = zip(self.weights, self.biases, pairwise(widths), strict=True)
        for weight, bias, (before, after) in layers:
            check_shape("weights", weight, (after, before))
            check_shape("biases", bias, (after,))
        check_shape("centre", self.centre, (features,))
        check_shape("spread", self.spread, (features,))
        if widths[-1] != outputs or not (self.spread > 0.0).all():
            raise ValueError(f"it has {widths[-1]} outputs, and needs {outputs}")
        if not np.isfinite([self.offset, self.scale]).all():
            raise ValueError("its target is not finite")
