"""``eqrm.load``: whatever was saved, by its file or folder."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from eqrm.errors import DataFileError, EqrmError
from eqrm.tabular.output_folder import listed_files

JSON = ".json"


def load(path: str | Path) -> Any:
    """What is in a file or folder that eqrm wrote.

    - the folder of :func:`eqrm.train` or ``eqrm train``: a ``TrainingResult``;
    - a model file of it: the model with the columns of its table, ``predict(frame)``;
    - a model file of :func:`eqrm.save_model`: the estimator;
    - the folder of a run of ``eqrm train-network``: the network, with the columns of its table
      where it was trained on one;
    - JSON of an evaluation (``evaluation.json``), of a certificate
      (``json.dumps(certificate.to_dict())``), or a correction of ``eqrm recalibrate --save``.

    Nothing that is loaded can execute code.

    >>> import tempfile, eqrm
    >>> path = Path(tempfile.mkdtemp()) / "certificate.json"
    >>> found = eqrm.evaluation.quantile_bound([0.1 * i for i in range(30)], 0.9, 0.95)
    >>> _ = path.write_text(json.dumps(found.to_dict()))
    >>> load(path) == found
    True
    """
    place = Path(path)
    if not place.exists():
        raise DataFileError(f"{str(path)!r} does not exist.")
    if place.is_dir():
        return _folder(place)
    if place.suffix.lower() == JSON:
        return _json(place)
    from eqrm.estimators.model_files import read_model
    from eqrm.tabular.model import FORMAT, load_table_model

    saved = read_model(place)
    if saved.attached is not None and saved.attached.get("format") == FORMAT:
        return load_table_model(place)
    return saved.estimator


def _folder(place: Path) -> Any:
    if listed_files(place) is not None:
        from eqrm.tabular.result import TrainingResult

        return TrainingResult.load(place)
    from eqrm.training.runs.loading import is_table_run, load_predictor, load_table_network

    return load_table_network(place) if is_table_run(place) else load_predictor(place)


def _json(place: Path) -> Any:
    """An evaluation, a certificate or a correction."""
    from eqrm.evaluation.evaluation import FORMAT, Evaluation
    from eqrm.evaluation.inference.certificates import Certificate
    from eqrm.tabular.recalibrating.correction_files import SavedCorrection

    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return Evaluation.from_dict(content)
        names = [field.name for field in fields(Certificate)]
        if isinstance(content, dict) and {*names} <= {*content}:
            return Certificate(**{name: content[name] for name in names})
    except EqrmError:
        raise
    except (ValueError, TypeError) as error:
        raise DataFileError(f"{place} cannot be read: {error}.") from None
    return SavedCorrection.read(place)
