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
from eqrm.files.reading import regular_file
from eqrm.files.writing import whole_files
from eqrm.markup import lines_in_html
from eqrm.tabular.choosing.contest import Decision
from eqrm.tabular.model import load_table_model, saved_models
from eqrm.tabular.output import REPORT, SUMMARY, TrainingOutput, table_levels
from eqrm.tabular.output_folder import LISTED, check_folder, listed_files
from eqrm.tabular.predictions import predicted_columns
from eqrm.tabular.training import TableTraining
from eqrm.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The model to use, why, and how it and others do on domains that they have not seen.

    Attributes:
        decision: what to use for the level closest to 0.9, instead of what, and how sure that is.
        models: the chosen models and plain training, fitted to all domains.
        evaluation: the cross-fitted risks of all candidates that are shown, and of constants
            (:class:`eqrm.Evaluation`), with bounds, comparisons and tests.
        summary: the decision and everything beside it, in words.
        risk_table: mean and quantiles of risk, with intervals.
        decisions: one for each level.
        kept_aside: the risks on domains that were kept aside (``certify``), whose certificates are
            proven; None without them.
        folder: where everything was written to or loaded from; None where it was not.
    """

    models: Mapping[str, Any]
    recommended: str
    evaluation: Evaluation
    summary: str
    risk_table: RiskTable
    decisions: tuple[Decision, ...]
    kept_aside: Evaluation | None
    _printed: Callable[[Path | None], str]
    _write: Callable[[Path], list[Path]]
    _report: Callable[[Path], None]
    folder: Path | None = None

    @classmethod
    def of(
        cls,
        training: TableTraining,
        confidence: float = 0.95,
        source: str = "",
        command: str | None = None,
    ) -> TrainingResult:
        """The result of a training that has just ended."""
        output = TrainingOutput(training, confidence, source, command)
        return cls(
            training.models,
            training.decision.chosen,
            training.evaluation,
            output.summary,
            output.table,
            training.decisions,
            None if training.aside is None else training.aside.evaluation,
            output.screen,
            output.write,
            output.report,
        )

    @property
    def decision(self) -> Decision:
        """The decision on the level closest to 0.9."""
        return min(self.decisions, key=lambda d: abs(d.level.alpha - 0.9))

    def printed(self, folder: Path | None = None) -> str:
        """The part of the summary that the command prints; all of it once loaded."""
        return self._printed(folder)

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
            levels = list(dict.fromkeys(level for level in given if level is not None))
            decisions = tuple(map(Decision.from_dict, content["decisions"]))
            aside = folder / "kept-aside.json"
            kept = None
            if aside.name in content["files"]:
                kept = Evaluation.from_dict(
                    parsed_json(regular_file(aside).read_text(encoding="utf-8"))
                )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DataFileError):
                raise
            raise DataFileError(f"The folder {folder} is damaged: {error}. Train again.") from None
        confidence = float(content["confidence"])
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

        def printed(to: Path | None) -> str:
            return summary

        told = decisions, kept, printed, write, report, folder
        return cls(models, best, evaluation, summary, table, *told)

    def __repr__(self) -> str:
        return (
            f"TrainingResult({counted(len(self.models), 'model')}, "
            f"{counted(len(self.evaluation.domains), 'domain')}, recommended: "
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
        """The decision and the table of risks, for a notebook."""
        return f"{lines_in_html(str(self.decision))}{self.risk_table._repr_html_()}"

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
