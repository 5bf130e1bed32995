"""The state of an estimator as plain data: what JSON can say, and arrays of numbers.

An estimator that :func:`eqrm.save_model` can write derives from :class:`Savable` and is listed in
:data:`REGISTRY`. Its constructor's parameters and what all estimators know after ``fit`` are taken
care of here; ``_own_state`` and ``_restore_own`` add what only it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import SettingError
from eqrm.level import Level

Content = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

REGISTRY = {
    "QRMClassifier": "eqrm.estimators.classifier",
    "QRMRegressor": "eqrm.estimators.regressor",
    "XGBQRMClassifier": "eqrm.estimators.boosting.xgboost_estimators",
    "XGBQRMRegressor": "eqrm.estimators.boosting.xgboost_estimators",
    "LGBMQRMClassifier": "eqrm.estimators.boosting.lightgbm_estimators",
    "LGBMQRMRegressor": "eqrm.estimators.boosting.lightgbm_estimators",
}
"""Name of a class in a file → the module that it is imported from; nothing else is."""

COMMON = ("n_features_in_", "quantile_risk_", "converged_", "n_iter_")
"""Numbers that an estimator may have after ``fit``."""
COMMON_ARRAYS = ("domain_risks_", "domain_counts_")


class Savable:
    """An estimator whose state is plain data."""

    def _own_state(self) -> tuple[Content, Arrays]:
        """What this class has besides the common attributes."""
        raise NotImplementedError

    def _restore_own(self, content: Content, arrays: Arrays) -> None:
        """The reverse of :meth:`_own_state`, on an estimator that is not fitted."""
        raise NotImplementedError

    def saved_state(self) -> tuple[Content, Arrays]:
        """Parameters, what is known after ``fit``, and what only this class has."""
        own, own_arrays = self._own_state()
        content: Content = {
            "params": {name: plain(value, name) for name, value in _params(self).items()},
            "common": {
                name: plain(getattr(self, name), name) for name in COMMON if hasattr(self, name)
            },
            "domains": list(getattr(self, "domains_", ())),
            "level": plain(getattr(self, "level_", None), "level_"),
            "own": own,
        }
        for name in ("classes_", "feature_names_in_"):
            if hasattr(self, name):
                content[name] = labels_as_json(getattr(self, name))
        arrays = {name: np.asarray(getattr(self, name)) for name in COMMON_ARRAYS}
        return content, {**arrays, **{f"own.{name}": a for name, a in own_arrays.items()}}


def restored(name: str, content: Mapping[str, Any], arrays: Arrays) -> Any:
    """A fitted estimator from its state; the class is looked up in :data:`REGISTRY`."""
    estimator = class_of(name)(**{k: from_plain(v) for k, v in content["params"].items()})
    for attribute, value in content["common"].items():
        if attribute not in COMMON:
            raise ValueError(f"there is no attribute {attribute!r}")
        setattr(estimator, attribute, from_plain(value))
    for attribute in ("classes_", "feature_names_in_"):
        if attribute in content:
            setattr(estimator, attribute, labels_from_json(content[attribute]))
    for attribute in COMMON_ARRAYS:
        setattr(estimator, attribute, arrays[attribute])
    estimator.domains_ = tuple(content["domains"])
    estimator.level_ = from_plain(content["level"])
    own = {k.removeprefix("own."): a for k, a in arrays.items() if k.startswith("own.")}
    estimator._restore_own(content["own"], own)
    return estimator


def class_of(name: str) -> Any:
    """The class behind a registered name."""
    return getattr(import_module(REGISTRY[name]), name)


def _params(estimator: Any) -> dict[str, Any]:
    found: dict[str, Any] = estimator.get_params(deep=False)
    return found


def plain(value: Any, name: str) -> Any:
    """A setting as JSON can hold it; what is not a number, a text or made of them is refused.

    >>> plain(Level(0.9), "alpha"), plain((64, 32), "hidden"), plain(np.float64(0.5), "l2")
    ({'level': -2.302585092994046}, {'tuple': [64, 32]}, 0.5)
    >>> from_plain(plain((float("inf"), None), "x"))
    (inf, None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Level):
        return {"level": plain(value.log_tail, name)}
    if isinstance(value, tuple):
        return {"tuple": [plain(part, name) for part in value]}
    if isinstance(value, list):
        return {"list": [plain(part, name) for part in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: plain(part, name) for key, part in value.items()}}
    raise SettingError(
        f"{name}={value!r} cannot be saved: a file holds numbers and texts, and no code. Use the "
        "name of a distribution or bandwidth, and a whole number as random_state."
    )


def from_plain(value: Any) -> Any:
    """The reverse of :func:`plain`."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "level":
        return Level(log_tail=float(from_plain(content)))
    if kind == "tuple":
        return tuple(from_plain(part) for part in content)
    if kind == "list":
        return [from_plain(part) for part in content]
    if kind == "dict":
        return {str(key): from_plain(part) for key, part in content.items()}
    raise ValueError(f"there is no kind of setting {kind!r}")


def labels_as_json(labels: NDArray[Any]) -> Content:
    """Classes or names of features: numbers, truth values or texts.

    >>> labels_from_json(labels_as_json(np.array(["a", "bc"])))
    array(['a', 'bc'], dtype='<U2')
    """
    kind = "O" if labels.dtype.kind == "O" else labels.dtype.str
    values = labels.tolist()
    if not all(isinstance(value, (str, int, float, bool)) for value in values):
        raise SettingError(
            f"Classes such as {values[0]!r} cannot be saved: use texts or numbers as classes."
        )
    return {"dtype": kind, "values": values}


def labels_from_json(content: Mapping[str, Any]) -> NDArray[Any]:
    """The reverse of :func:`labels_as_json`."""
    kind = str(content["dtype"])
    if np.dtype(kind).kind not in "biufUO":
        raise ValueError(f"labels cannot be of the type {kind!r}")
    return np.array(content["values"], dtype=kind)
