"""From files and folders to the risks of models by name: what ``eqrm compare`` reads.

- the folder of ``eqrm train``, or an ``evaluation.json``: all models in it, as they were evaluated;
- a model file, or the run of a network on a table: evaluated on the rows of a table;
- predictions in a CSV or Parquet file: evaluated as ``eqrm evaluate`` does.

A name that is given again is another training of the same model. Without names, models that are
called the same in two places are told apart by their paths.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eqrm.checks import Problems
from eqrm.data.tables.files import opened
from eqrm.errors import DataFileError, DomainDataError, Setting, SettingError
from eqrm.evaluation.evaluate import evaluate
from eqrm.evaluation.evaluation import FORMAT, Evaluation
from eqrm.evaluation.references import BASE_RATE, GUESSES, MEAN
from eqrm.files.checked_json import read_json
from eqrm.risks import MeasuredRisks
from eqrm.tabular.model import load_table_model
from eqrm.tabular.output_folder import listed_files
from eqrm.tabular.predictions import predict_file
from eqrm.text import counted

CONSTANTS = (BASE_RATE, *GUESSES, MEAN)
EVALUATION, MODEL, PREDICTIONS = "evaluation", "model", "predictions"


@dataclass(frozen=True)
class ComparedSource:
    """A file or folder, and the name that was given to it, if one was."""

    path: Path
    name: str | None = None

    @classmethod
    def of(cls, text: str) -> ComparedSource:
        """``NAME=PATH`` or ``PATH``."""
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            return cls(Path(text))
        if not name or not path:
            raise SettingError(f"A source is PATH or NAME=PATH, got {text!r}.")
        return cls(Path(path), name)

    @property
    def kind(self) -> str:
        """What it holds; refused where it does not exist."""
        if not self.path.exists():
            raise DataFileError(f"{str(self.path)!r} does not exist.")
        if self.path.is_dir():
            return EVALUATION if listed_files(self.path) is not None else MODEL
        ending = self.path.suffix.lower()
        return {".json": EVALUATION, ".safetensors": MODEL}.get(ending, PREDICTIONS)

    def called(self, inside: str) -> str:
        """The name of a model that is called ``inside`` in it."""
        if self.kind != EVALUATION:
            return self.name or inside
        return inside if self.name is None or inside in CONSTANTS else f"{self.name}: {inside}"


def models_of_sources(
    sources: Sequence[ComparedSource], table: str | None = None, **columns: Any
) -> tuple[dict[str, list[MeasuredRisks]], str]:
    """The risks of every model and training by name, and the loss that all were measured by.

    ``table`` has the rows for models; ``domains``, ``labels``, ``predictions`` and ``metric`` are
    those of :func:`eqrm.evaluate` for files of predictions.
    """
    _problems_with(sources, table, columns).refuse("The comparison", alone=True)
    found: dict[str, list[MeasuredRisks]] = {}
    losses, bounds = dict[str, str](), set()
    evaluated = [(source, _evaluated(source, table or "", columns)) for source in sources]
    for source, evaluation in _told_apart(evaluated):
        losses.setdefault(evaluation.loss, str(source.path))
        bounds |= {evaluation.bounds} - {None}
        for inside, risks in evaluation.models.items():
            known = found.setdefault(source.called(inside), [])
            # Models that are trained on the same rows have the same constants.
            same = (
                each.domains == risks.domains and (each.risks == risks.risks).all()
                for each in known
            )
            if inside not in CONSTANTS or not any(same):
                known.append(risks)
    if len(losses) > 1:
        told = ", ".join(f"{loss} ({path})" for loss, path in losses.items())
        raise DomainDataError(
            f"Models are compared by one loss, got {told}. Evaluate all of them by the same one."
        )
    if len(bounds) > 1 and "log-loss" in losses:
        raise DomainDataError(
            f"Probabilities were clipped differently: evaluate with the same {Setting('clip')}."
        )
    return found, next(iter(losses))


def _problems_with(
    sources: Sequence[ComparedSource], table: str | None, columns: Mapping[str, Any]
) -> Problems:
    """Everything that is missing, before anything is evaluated."""
    problems, kinds = Problems(), set()
    for source in sources:
        with problems.noted():
            kinds.add(source.kind)
            if source.kind == MODEL and table is None:
                raise SettingError(
                    f"{source.path} is a model, so rows are needed to evaluate it on. Add "
                    f"{Setting('table', 'FILE')}, with the columns of its training, target and "
                    "domain included."
                )
    for name in ("domains", "target") if PREDICTIONS in kinds else ():
        if not columns.get(name):
            problems.note(f"Files of predictions need {Setting(name, 'COLUMN')}.")
    return problems


def _told_apart(
    evaluated: Sequence[tuple[ComparedSource, Evaluation]],
) -> list[tuple[ComparedSource, Evaluation]]:
    """Sources without a name are named by their path where they hold models called the same."""
    holders: dict[str, set[Path]] = {}
    for source, evaluation in evaluated:
        for name in evaluation.models if source.name is None else ():
            if name not in CONSTANTS:
                holders.setdefault(name, set()).add(source.path)
    tails = _tails({path for paths in holders.values() if len(paths) > 1 for path in paths})
    return [
        (source if source.name else replace(source, name=tails.get(source.path)), evaluation)
        for source, evaluation in evaluated
    ]


def _tails(paths: Collection[Path]) -> dict[Path, str]:
    """As few last parts of each path as tell them apart: 1/out, and 2/out."""
    length, found = 0, dict[Path, str]()
    while len(set(found.values())) < len(paths):
        length += 1
        found = {path: str(Path(*path.parts[-length:])) for path in paths}
    return found


def _evaluated(source: ComparedSource, table: str, columns: Mapping[str, Any]) -> Evaluation:
    name = source.name or source.path.stem
    if source.kind == EVALUATION:
        return _stored(source.path)
    if source.kind == MODEL:
        return _of_model(source.path, name, table)
    return evaluate(
        str(source.path),
        domains=list(columns["domains"]),
        target=columns["target"],
        predictions={name: columns.get("predictions") or _prediction(source.path)},
        metric=columns.get("metric") or "log-loss",
    )


def _stored(path: Path) -> Evaluation:
    file = path / "evaluation.json" if path.is_dir() else path
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataFileError(
            f"{file} is not an evaluation. eqrm train writes one (evaluation.json), and "
            "Evaluation.to_json() does."
        )
    return Evaluation.from_dict(content)


def _of_model(path: Path, name: str, table: str) -> Evaluation:
    """A model on the rows of a table whose domains it has not seen, by way of its predictions."""
    preprocessor = load_table_model(path).preprocessor
    with tempfile.TemporaryDirectory() as folder:
        predictions = Path(folder, "predictions.parquet")
        predict_file(path, table, predictions)
        return evaluate(
            str(predictions),
            domains=list(preprocessor.key.columns),
            target=preprocessor.target_name,
            predictions={name: "p_{class}" if preprocessor.task.classes else "prediction"},
            metric=preprocessor.task.metric,
        )


def _prediction(path: Path) -> str:
    """The columns that ``eqrm predict`` writes, where the file has them."""
    with opened(str(path), 1, "600MB") as table:
        names = list(table.types)
    if any(name.startswith("p_") for name in names):
        return "p_{class}"
    if "prediction" in names:
        return "prediction"
    raise SettingError(
        f"{path} has neither columns 'p_…' nor 'prediction'. Name the column with "
        f"{Setting('predictions')}; it has {counted(len(names), 'column')}: "
        f"{', '.join(names[:10])}."
    )
