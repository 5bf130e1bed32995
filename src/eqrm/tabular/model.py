"""A model of a table: an estimator, what turns columns into its matrix, and what it predicts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.tables.encoder import TableEncoder
from eqrm.data.tables.task import Task
from eqrm.errors import SettingError, did_you_mean
from eqrm.level import Level

QRM = ("classifier.QRMClassifier", "regressor.QRMRegressor")
MODELS: dict[str, tuple[str, str]] = {
    "linear": QRM,
    "mlp": QRM,
    "xgboost": (
        "boosting.xgboost_estimators.XGBQRMClassifier",
        "boosting.xgboost_estimators.XGBQRMRegressor",
    ),
    "lightgbm": (
        "boosting.lightgbm_estimators.LGBMQRMClassifier",
        "boosting.lightgbm_estimators.LGBMQRMRegressor",
    ),
}
"""Name → its classifier and its regressor, in this folder."""
PREDICTION = "prediction"
DECIDED = ("alpha", "model", "random_state")
"""Settings that have an option of their own."""


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted estimator that takes columns by name.

    ``level`` is None for ERM.
    """

    estimator: Any
    encoder: TableEncoder
    task: Task
    level: Level | None
    target_name: str
    domain_name: str

    def scores(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the loss is a function of: probabilities (n,) of the second of two classes,
        (n, K) of more, or the predicted numbers (n,)."""
        if not self.task.classes:
            return np.asarray(self.estimator.predict(matrix), dtype=np.float64)
        probabilities = np.asarray(self.estimator.predict_proba(matrix), dtype=np.float64)
        return probabilities[:, 1] if len(self.task.classes) == 2 else probabilities

    def predict(self, columns: Mapping[str, Any], unseen: str = "warn") -> dict[str, NDArray[Any]]:
        """Columns of predictions: ``prediction``, and ``p_CLASS`` for every class.

        Predicted classes are numbers where the target holds numbers, and texts where it holds
        texts. ``unseen`` says what to do about categories that training had not: "warn" or
        "error".
        """
        matrix = self.encoder.transform(columns, unseen)
        scores = self.scores(matrix)
        classes = self.task.classes
        if not classes:
            return {PREDICTION: scores}
        if len(classes) == 2:
            chosen = (scores > 0.5).astype(int)
            scores = np.column_stack([1.0 - scores, scores])
        else:
            chosen = scores.argmax(axis=1)
        return {
            PREDICTION: self.task.values[chosen],
            **{f"p_{name}": scores[:, place] for place, name in enumerate(classes)},
        }


def new_estimator(
    model: str,
    task: Task,
    level: Level | None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """An estimator that is not fitted yet; settings that it does not have are refused."""
    classifier, regressor = MODELS[known_model(model)]
    module, _, name = (classifier if task.classes else regressor).rpartition(".")
    kind = getattr(import_module(f"eqrm.estimators.{module}"), name)
    allowed = [name for name in inspect.signature(kind).parameters if name not in DECIDED]
    for setting in settings or {}:
        if setting not in allowed:
            raise SettingError(
                f"The model {model!r} has no setting {setting!r}. {did_you_mean(setting, allowed)}"
            )
    chosen = {"model": model} if MODELS[model] == QRM else {}
    return kind(alpha=level, random_state=seed, **chosen, **(settings or {}))


def known_model(model: str) -> str:
    """The name, if there is such a model.

    >>> known_model("xgbost")
    Traceback (most recent call last):
    ...
    eqrm.errors.SettingError: There is no model 'xgbost'. Did you mean 'xgboost'? ...
    """
    if model not in MODELS:
        raise SettingError(f"There is no model {model!r}. {did_you_mean(model, MODELS)}")
    return model
