"""The output of a training: models, risk table, report and summary, in one folder."""

from __future__ import annotations

from pathlib import Path

from eqrm.errors import MissingExtraError
from eqrm.evaluation.presenting.plots import draw_cdfs_and_tails, save_figure
from eqrm.evaluation.presenting.report import write_report
from eqrm.evaluation.presenting.risk_curves import step_curves
from eqrm.files.writing import whole_file, whole_files, write_text
from eqrm.tabular.answer import report_table, training_answer
from eqrm.tabular.comparison import TrainingComparison
from eqrm.tabular.model import save_table_model
from eqrm.tabular.output_folder import LISTED, check_folder, earlier_files, listing
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import choices_in_words, in_words

ENDING, REPORT, SUMMARY = ".safetensors", "report.html", "summary.txt"


def write_training(
    training: TableTraining, compared: TrainingComparison, folder: Path, command: str | None = None
) -> list[Path]:
    """Write everything to a folder, in place of an earlier training, and return the files.

    What the earlier training wrote stays until all of this is written.
    """
    check_folder(folder)
    with whole_files(folder, without=earlier_files(folder) or ()) as draft:
        files, models = _written(training, compared, draft, command)
        names = [str(path.relative_to(draft)) for path in (*files, *models.values())]
        about = {
            "models": {name: str(path.relative_to(draft)) for name, path in models.items()},
            "recommended": compared.recommended,
            "confidence": compared.confidence,
        }
        write_text(draft / LISTED, listing(names, about))
    return [folder / name for name in names]


def _written(
    training: TableTraining, compared: TrainingComparison, folder: Path, command: str | None
) -> tuple[list[Path], dict[str, Path]]:
    """Write all results to an empty folder: files, and the models by name."""
    (folder / "models").mkdir()
    judged, table, report = training.evaluation, compared.table, folder / REPORT
    write_training_report(training, compared, report, command=command)
    texts = {
        SUMMARY: summary_of(training, compared) + "\n",
        "risk-table.md": table.to_markdown() + "\n",
        "risk-table.csv": table.to_csv(),
        "evaluation.json": judged.to_json() + "\n",
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    written = [report, *(folder / name for name in texts)]
    try:
        figure = draw_cdfs_and_tails(step_curves(judged.predictors))
        written.append(folder / "risk-cdfs.svg")
        with whole_file(written[-1]) as draft:
            save_figure(figure, draft)
    except MissingExtraError:
        pass  # the report holds the same curves
    models = {}
    for name, model in training.models.items():
        stem = name.lower().replace("α = ", "alpha-").replace("^", "")
        stem = stem.replace("erm recalibrated for ", "recalibrated-")
        models[name] = folder / "models" / f"{stem}{ENDING}"
        save_table_model(model, models[name])
    return written, models


def write_training_report(
    training: TableTraining, compared: TrainingComparison, path: Path, command: str | None = None
) -> None:
    """Write the page of a training."""
    shown = report_table(training, compared.confidence)
    answer, summary = training_answer(training, compared, shown), compared.summary
    write_report(
        training.evaluation, path, command=command, table=shown, summary=summary, answer=answer
    )


def summary_of(training: TableTraining, compared: TrainingComparison) -> str:
    """The verdict, how surrogates were chosen, and certificates, noise and differences."""
    parts = [in_words(training, compared), choices_in_words(compared), compared.summary.to_text()]
    return "\n\n".join(part for part in parts if part)
