"""What a training leaves behind: models, risk table, report and summary, in one folder."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

from eqrm.errors import MissingExtraError, SettingError
from eqrm.evaluation.presenting.plots import draw_cdfs_and_tails, save_figure
from eqrm.evaluation.presenting.report import write_report
from eqrm.evaluation.presenting.risk_curves import step_curves
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import summarised
from eqrm.evaluation.rounding import as_percent
from eqrm.files.writing import whole_file
from eqrm.level import Level
from eqrm.tabular.gains import (
    ERM,
    Bargain,
    bargain_table,
    bargains,
    nearest,
    own_columns,
    predictor_name,
    quantile_table,
)
from eqrm.tabular.model import save_table_model
from eqrm.tabular.training import TableTraining

WIDTH = 96
ENDING = ".safetensors"
LISTED = "files.json"
"""Names what a training wrote, so that the next one in the same folder can replace it."""
WRITER = "eqrm train"
ONE_ROW = (
    "Every unseen domain has one row, so that its risk is the loss of that row, and sampling noise "
    "cannot be told from differences between domains. Is this the column of the domains?"
)


def risk_table(training: TableTraining, confidence: float) -> RiskTable:
    """Mean and quantiles at the trained levels and 1, a row per predictor."""
    levels = [*training.levels, Level(1.0)]
    return training.evaluation.risk_table(levels, [], confidence=confidence, worst=0)


def in_words(training: TableTraining, confidence: float) -> str:
    """The risk table, what each level bought and cost, and what that means."""
    found = bargains(training.evaluation, training.levels, confidence)
    table = risk_table(training, confidence)
    sure = as_percent(confidence)
    last = [*_warnings(training, nearest(found)), *(f"Note: {note}" for note in training.notes)]
    return "\n\n".join(
        [
            _wrapped(opening(training)),
            quantile_table(table),
            _wrapped(
                "Mean and quantiles of the risk over unseen domains (0.9: nine of ten domains have "
                f"at most this risk; * the lowest). {own_columns(table)}"
            ),
            f"What each level buys on unseen domains, and what it costs:\n{bargain_table(found)}",
            _wrapped(
                f"Certified: with {sure} confidence, the share α of new domains that are drawn "
                "like these have at most this risk; too few domains carry no such statement."
            ),
            _wrapped(nearest(found).sentences()),
            *([_wrapped(*last)] if last else []),
        ]
    )


def opening(training: TableTraining) -> str:
    """Rows and domains on both sides, and what a risk is."""
    judged = training.evaluation
    name = next(iter(training.models.values())).preprocessor.domain_name
    loss = {"squared": "squared error"}.get(judged.loss, judged.loss)
    return (
        f"Trained on {training.train_domains:,} domains ({training.train_rows:,} rows), judged on "
        f"{len(judged.domains):,} that no model has seen ({judged.examples:,} rows). A domain is a "
        f"value of {name!r}; its risk is the mean {loss} of its rows."
    )


def _warnings(training: TableTraining, first: Bargain) -> list[str]:
    """What makes the numbers less than they seem: noise, and domains that are not alike."""
    judged, name = training.evaluation, predictor_name(first.level)
    splits = {each: judged.noise[each] for each in (ERM, name)}
    found = [(each, ONE_ROW if split is None else split.warning) for each, split in splits.items()]
    found += [(name, test.warning) for test in judged.exchangeability[name]]
    return [f"Warning ({each}): {text}" for each, text in found if text]


def _wrapped(*paragraphs: str) -> str:
    return "\n".join(textwrap.fill(text, WIDTH, break_on_hyphens=False) for text in paragraphs)


def check_folder(folder: Path) -> None:
    """Raise if a training cannot be written there without harm to what is there."""
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file. Choose a folder for what is written.")
    if folder.is_dir() and any(folder.iterdir()) and _earlier(folder) is None:
        raise SettingError(f"The folder {folder} holds other files. Choose a new one, or empty it.")
    above = folder if folder.is_dir() else _first_that_exists(folder)
    if not os.access(above, os.W_OK):
        raise SettingError(f"The folder {above} cannot be written to. Choose another.")


def _first_that_exists(folder: Path) -> Path:
    return next(parent for parent in folder.resolve().parents if parent.exists())


def write_training(
    training: TableTraining, folder: Path, *, command: str, confidence: float = 0.95
) -> list[Path]:
    """Write everything into a folder and give the files; those of an earlier training go."""
    check_folder(folder)
    (folder / "models").mkdir(parents=True, exist_ok=True)
    _remove_earlier(folder)
    table = risk_table(training, confidence)
    written = [folder / "report.html"]
    summary = summarised(training.evaluation, _certified_level(training.levels), confidence)
    write_report(training.evaluation, written[0], command=command, table=None, summary=summary)
    texts = {
        "summary.txt": f"{in_words(training, confidence)}\n\n{summary.to_text()}\n",
        "risk-table.md": table.to_markdown() + "\n",
        "risk-table.csv": table.to_csv(),
        "evaluation.json": training.evaluation.to_json() + "\n",
    }
    for name, text in texts.items():
        written.append(folder / name)
        with whole_file(written[-1]) as draft:
            draft.write_text(text, encoding="utf-8")
    try:
        figure = draw_cdfs_and_tails(step_curves(training.evaluation))
        written.append(folder / "risk-cdfs.svg")
        with whole_file(written[-1]) as draft:
            save_figure(figure, draft)
    except MissingExtraError:
        pass  # the report holds the same curves
    for model in training.models.values():
        stem = "erm" if model.level is None else f"alpha-{str(model.level).replace('^', '')}"
        written.append(folder / "models" / f"{stem}{ENDING}")
        save_table_model(model, written[-1])
    names = [str(path.relative_to(folder)) for path in written]
    listed = {"written by": WRITER, "files": names}
    (folder / LISTED).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    return written


def _certified_level(levels: Sequence[Level]) -> Level:
    """The trained level next to 0.9 that a certificate can speak of, or 0.9 itself."""
    possible = [level for level in levels if level.alpha < 1.0]
    return min(possible, key=lambda level: abs(level.alpha - 0.9), default=Level(0.9))


def _earlier(folder: Path) -> list[str] | None:
    """What an earlier training listed, or None: a list that somebody else wrote is no leave."""
    try:
        listed = json.loads((folder / LISTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(listed, dict) or listed.get("written by") != WRITER:
        return None
    return [str(name) for name in listed["files"]]


def _remove_earlier(folder: Path) -> None:
    """Remove the files that an earlier training listed, and only those inside the folder."""
    for name in _earlier(folder) or []:
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()):
            path.unlink(missing_ok=True)
