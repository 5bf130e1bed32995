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
from eqrm.tabular.output_folder import LISTED, check_folder, earlier_files, listing, remove_files
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import choices_in_words, in_words

ENDING = ".safetensors"


def write_training(
    training: TableTraining, compared: TrainingComparison, folder: Path, *, command: str
) -> list[Path]:
    """Write everything to a folder, in place of an earlier training, and return the files.

    What the earlier training wrote stays until all of this is written.
    """
    check_folder(folder)
    with whole_files(folder) as draft:
        written = _written(training, compared, draft, command)
        names = [str(path.relative_to(draft)) for path in written]
        write_text(draft / LISTED, listing(names))
        if folder.exists():
            earlier = earlier_files(folder) or []
            # Listed before they are there: if this is killed now, the next training goes on.
            write_text(folder / LISTED, listing([*earlier, *names]))
            remove_files(folder, set(earlier) - set(names))
    return [folder / name for name in names]


def _written(
    training: TableTraining, compared: TrainingComparison, folder: Path, command: str
) -> list[Path]:
    """Write all results to an empty folder."""
    (folder / "models").mkdir()
    judged, table, summary = training.evaluation, compared.table, compared.summary
    report = folder / "report.html"
    shown = report_table(training, compared.confidence)
    answer = training_answer(training, compared, shown)
    write_report(judged, report, command=command, table=shown, summary=summary, answer=answer)
    texts = {
        "summary.txt": _summary(training, compared),
        "risk-table.md": table.to_markdown() + "\n",
        "risk-table.csv": table.to_csv(),
        "evaluation.json": judged.to_json() + "\n",
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    written = [report, *(folder / name for name in texts)]
    try:
        figure = draw_cdfs_and_tails(step_curves(judged))
        written.append(folder / "risk-cdfs.svg")
        with whole_file(written[-1]) as draft:
            save_figure(figure, draft)
    except MissingExtraError:
        pass  # the report holds the same curves
    for name, model in training.models.items():
        stem = name.lower().replace("α = ", "alpha-").replace("^", "")
        stem = stem.replace("erm recalibrated for ", "recalibrated-")
        written.append(folder / "models" / f"{stem}{ENDING}")
        save_table_model(model, written[-1])
    return written


def _summary(training: TableTraining, compared: TrainingComparison) -> str:
    parts = [in_words(training, compared), choices_in_words(compared), compared.summary.to_text()]
    return "\n\n".join(part for part in parts if part) + "\n"
