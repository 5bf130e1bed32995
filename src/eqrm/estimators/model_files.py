"""Models in one file: parameters and fitted attributes as plain data, and arrays of numbers.

A file holds plain data and the name of a class in :data:`ESTIMATORS`, so nothing that is loaded
can execute code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eqrm._version import __version__
from eqrm.checks import integer
from eqrm.errors import DataFileError, SettingError
from eqrm.files.archive import flatten, read_archive, unflatten, write_archive
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
        "Recalibrated": "eqrm.estimators.recalibrated:Recalibrated",
    },
)
"""The classes that a file can hold; they have ``_own_state`` and ``_restore_own``."""

FORMAT = "eqrm model 3"
ARRAYS = ("domain_risks_", "domain_counts_")
LABELS = frozenset({"classes_", "feature_names_in_"})
FITTED = (*ARRAYS, *sorted(LABELS), "domains_", "level_", "n_features_in_", "quantile_risk_")
FITTED += ("converged_", "n_iter_")
MOST_FEATURES = 10_000_000
WRONG_CONTENT = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What a file that was forged raises while a model is made of it."""
WRITERS = (
    "Model files are written by 'eqrm train' (models/*.safetensors in its folder) and by "
    "eqrm.save_model."
)


def save_model(estimator: Any, path: str | Path, attached: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to one file, without pickle: whole, or not at all.

    ``attached`` is anything that JSON can represent and that belongs to the model, such as how the
    columns of a table become its features. Of :class:`eqrm.Recalibrated`, an eqrm estimator inside
    is saved with it; a foreign one is not, and is passed to :func:`load_model` again.
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
    try:
        state, tensors = flatten(state_of(estimator), "model")
    except TypeError as error:
        raise SettingError(
            f"This model cannot be saved: {error}. Files hold numbers and texts, no code: use the "
            "name of a distribution or bandwidth, an integer as random_state, and texts or numbers "
            "as classes."
        ) from None
    write_archive(Path(path), FORMAT, {"model": state, "attached": attached}, tensors)


def state_of(estimator: Any) -> dict[str, Any]:
    """A fitted estimator as plain data and arrays."""
    found = {name: getattr(estimator, name) for name in FITTED if hasattr(estimator, name)}
    for name in LABELS & found.keys():  # texts too, of which there are no tensors
        found[name] = [found[name].dtype.str, found[name].tolist()]
    return {
        "class": type(estimator).__name__,
        "version": __version__,
        "params": estimator._saved_params(),
        "fitted": found,
        "own": estimator._own_state(),
    }


def load_model(path: str | Path, estimator: Any = None) -> Any:
    """The estimator in a file that :func:`save_model` wrote, ready to predict.

    ``estimator`` is the foreign model that a saved :class:`eqrm.Recalibrated` corrects, supplied
    again. Damaged, truncated and foreign files are refused. Nothing that is loaded can execute
    code: every size, index and number is checked before it is used. The digest in a file detects
    damage, not intent: whoever writes a file decides what its model predicts.
    """
    return read_model(path, estimator)[0]


def read_model(path: str | Path, estimator: Any = None) -> tuple[Any, dict[str, Any] | None]:
    """The fitted estimator in a file, and what was attached to it."""
    archive = read_archive(Path(path), FORMAT, "a model file", remedy=WRITERS)
    try:
        for place, array in archive.tensors.items():
            if not np.isfinite(array).all():
                raise ValueError(f"{place} has a number that is not finite")
        state = unflatten(archive.content["model"], archive.tensors)
        name, own = state["class"], state["own"]
        foreign = own["class"] if own.get("holds") == "foreign" else None
        known = name in ESTIMATORS
        if known:
            found, attached = restored(state), archive.content["attached"]
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
        found._take_in(estimator)
    return found, attached


def restored(state: Mapping[str, Any]) -> Any:
    """The reverse of :func:`state_of`."""
    estimator: Any = ESTIMATORS.load(state["class"])(**state["params"])
    estimator._checked_goal()
    for name, value in state["fitted"].items():
        if name not in FITTED:
            raise ValueError(f"unknown attribute {name!r}")
        if name in LABELS:
            kind, labels = value
            if np.dtype(kind).kind not in "biufUO":
                raise ValueError(f"labels cannot have the type {kind!r}")
            value = np.array(labels, dtype=kind)
        setattr(estimator, name, value)
    _check_attributes(estimator)
    estimator._restore_own(state["own"])
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
