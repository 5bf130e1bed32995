"""Predictors by name, so that a config can choose one."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from eqrm.errors import SettingError, did_you_mean
from eqrm.predictors.base import Predictor


@dataclass(frozen=True)
class Entry:
    """A predictor's class, the settings its name stands for, and what its ``inputs`` counts.

    ``inputs`` is "values" (all numbers of one example), "channels" (its first dimension) or
    "graphs" (nothing to count).
    """

    module: str
    attribute: str
    inputs: str
    fixed: Mapping[str, Any] = field(default_factory=dict)


PREDICTORS: dict[str, Entry] = {
    "cnn": Entry("eqrm.predictors.cnn", "CNN", "channels"),
    "efficientnet-lite0": Entry(
        "eqrm.predictors.efficientnet", "EfficientNetLite", "channels", {"variant": "lite0"}
    ),
    "efficientnet-lite1": Entry(
        "eqrm.predictors.efficientnet", "EfficientNetLite", "channels", {"variant": "lite1"}
    ),
    "efficientnet-lite2": Entry(
        "eqrm.predictors.efficientnet", "EfficientNetLite", "channels", {"variant": "lite2"}
    ),
    "gin": Entry("eqrm.predictors.gin", "GIN", "graphs"),
    "linear": Entry("eqrm.predictors.linear", "LinearPredictor", "values"),
    "mlp": Entry("eqrm.predictors.mlp", "MLP", "values"),
    "resnet18": Entry("eqrm.predictors.resnet", "ResNet", "channels", {"depth": 18}),
    "resnet50": Entry("eqrm.predictors.resnet", "ResNet", "channels", {"depth": 50}),
}
"""Name → where it is. Modules load when a predictor of theirs is asked for."""


def predictor_settings(name: str) -> dict[str, Any]:
    """What can be set of a predictor, with the defaults.

    >>> predictor_settings("mlp")["width"]
    64
    """
    entry = _entry(name)
    parameters = inspect.signature(_class(entry)).parameters.values()
    given = {"inputs", "outputs", *entry.fixed}
    return {p.name: p.default for p in parameters if p.name not in given}


def predictor(
    name: str, inputs: int | Sequence[int] | None, outputs: int, **settings: Any
) -> Predictor:
    """A predictor by name.

    ``inputs`` is the shape of one example (without the batch dimension), or a number for a
    vector; graphs have none. ``outputs`` is the number of classes, labels or values. Settings
    are those of :func:`predictor_settings`, the loss among them.

    >>> predictor("mlp", inputs=(2, 14, 14), outputs=1, width=390, loss="binary-cross-entropy")
    MLP(
      (featurizer): Sequential(
        (0): Flatten(start_dim=1, end_dim=-1)
        (1): Linear(in_features=392, out_features=390, bias=True)
        ...
    >>> predictor("resnet5", inputs=(3, 224, 224), outputs=7)
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: There is no predictor 'resnet5'. Did you mean 'resnet50'? ...
    """
    entry = _entry(name)
    known = predictor_settings(name)
    for setting in settings:
        if setting not in known:
            raise SettingError(
                f"The predictor {name!r} has no setting {setting!r}. {did_you_mean(setting, known)}"
            )
    sizes = {} if entry.inputs == "graphs" else {"inputs": _input_size(name, entry, inputs)}
    made: Predictor = _class(entry)(**sizes, outputs=outputs, **entry.fixed, **settings)
    return made


def _entry(name: str) -> Entry:
    if str(name).lower() not in PREDICTORS:
        raise SettingError(f"There is no predictor {name!r}. {did_you_mean(name, PREDICTORS)}")
    return PREDICTORS[str(name).lower()]


def _class(entry: Entry) -> Any:
    return getattr(import_module(entry.module), entry.attribute)


def _input_size(name: str, entry: Entry, inputs: int | Sequence[int] | None) -> int:
    if inputs is None:
        raise SettingError(
            f"The predictor {name!r} takes tensors, but the data are graphs. Use 'gin'."
        )
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    if entry.inputs == "values":
        return math.prod(shape)
    if len(shape) != 3:
        raise SettingError(
            f"The predictor {name!r} takes images of shape (channels, height, width), but one "
            f"example has the shape {shape}. Use 'mlp' or 'linear'."
        )
    return shape[0]
