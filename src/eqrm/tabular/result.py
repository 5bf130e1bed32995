"""What a training gives back, fresh or from its folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqrm.checks import one_of
from eqrm.data.tables.frames import data_frame
from eqrm.errors import DataFileError
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.files.checked_json import parsed_json
from eqrm.files.regular import regular_file
from eqrm.files.writing import whole_files
from eqrm.markup import lines_in_html
from eqrm.tabular.comparison import TrainingComparison, table_levels
from eqrm.tabular.model import load_table_model, saved_models
from eqrm.tabular.output import REPORT, SUMMARY, summary_of, write_training, write_training_report
from eqrm.tabular.output_folder import LISTED, check_folder, listed_files
from eqrm.tabular.predictions import predicted_columns
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import in_words
from eqrm.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Models by name, and how they do on domains that none of them has seen.

    Attributes:
        models: ERM, ERM recalibrated for each level, and the one trained for it.
        recommended: the name of the model to use: chosen on training domains, for the level closest
            to 0.9.
        evaluation: the risks of all models and constants on unseen domains
            (:class:`eqrm.Evaluation`), with certificates, comparisons and tests.
        summary: the verdict and everything beside it, in words.
        risk_table: mean and quantiles of risk, with intervals.
        printed: the part of the summary that the command prints; all of it once loaded.
        folder: where everything was written to or loaded from; None where it was not.
    """

    models: Mapping[str, Any]
    recommended: str
    evaluation: Evaluation
    summary: str
    risk_table: RiskTable
    printed: str
    _write: Callable[[Path], list[Path]]
    _report: Callable[[Path], None]
    folder: Path | None = None

    @classmethod
    def of(
        cls, training: TableTraining, compared: TrainingComparison, command: str | None = None
    ) -> TrainingResult:
        """The result of a training that has just ended."""
        return cls(
            training.models,
            compared.recommended,
            training.evaluation,
            summary_of(training, compared),
            compared.table,
            in_words(training, compared),
            lambda folder: write_training(training, compared, folder, command),
            lambda path: write_training_report(training, compared, path, command),
        )

    @classmethod
    def load(cls, folder: Path) -> TrainingResult:
        """The result that :meth:`save` or ``eqrm train`` left in a folder."""
        content = listed_files(folder)
        if content is None:
            raise DataFileError(f"The folder {folder} was not written by 'eqrm train'.")
        try:
            files, best = saved_models(content)
            models = {name: load_table_model(folder / file) for name, file in files.items()}
            evaluation = Evaluation.from_dict(
                parsed_json(regular_file(folder / "evaluation.json").read_text(encoding="utf-8"))
            )
            summary = (folder / SUMMARY).read_text(encoding="utf-8").removesuffix("\n")
            given = (getattr(model, "level", None) for model in models.values())
            levels = tuple(dict.fromkeys(level for level in given if level is not None))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DataFileError):
                raise
            raise DataFileError(f"The folder {folder} is damaged: {error}. Train again.") from None
        confidence = float(content.get("confidence", 0.95))
        table = evaluation.risk_table(
            table_levels(levels), [], confidence=confidence, worst=0, interpolation=SMOOTH
        )

        def write(to: Path) -> list[Path]:
            check_folder(to)
            with whole_files(to) as draft:
                for name in (*content["files"], LISTED):
                    (draft / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(folder / name, draft / name)
            return [to / name for name in content["files"]]

        def report(to: Path) -> None:
            shutil.copyfile(folder / REPORT, to)

        return cls(models, best, evaluation, summary, table, summary, write, report, folder)

    def __repr__(self) -> str:
        return (
            f"TrainingResult({counted(len(self.models), 'model')}, "
            f"{counted(len(self.evaluation.domains), 'unseen domain')}, recommended: "
            f"{self.recommended!r})"
        )

    def __str__(self) -> str:
        return self.summary

    def predict(self, data: Any, model: str | None = None, unseen: str = "warn") -> DataFrame:
        """Predictions for the rows of a table, a frame or a file, as ``eqrm predict`` writes them.

        A column ``prediction``, for classes a probability each, and ``seen`` where the table has
        the column of the domains: whether the model was trained on the row's domain. ``model`` is
        the name of one of :attr:`models`, by default the recommended one.
        """
        chosen = self.models[one_of(model or self.recommended, self.models, "model")]
        found, _ = predicted_columns(chosen, data, unseen)
        return data_frame(found, like=data)

    def report(self, path: str | Path) -> Path:
        """Write the HTML page of the results, which needs nothing else to be opened."""
        self._report(Path(path))
        return Path(path)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The risks of all models on unseen domains as curves, on these or new axes.

        See :meth:`eqrm.Evaluation.plot`.
        """
        return self.evaluation.plot(ax)

    def _repr_html_(self) -> str:
        """The verdict and the table of risks, for a notebook."""
        verdict = self.summary.split("\n\n", 1)[0]
        return f"{lines_in_html(verdict)}{self.risk_table._repr_html_()}"

    def save(self, folder: str | Path) -> list[Path]:
        """Write everything to a folder, as ``eqrm train --output`` does.

        The folder is new, or that of an earlier training, which is replaced. :func:`eqrm.load`
        reads it.
        """
        return self._write(Path(folder))

    def saved(self, folder: Path) -> TrainingResult:
        """The same, written to a folder that it knows."""
        self.save(folder)
        return replace(self, folder=folder)
