"""A model of a table: an estimator with its preprocessor, made, saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import refuse_unknown
from eqrm.data.seen_domains import SeenDomains
from eqrm.data.tables.preprocessor import TablePreprocessor, Task
from eqrm.errors import DataFileError, DomainDataError
from eqrm.estimators.model_files import ESTIMATORS, read_model, save_model
from eqrm.execution import torch_for
from eqrm.level import Level
from eqrm.tabular.output_folder import chosen_model, listed_files
from eqrm.tabular.plan import DECIDED, MODELS, QRM

if TYPE_CHECKING:
    from eqrm.training.runs.run import TableNetwork

FORMAT = "eqrm table model 1"


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted estimator that takes columns by name.

    ``level`` is None for ERM; ``seen`` are the training domains, None where the file is of a
    version that did not keep them.
    """

    estimator: Any
    preprocessor: TablePreprocessor
    level: Level | None
    seen: SeenDomains | None = None

    def predict(self, frame: Any, unseen: str = "warn") -> dict[str, NDArray[Any]]:
        """Columns of predictions, as :meth:`Task.predictions` describes them.

        ``frame`` is a table of any kind with the columns of training. ``unseen`` says what to do
        about categories that did not occur in training: "warn" or "error".
        """
        matrix, task = self.preprocessor.matrix(frame, unseen), self.preprocessor.task
        predict = self.estimator.predict_proba if task.classes else self.estimator.predict
        return task.predictions(np.asarray(predict(matrix), dtype=np.float64))


def new_estimator(
    model: str,
    task: Task,
    level: Level | None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    measure: str = "quantile",
) -> Any:
    """An estimator that is not fitted yet; settings that it does not have are refused."""
    classifier, regressor = MODELS[model]
    name, given = classifier if task.classes else regressor, settings or {}
    refuse_unknown(given, ESTIMATORS.settings(name, DECIDED), f"Model {model!r}")
    chosen: dict[str, Any] = {"model": model} if MODELS[model] == QRM else {}
    chosen |= {"measure": measure, "random_state": seed}
    return ESTIMATORS.load(name)(alpha=level, **chosen, **given)


def save_table_model(model: TableModel, path: Path) -> None:
    """Write a model to one file, without pickle: whole, or not at all."""
    level = None if model.level is None else str(model.level)
    attached = {"format": FORMAT, "level": level, **model.preprocessor.to_dict()}
    if model.seen is not None:
        attached["seen"] = model.seen.to_list()
    save_model(model.estimator, path, attached)


def load_table_model(path: Path) -> TableModel | TableNetwork:
    """The model of a file that :func:`save_table_model` wrote, or of a network's run folder.

    Of the folder of a training it is the model that was chosen. Anything else is refused.
    """
    if path.is_dir():
        if listed_files(path) is None:
            torch_for(f"The network in {path}")
            from eqrm.training.runs.run import load_table_network

            return load_table_network(path)
        path = chosen_model(path)[1]
    found = load_model_file(path)
    if not isinstance(found, TableModel):
        raise DataFileError(
            f"{path} holds a model without the columns of a table: 'eqrm train' did not write it. "
            "Use eqrm.load_model in Python."
        )
    return found


def load_model_file(path: Path) -> Any:
    """The model of a table in a file, or the estimator that has no table."""
    estimator, content = read_model(path)
    if content is None or content.get("format") != FORMAT:
        return estimator
    try:
        preprocessor = TablePreprocessor.from_dict(content)
        level = None if content["level"] is None else Level.parse(content["level"])
        seen = SeenDomains.from_list(content.get("seen"))
        takes, gives = estimator.n_features_in_, len(preprocessor.encoder.features)
        if takes != gives:
            raise DomainDataError(f"the estimator takes {takes} features, the columns give {gives}")
    except (KeyError, TypeError, ValueError) as error:
        raise DataFileError(f"{path} is damaged: {error}. Train the model again.") from None
    return TableModel(estimator, preprocessor, level, seen)
