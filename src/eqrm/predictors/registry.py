"""Predictors by name, so that a config can choose one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eqrm.checks import FLAG, integer, number, optional
from eqrm.errors import SettingError
from eqrm.predictors.base import Predictor
from eqrm.registry import Place, Registry

LITE, RESNET = "eqrm.predictors.efficientnet:EfficientNetLite", "eqrm.predictors.resnet:ResNet"
PLACES: dict[str, Place] = {
    "cnn": "eqrm.predictors.small_networks:CNN",
    "efficientnet-lite0": (LITE, {"variant": "lite0"}),
    "efficientnet-lite1": (LITE, {"variant": "lite1"}),
    "efficientnet-lite2": (LITE, {"variant": "lite2"}),
    "gin": "eqrm.predictors.gin:GIN",
    "linear": "eqrm.predictors.small_networks:LinearPredictor",
    "mlp": "eqrm.predictors.small_networks:MLP",
    "resnet18": (RESNET, {"depth": 18}),
    "resnet50": (RESNET, {"depth": 50}),
}
RULES = {
    "width": integer(1, 1_000_000),
    "depth": integer(1, 1_000),
    "dropout": number(0, below=1),
    "bias": FLAG,
    "scale": FLAG,
    "frozen_batch_norm": optional(FLAG),
}
PREDICTORS = Registry[type[Predictor]]("predictor", PLACES, RULES)
"""Name → its class, and the settings that the name implies."""


def predictor_settings(name: str) -> dict[str, Any]:
    """What can be set of a predictor, with the defaults."""
    return PREDICTORS.settings(name, leave_out=("inputs", "outputs"))


def predictor(
    name: str, inputs: int | Sequence[int] | None, outputs: int, **settings: Any
) -> Predictor:
    """A predictor by name.

    ``inputs`` is the shape of one example (without the batch dimension), or a number for a vector;
    graphs have none. ``outputs`` is the number of classes, labels or values. Settings are those of
    :func:`predictor_settings`, the loss among them.

    >>> predictor("mlp", inputs=4, outputs=1, width=390, loss="squared").head
    Linear(in_features=390, out_features=1, bias=True)
    """
    kind = PREDICTORS.load(name).input_kind
    sizes = () if kind == "graphs" else (_input_size(name, kind, inputs),)
    made: Predictor = PREDICTORS.make(
        name, *sizes, outputs, given=settings, leave_out=("inputs", "outputs")
    )
    return made


def _input_size(name: str, kind: str, inputs: int | Sequence[int] | None) -> int:
    if inputs is None:
        raise SettingError(
            f"The predictor {name!r} takes tensors, but the data are graphs. Use 'gin'."
        )
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    if kind == "values":
        return math.prod(shape)
    if len(shape) != 3:
        raise SettingError(
            f"The predictor {name!r} takes images of shape (channels, height, width), but one "
            f"example has the shape {shape}. Use 'mlp' or 'linear'."
        )
    return shape[0]
