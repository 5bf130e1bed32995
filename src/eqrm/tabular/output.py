"""The output of a training: models, risk table, report and summary, in one folder."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

from eqrm.errors import MissingExtraError, SettingError
from eqrm.evaluation.presenting.plots import draw_cdfs_and_tails, save_figure
from eqrm.evaluation.presenting.report import write_report
from eqrm.evaluation.presenting.risk_curves import step_curves
from eqrm.files.writing import DRAFT, whole_file, whole_files, write_text
from eqrm.tabular.answer import report_table, training_answer
from eqrm.tabular.comparison import TrainingComparison
from eqrm.tabular.model import save_table_model
from eqrm.tabular.training import TableTraining
from eqrm.tabular.wording import choices_in_words, in_words

ENDING = ".safetensors"
LISTED = "files.json"
"""Lists what a training wrote, so that the next one in the same folder can replace it."""
WRITER = "eqrm train"


def check_folder(folder: Path, ours: Collection[str] | None = None) -> None:
    """Raise if the results cannot be written there without overwriting other files.

    ``ours`` are names that may be replaced; by default what an earlier training listed.
    """
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file. Choose a folder for the output.")
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    inside = {name for name in there if not DRAFT.fullmatch(name)}
    known = inside <= set(ours) if ours is not None else _earlier(folder) is not None
    if inside and not known:
        raise SettingError(
            f"The folder {folder} contains other files. Choose a new one, or empty it."
        )
    above = folder if folder.is_dir() else _first_that_exists(folder)
    if not os.access(above, os.W_OK):
        raise SettingError(f"The folder {above} is not writable. Choose another.")


def _first_that_exists(folder: Path) -> Path:
    return next(parent for parent in folder.resolve().parents if parent.exists())


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
        write_text(draft / LISTED, _listing(names))
        if folder.exists():
            earlier = _earlier(folder) or []
            # Listed before they are there: if this is killed now, the next training goes on.
            write_text(folder / LISTED, _listing([*earlier, *names]))
            _remove(folder, set(earlier) - set(names))
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


def _listing(names: list[str]) -> str:
    return json.dumps({"written by": WRITER, "files": names}, indent=1) + "\n"


def _summary(training: TableTraining, compared: TrainingComparison) -> str:
    parts = [in_words(training, compared), choices_in_words(compared), compared.summary.to_text()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _earlier(folder: Path) -> list[str] | None:
    """What an earlier training listed, or None: a list that something else wrote does not count."""
    try:
        listed = json.loads((folder / LISTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(listed, dict) or listed.get("written by") != WRITER:
        return None
    return [str(name) for name in listed["files"]]


def _remove(folder: Path, names: Collection[str]) -> None:
    """Remove files that an earlier training listed, and only those inside the folder."""
    for name in names:
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()):
            path.unlink(missing_ok=True)
