"""What a training gives back, fresh or from its folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqrm.checks import one_of
from eqrm.data.tables.frames import data_frame
from eqrm.errors import MissingExtraError, SettingError
from eqrm.evaluation.controlling.operating_point import OperatingPoint
from eqrm.evaluation.evaluation import LEVELS, SUPERQUANTILES, Evaluation
from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.presenting.plots import draw_cdfs_and_tails, new_figure, save_figure
from eqrm.evaluation.presenting.report import write_report
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary, summarised
from eqrm.files.checked_json import read_json
from eqrm.files.writing import whole_file, whole_files, write_text
from eqrm.level import Level
from eqrm.markup import lines_in_html
from eqrm.tabular.choosing.candidates import ForeignModel
from eqrm.tabular.choosing.decision import Decision
from eqrm.tabular.findings import expected_of, stated
from eqrm.tabular.model import load_table_model, save_table_model
from eqrm.tabular.output_folder import (
    LISTED,
    WRITER,
    check_folder,
    earlier_files,
    listed_files,
    refusing_damaged,
    saved_models,
)
from eqrm.tabular.predictions import seen_column
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import details, file_lines, first_screen, training_answer
from eqrm.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


REPORT, SUMMARY = "report.html", "summary.txt"
EVALUATION, KEPT_ASIDE, POINT = "evaluation.json", "kept-aside.json", "point.json"


def _write_report(
    training: TableTraining, about: Summary, confidence: float, command: str | None, path: Path
) -> None:
    """The page, with quantiles at usual and trained levels, estimated as decisions do."""
    levels = sorted({*(Level.of(alpha) for alpha in LEVELS), *training.contests})
    table = training.evaluation.risk_table(
        levels, SUPERQUANTILES, confidence=confidence, interpolation=SMOOTH
    )
    write_report(
        training.evaluation,
        path,
        command=command,
        table=replace(table, skills=training.skills),
        summary=about,
        answer=training_answer(training, confidence),
    )


def _risk_table(
    evaluation: Evaluation, decisions: Sequence[Decision], confidence: float
) -> RiskTable:
    """Quantiles at the trained levels, without one at 0.9, and the largest risk."""
    own = [each.alpha for each in decisions if each.alpha != Level(1.0)] or [Level(0.9)]
    return evaluation.risk_table(
        [*own, Level(1.0)], [], confidence=confidence, worst=0, interpolation=SMOOTH
    )


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The model to use, why, and how it and others do on domains that they have not seen.

    Attributes:
        decision: what to use for the level closest to 0.9, instead of what, and how sure that is.
        expected: a bound on the risk of new domains for it, by cross-fitted risks (a
            :class:`eqrm.evaluation.Certificate`, or None).
        certificate: the same by domains kept aside; None without them.
        refusals: why there is no bound, by "expected" and "certificate".
        models: the chosen models and plain training, fitted to all domains.
        evaluation: the cross-fitted risks of all candidates that are shown, and of constants
            (:class:`eqrm.Evaluation`), with bounds, comparisons and tests.
        summary: the decision and everything beside it, in words.
        table: mean and quantiles of risk, with intervals.
        decisions: one for each level.
        kept_aside: the risks on domains that were kept aside (``certify``), whose certificates are
            proven; None without them.
        point: the operating point of the model to use, where something was required of it.
        folder: where everything was written to or loaded from; None where it was not.
    """

    models: Mapping[str, Any]
    recommended: str
    evaluation: Evaluation
    summary: str
    table: RiskTable
    decisions: tuple[Decision, ...]
    kept_aside: Evaluation | None
    folder: Path | None = None
    point: OperatingPoint | None = None
    _confidence: float = 0.95
    _screen: str | None = None
    _report: Callable[[Path], None] | None = None

    @classmethod
    def of(
        cls,
        training: TableTraining,
        confidence: float = 0.95,
        source: str = "",
        command: str | None = None,
    ) -> TrainingResult:
        """The result of a training that has just ended."""
        decision, screen = training.decision, first_screen(training, confidence, source)
        about = summarised(
            training.evaluation,
            decision.alpha if decision.alpha.alpha < 1.0 else Level(0.9),
            confidence,
            baseline=decision.plain,
            interpolation=SMOOTH,
        )
        return cls(
            training.models,
            decision.chosen,
            training.evaluation,
            f"{screen}\n\n{details(training, about)}",
            _risk_table(training.evaluation, training.decisions, confidence),
            training.decisions,
            training.aside,
            None,
            training.point if isinstance(training.point, OperatingPoint) else None,
            confidence,
            screen,
            partial(_write_report, training, about, confidence, command),
        )

    @property
    def decision(self) -> Decision:
        """The decision on the level closest to 0.9."""
        return min(self.decisions, key=lambda d: abs(d.alpha.alpha - 0.9))

    @cached_property
    def _stated(self) -> dict[str, Certificate | str]:
        given = self.decision, self._confidence
        found = {"expected": expected_of(self.evaluation, *given)}
        if self.kept_aside is not None:
            found["certificate"] = stated(self.kept_aside, *given)
        return found

    @property
    def expected(self) -> Certificate | None:
        """What to expect of a new domain, for :attr:`decision`."""
        found = self._stated["expected"]
        return None if isinstance(found, str) else found

    @property
    def certificate(self) -> Certificate | None:
        """What the domains that were kept aside prove, for :attr:`decision`."""
        found = self._stated.get("certificate", "")
        return None if isinstance(found, str) else found

    @property
    def refusals(self) -> dict[str, str]:
        """Why there is no bound, by "expected" and "certificate"; not where none was asked for."""
        return {name: found for name, found in self._stated.items() if isinstance(found, str)}

    def printed(self, folder: Path | None = None) -> str:
        """The part of the summary that the command prints; all of it once loaded."""
        if self._screen is None:
            return self.summary
        if folder is None:
            return self._screen
        return f"{self._screen}\n\n{file_lines(folder, POINT if self.point else '')}"

    @classmethod
    def load(cls, folder: Path) -> TrainingResult:
        """The result that :meth:`save` or ``eqrm train`` left in a folder."""
        with refusing_damaged(folder):
            content = listed_files(folder) or {}
            files, best = saved_models(content)
            models = {name: load_table_model(folder / file) for name, file in files.items()}
            evaluation = Evaluation.from_dict(read_json(folder / EVALUATION))
            summary = (folder / SUMMARY).read_text(encoding="utf-8").removesuffix("\n")
            decisions = tuple(map(Decision.from_dict, content["decisions"]))
            kept = None
            if KEPT_ASIDE in content["files"]:
                kept = Evaluation.from_dict(read_json(folder / KEPT_ASIDE))
            point = OperatingPoint.load(folder / POINT) if POINT in content["files"] else None
            confidence = float(content["confidence"])
        table = _risk_table(evaluation, decisions, confidence)
        given = decisions, kept, folder, point, confidence
        return cls(models, best, evaluation, summary, table, *given)

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
        key = chosen.preprocessor.key
        columns = chosen.preprocessor.read(data, key.columns)
        seen, _ = seen_column(chosen.seen, data, key)
        return data_frame({**chosen.predict(columns, unseen), **seen}, like=data)

    def report(self, path: str | Path) -> Path:
        """Write the HTML page of the results, which needs nothing else to be opened."""
        if self._report is not None:
            self._report(Path(path))
        elif self.folder is not None:
            shutil.copyfile(self.folder / REPORT, path)
        return Path(path)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The risks of all models on unseen domains as curves, on these or new axes.

        See :meth:`eqrm.Evaluation.plot`.
        """
        return self.evaluation.plot(ax)

    def _repr_html_(self) -> str:
        """The decision and the table of risks, for a notebook."""
        return f"{lines_in_html(str(self.decision))}{self.table._repr_html_()}"

    def save(self, folder: str | Path) -> list[Path]:
        """Write everything to a folder, as ``eqrm train --output`` does.

        The folder is new, or that of an earlier training, which is replaced: what that wrote stays
        until all of this is written. :func:`eqrm.load` reads it.
        """
        to = Path(folder)
        check_folder(to)
        foreign = [n for n, m in self.models.items() if type(m.estimator) is ForeignModel]
        if foreign:
            raise SettingError(
                f"{', '.join(foreign)} holds an estimator of your own, which eqrm does not write "
                "to files. Use result.models in this session, or save the estimator yourself."
            )
        with whole_files(to, without=earlier_files(to) or ()) as draft:
            about: dict[str, Any] = {
                "models": self._write_models(draft),
                "recommended": self.recommended,
                "decisions": [each.to_dict() for each in self.decisions],
                "confidence": self._confidence,
            }
            self._write_results(draft)
            written = [path for path in draft.rglob("*") if path.is_file()]
            names = sorted(str(path.relative_to(draft)) for path in written)
            listed = {"written by": WRITER, "files": names, **about}
            write_text(draft / LISTED, json.dumps(listed, indent=1) + "\n")
        return [to / name for name in names]

    def to_dict(self) -> dict[str, Any]:
        """The evaluation, and ``training`` with the properties of the same names."""
        bounds = {"expected": self.expected, "certificate": self.certificate}
        return self.evaluation.to_dict() | {
            "training": {
                "decision": self.decision.to_dict(),
                "decisions": [each.to_dict() for each in self.decisions],
                **{name: found and found.to_dict() for name, found in bounds.items()},
                "refusals": self.refusals,
                "table": self.table.to_dict(),
            }
        }

    def _write_models(self, folder: Path) -> dict[str, str]:
        """A file for each model, named after it."""
        (folder / "models").mkdir()
        files = {}
        for name, model in self.models.items():
            words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
            files[name] = f"models/{'-'.join(words)}.safetensors"
            save_table_model(model, folder / files[name])
        return files

    def _write_results(self, folder: Path) -> None:
        self.report(folder / REPORT)
        texts = {
            SUMMARY: self.summary + "\n",
            "risk-table.md": self.table.to_markdown() + "\n",
            "risk-table.csv": self.table.to_csv(),
            EVALUATION: json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n",
        }
        if self.kept_aside is not None:
            texts[KEPT_ASIDE] = self.kept_aside.to_json() + "\n"
        for name, text in texts.items():
            write_text(folder / name, text)
        if self.point is not None:
            self.point.save(folder / POINT)
        try:
            figures = {"risk-cdfs.svg": draw_cdfs_and_tails(self.evaluation.models)}
            if self.point is not None:
                figures["requirement.svg"] = new_figure(width=5.2, height=3.4)
                self.point.plot(figures["requirement.svg"].subplots())
        except MissingExtraError:
            return  # the report holds the same curves
        for name, figure in figures.items():
            with whole_file(folder / name) as draft:
                save_figure(figure, draft)
