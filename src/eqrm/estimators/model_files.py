"""Models in one file: parameters and fitted attributes as JSON, and arrays of numbers.

A file holds plain data and the name of a class in :data:`ESTIMATORS`, so nothing that is loaded
can execute code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm._version import __version__
from eqrm.checks import integer
from eqrm.errors import DataFileError, SettingError
from eqrm.files.archive import read_archive, write_archive
from eqrm.level import Level
from eqrm.registry import Registry
from eqrm.text import did_you_mean, shortened

ESTIMATORS = Registry[Any](
    "estimator",
    {
        "QRMClassifier": "eqrm.estimators.qrm_estimators:QRMClassifier",
        "QRMRegressor": "eqrm.estimators.qrm_estimators:QRMRegressor",
        "XGBQRMClassifier": "eqrm.estimators.boosting.of_xgboost:XGBQRMClassifier",
        "XGBQRMRegressor": "eqrm.estimators.boosting.of_xgboost:XGBQRMRegressor",
        "LGBMQRMClassifier": "eqrm.estimators.boosting.of_lightgbm:LGBMQRMClassifier",
        "LGBMQRMRegressor": "eqrm.estimators.boosting.of_lightgbm:LGBMQRMRegressor",
        "HistogramClassifier": "eqrm.estimators.boosting.histogram:HistogramClassifier",
        "HistogramRegressor": "eqrm.estimators.boosting.histogram:HistogramRegressor",
        "Recalibrated": "eqrm.estimators.recalibrated:Recalibrated",
    },
)
"""The classes that a file can hold; they have ``_own_state`` and ``_restore_own``."""

FORMAT = "eqrm model 3"
NUMBERS = ("n_features_in_", "quantile_risk_", "converged_", "n_iter_")
ARRAYS = ("domain_risks_", "domain_counts_")
LABELS = ("classes_", "feature_names_in_")
LABELLED = "biufUO"
"""Kinds of numpy types that classes can have."""
MOST_FEATURES = 10_000_000
WRONG_CONTENT = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""What a file that was forged raises while a model is made of it."""
WRITERS = (
    "Model files are written by 'eqrm train' (models/*.safetensors in its folder) and by "
    "eqrm.save_model."
)


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What a file holds: a fitted estimator, and what else was ``attached`` (or None)."""

    estimator: Any
    attached: dict[str, Any] | None


def save_model(estimator: Any, path: str | Path, attached: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to one file, without pickle: whole, or not at all.

    ``attached`` is anything that JSON can represent and that belongs to the model, such as how the
    columns of a table become its features. Of :class:`eqrm.Recalibrated`, an eqrm estimator inside
    is saved with it; a foreign one is not, and is passed to :func:`load_model` again.

    >>> import numpy, tempfile
    >>> from eqrm import QRMRegressor, load_model
    >>> model = QRMRegressor(alpha=None).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.1], [1, 1, 2])
    >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> save_model(model, path)
    >>> bool(load_model(path).predict([[5.0]]) == model.predict([[5.0]]))
    True
    """
    name = type(estimator).__name__
    if name not in ESTIMATORS or not isinstance(estimator, ESTIMATORS.load(name)):
        raise SettingError(
            f"save_model cannot save a {name}, only: {', '.join(sorted(ESTIMATORS))}. For a "
            "pipeline, save its last step."
        )
    from sklearn.utils.validation import check_is_fitted  # slow to import

    check_is_fitted(estimator)
    try:
        json.dumps(attached, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SettingError(f"What is attached to a model must be JSON: {error}.") from None
    content, arrays = state_of(estimator)
    write_archive(Path(path), FORMAT, {**content, "attached": attached}, arrays)


def state_of(estimator: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A fitted estimator as plain data and arrays."""
    own, own_arrays = estimator._own_state()
    content = {
        "class": type(estimator).__name__,
        "version": __version__,
        "params": {k: plain(v, k) for k, v in estimator._saved_params().items()},
        "common": {k: plain(getattr(estimator, k), k) for k in NUMBERS if hasattr(estimator, k)},
        **{k: labels_as_json(getattr(estimator, k)) for k in LABELS if hasattr(estimator, k)},
        "domains": list(estimator.domains_),
        "level": plain(estimator.level_, "level_"),
        "own": own,
    }
    arrays = {k: np.asarray(getattr(estimator, k)) for k in ARRAYS}
    arrays |= {f"own.{k}": array for k, array in own_arrays.items()}
    return content, arrays


def load_model(path: str | Path, estimator: Any = None) -> Any:
    """The estimator in a file that :func:`save_model` wrote, ready to predict.

    ``estimator`` is the foreign model that a saved :class:`eqrm.Recalibrated` corrects, supplied
    again. Damaged, truncated and foreign files are refused. Nothing that is loaded can execute
    code: every size, index and number is checked before it is used. The digest in a file detects
    damage, not intent: whoever writes a file decides what its model predicts.
    """
    return read_model(path, estimator).estimator


def read_model(path: str | Path, estimator: Any = None) -> SavedModel:
    """The estimator, and what was attached to it."""
    archive = read_archive(Path(path), FORMAT, "a model file", remedy=WRITERS)
    content = archive.content
    try:
        name, own, attached = content["class"], content["own"], content["attached"]
        foreign = own["class"] if own.get("holds") == "foreign" else None
        known = name in ESTIMATORS
        if known:
            found = SavedModel(restored(content, archive.arrays()), attached)
    except SettingError as error:
        raise DataFileError(f"{path} is damaged. {error}") from None
    except WRONG_CONTENT as error:
        reason = shortened(str(error), 200)
        raise DataFileError(
            f"{path} is damaged: {reason}. Save or train the model again."
        ) from None
    if not known:
        raise DataFileError(
            f"{path} contains a model of the class {name!r}, which this version of eqrm "
            f"({__version__}) does not know. {did_you_mean(name, ESTIMATORS)}"
        )
    if (foreign is None) != (estimator is None):
        raise SettingError(
            f"{path} holds a correction for a {foreign}, which is not saved with it. Pass the "
            "model again: load_model(path, estimator=my_model)."
            if estimator is None
            else f"{path} holds a complete model: load it without estimator=."
        )
    if foreign is not None:
        found.estimator._take_in(estimator)
    return found


def restored(content: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """The reverse of :func:`state_of`."""
    given = {key: from_plain(v) for key, v in content["params"].items()}
    estimator: Any = ESTIMATORS.load(content["class"])(**given)
    for attribute, value in content["common"].items():
        if attribute not in NUMBERS:
            raise ValueError(f"unknown attribute {attribute!r}")
        setattr(estimator, attribute, from_plain(value))
    for attribute in LABELS:
        if attribute in content:
            setattr(estimator, attribute, labels_from_json(content[attribute]))
    for attribute in ARRAYS:
        setattr(estimator, attribute, arrays[attribute])
    estimator.domains_ = tuple(content["domains"])
    estimator.level_ = from_plain(content["level"])
    own = {k.removeprefix("own."): a for k, a in arrays.items() if k.startswith("own.")}
    _check_attributes(estimator)
    for attribute, array in own.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"its {attribute!r} has a number that is not finite")
    estimator._restore_own(content["own"], own)
    return estimator


def _check_attributes(estimator: Any) -> None:
    """Raise if attributes that all estimators have contradict each other."""
    features = getattr(estimator, "n_features_in_", 1)
    integer(1, MOST_FEATURES).check(features, "n_features_in_")
    domains, risks = len(estimator.domains_), estimator.domain_risks_
    for attribute in ARRAYS:
        if getattr(estimator, attribute).shape != (domains,):
            raise ValueError(f"its {attribute!r} is not one number for each of {domains:,} domains")
    if not np.isfinite(risks).all() or math.isnan(getattr(estimator, "quantile_risk_", 0.0)):
        raise ValueError("a risk in it is not a number")
    if len(getattr(estimator, "feature_names_in_", range(features))) != features:
        raise ValueError(f"it does not name its {features:,} features")
    classes = getattr(estimator, "classes_", np.arange(2))
    if classes.ndim != 1 or len(set(classes.tolist())) != len(classes) or len(classes) < 2:
        raise ValueError("its classes are not two or more")


def plain(value: Any, name: str) -> Any:
    """A setting as JSON can represent it; what is not made of numbers and strings is refused.

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
        f"{name}={value!r} cannot be saved: model files hold only numbers and strings, no code. "
        "Use the name of a distribution or bandwidth, and an integer as random_state."
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
    raise ValueError(f"unknown kind of setting {kind!r}")


def labels_as_json(labels: NDArray[Any]) -> dict[str, Any]:
    """Classes or names of features: numbers, booleans or strings.

    >>> labels_from_json(labels_as_json(np.array(["a", "bc"])))
    array(['a', 'bc'], dtype='<U2')
    """
    kind = "O" if labels.dtype.kind == "O" else labels.dtype.str
    values = labels.tolist()
    if not all(isinstance(value, (str, int, float, bool)) for value in values):
        raise SettingError(
            f"Classes such as {values[0]!r} cannot be saved: use strings or numbers as classes."
        )
    return {"dtype": kind, "values": values}


def labels_from_json(content: Mapping[str, Any]) -> NDArray[Any]:
    """The reverse of :func:`labels_as_json`."""
    kind = str(content["dtype"])
    if np.dtype(kind).kind not in LABELLED:
        raise ValueError(f"labels cannot have the type {kind!r}")
    return np.array(content["values"], dtype=kind)
