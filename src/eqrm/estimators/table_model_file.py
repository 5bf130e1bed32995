"""A model of a table as one file: its estimator as ``save_model`` writes it, and its columns.

The file is a zip archive of two parts. Nothing in it can execute code when it is loaded.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from eqrm.data.encoding import TableEncoder
from eqrm.errors import DataFileError, DomainDataError
from eqrm.estimators.model_files import load_model, save_model
from eqrm.estimators.table_models import TableModel
from eqrm.estimators.table_task import Task
from eqrm.evaluation.whole_files import whole_file
from eqrm.level import Level

FORMAT = "eqrm table model 1"
COLUMNS, ESTIMATOR = "table.json", "estimator"
_STAMP = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


def save_table_model(model: TableModel, path: Path) -> None:
    """Write a model to one file: whole, or not at all."""
    described = {
        "format": FORMAT,
        "level": None if model.level is None else str(model.level),
        "target": model.target_name,
        "domain": model.domain_name,
        "task": model.task.to_dict(),
        "encoder": model.encoder.to_dict(),
    }
    with tempfile.TemporaryDirectory(prefix="eqrm-") as folder, whole_file(path) as draft:
        saved = Path(folder) / ESTIMATOR
        save_model(model.estimator, saved)
        with zipfile.ZipFile(draft, "w") as archive:
            text = json.dumps(described, indent=1, ensure_ascii=False, allow_nan=False)
            archive.writestr(zipfile.ZipInfo(COLUMNS, _STAMP), text)
            archive.writestr(zipfile.ZipInfo(ESTIMATOR, _STAMP), saved.read_bytes())


def load_table_model(path: Path) -> TableModel:
    """The model of a file that :func:`save_table_model` wrote; anything else is refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            described = json.loads(archive.read(COLUMNS))
            content = archive.read(ESTIMATOR)
    except (zipfile.BadZipFile, KeyError, ValueError):
        raise _no_model(path) from None
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise _no_model(path)
    with tempfile.TemporaryDirectory(prefix="eqrm-") as folder:
        saved = Path(folder) / ESTIMATOR
        saved.write_bytes(content)
        estimator = load_model(saved)
    try:
        return _put_together(described, estimator)
    except (KeyError, TypeError, ValueError) as error:
        raise DataFileError(f"{path} is damaged: {error}. Train the model again.") from None


def _put_together(described: dict[str, Any], estimator: Any) -> TableModel:
    encoder, task = described["encoder"], Task.from_dict(described["task"])
    level = described["level"]
    model = TableModel(
        estimator,
        TableEncoder.from_dict(encoder),
        task,
        None if level is None else Level.parse(level),
        str(described["target"]),
        str(described["domain"]),
    )
    if estimator.n_features_in_ != len(model.encoder.features):
        raise DomainDataError(
            f"the estimator takes {estimator.n_features_in_} features and the columns give "
            f"{len(model.encoder.features)}"
        )
    return model


def _no_model(path: Path) -> DataFileError:
    return DataFileError(f"{path} is no model that 'eqrm train' saved, or it is damaged.")
