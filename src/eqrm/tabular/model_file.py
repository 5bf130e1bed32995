"""A model of a table as one file: its estimator, with its columns and classes attached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eqrm.data.tables.encoder import TableEncoder
from eqrm.data.tables.task import Task
from eqrm.errors import DataFileError, DomainDataError
from eqrm.estimators.model_files import SavedModel, read_model, save_model
from eqrm.level import Level
from eqrm.tabular.model import TableModel

FORMAT = "eqrm table model 1"
ENDING = ".safetensors"


def save_table_model(model: TableModel, path: Path) -> None:
    """Write a model to one file, without pickle: whole, or not at all."""
    attached = {
        "format": FORMAT,
        "level": None if model.level is None else str(model.level),
        "target": model.target_name,
        "domain": model.domain_name,
        "task": model.task.to_dict(),
        "encoder": model.encoder.to_dict(),
    }
    save_model(model.estimator, path, attached)


def load_table_model(path: Path) -> TableModel:
    """The model of a file that :func:`save_table_model` wrote; anything else is refused."""
    saved = read_model(path)
    if saved.attached is None or saved.attached.get("format") != FORMAT:
        raise DataFileError(
            f"{path} holds a model without the columns of a table: 'eqrm train' did not write it. "
            "Use eqrm.load_model in Python."
        )
    try:
        return _put_together(saved, saved.attached)
    except (KeyError, TypeError, ValueError) as error:
        raise DataFileError(f"{path} is damaged: {error}. Train the model again.") from None


def _put_together(saved: SavedModel, attached: dict[str, Any]) -> TableModel:
    encoder, level = TableEncoder.from_dict(attached["encoder"]), attached["level"]
    takes, gives = saved.estimator.n_features_in_, len(encoder.features)
    if takes != gives:
        raise DomainDataError(f"the estimator takes {takes} features, and the columns give {gives}")
    return TableModel(
        saved.estimator,
        encoder,
        Task.from_dict(attached["task"]),
        None if level is None else Level.parse(level),
        str(attached["target"]),
        str(attached["domain"]),
    )
