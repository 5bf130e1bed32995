"""The output of a training: models, risk table, report and summary, in one folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eqrm.errors import MissingExtraError, SettingError
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.presenting.plots import draw_cdfs_and_tails, save_figure
from eqrm.evaluation.presenting.report import write_report
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary, summarised
from eqrm.files.writing import whole_file, whole_files, write_text
from eqrm.level import Level
from eqrm.tabular.answer import report_table, training_answer
from eqrm.tabular.choosing.candidates import ForeignModel
from eqrm.tabular.model import save_table_model
from eqrm.tabular.output_folder import LISTED, check_folder, earlier_files, listing
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import details, file_lines, first_screen

ENDING, REPORT, SUMMARY = ".safetensors", "report.html", "summary.txt"


@dataclass(frozen=True, eq=False)
class TrainingOutput:
    """Everything that is said about a training, computed once, and written to a folder."""

    training: TableTraining
    confidence: float
    source: str = ""
    command: str | None = None

    @cached_property
    def table(self) -> RiskTable:
        """Mean and quantiles at the trained levels, and the largest risk."""
        levels = [each.level for each in self.training.decisions]
        return self.training.evaluation.risk_table(
            table_levels(levels), [], confidence=self.confidence, worst=0, interpolation=SMOOTH
        )

    @cached_property
    def about(self) -> Summary:
        """Noise, signs that domains are not exchangeable, and differences."""
        decision = self.training.decision
        certified = decision.level if decision.level.alpha < 1.0 else Level(0.9)
        return summarised(
            self.training.evaluation,
            certified,
            self.confidence,
            baseline=decision.plain,
            interpolation=SMOOTH,
        )

    def screen(self, folder: Path | None = None) -> str:
        """What is printed."""
        told = first_screen(self.training, self.confidence, self.source)
        return told if folder is None else f"{told}\n\n{file_lines(folder)}"

    @cached_property
    def summary(self) -> str:
        """What is printed, and all details."""
        return f"{self.screen()}\n\n{details(self.training, self.about)}"

    def report(self, path: Path) -> None:
        """Write the page."""
        write_report(
            self.training.evaluation,
            path,
            command=self.command,
            table=report_table(self.training, self.confidence),
            summary=self.about,
            answer=training_answer(self.training, self.confidence),
        )

    def write(self, folder: Path) -> list[Path]:
        """Write everything to a folder, in place of an earlier training, and return the files.

        What the earlier training wrote stays until all of this is written.
        """
        check_folder(folder)
        foreign = [n for n, m in self.training.models.items() if type(m.estimator) is ForeignModel]
        if foreign:
            raise SettingError(
                f"{', '.join(foreign)} holds an estimator of your own, which eqrm does not write "
                "to files. Use result.models in this session, or save the estimator yourself."
            )
        with whole_files(folder, without=earlier_files(folder) or ()) as draft:
            files, models = self._written(draft)
            names = [str(path.relative_to(draft)) for path in (*files, *models.values())]
            about: dict[str, Any] = {
                "models": {name: str(path.relative_to(draft)) for name, path in models.items()},
                "recommended": self.training.decision.chosen,
                "decisions": [each.to_dict() for each in self.training.decisions],
                "confidence": self.confidence,
            }
            write_text(draft / LISTED, listing(names, about))
        return [folder / name for name in names]

    def _written(self, folder: Path) -> tuple[list[Path], dict[str, Path]]:
        """Write all results to an empty folder: files, and the models by name."""
        (folder / "models").mkdir()
        training, report = self.training, folder / REPORT
        self.report(report)
        texts = {
            SUMMARY: self.summary + "\n",
            "risk-table.md": self.table.to_markdown() + "\n",
            "risk-table.csv": self.table.to_csv(),
            "evaluation.json": training.evaluation.to_json() + "\n",
        }
        if training.aside is not None:
            texts["kept-aside.json"] = training.aside.evaluation.to_json() + "\n"
        for name, text in texts.items():
            write_text(folder / name, text)
        written = [report, *(folder / name for name in texts)]
        try:
            figure = draw_cdfs_and_tails(training.evaluation.predictors)
            written.append(folder / "risk-cdfs.svg")
            with whole_file(written[-1]) as draft:
                save_figure(figure, draft)
        except MissingExtraError:
            pass  # the report holds the same curves
        models = model_files(training.models, folder / "models")
        for name, path in models.items():
            save_table_model(training.models[name], path)
        return written, models


def model_files(models: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """A file for each model, named after it.

    >>> model_files({"logistic, trained for 9 in 10": None}, Path("models"))
    {'logistic, trained for 9 in 10': PosixPath('models/logistic-trained-for-9-in-10.safetensors')}
    """
    stems = {
        name: "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
        for name in models
    }
    return {name: folder / f"{stem}{ENDING}" for name, stem in stems.items()}


def table_levels(levels: list[Level]) -> list[Level]:
    """The columns of quantiles: the trained levels, without one 0.9, and the largest risk."""
    own = [level for level in levels if level != Level(1.0)]
    return [*(own or [Level(0.9)]), Level(1.0)]
