"""What a run leaves behind: JSON, CSV, figures, and a page for the documentation."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import eqrm
from eqrm.errors import MissingExtraError
from eqrm.evaluation.presenting.plots import save_figure
from eqrm.reproductions.base import Cell, Outcome, Reproduction, Table
from eqrm.reproductions.cost import Cost


@dataclass(frozen=True)
class Report:
    """A finished run. ``no_pictures`` says why there are none, where that is so."""

    reproduction: Reproduction
    outcome: Outcome
    size: str
    seed: int
    cost: Cost
    no_pictures: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.outcome.checks)

    @property
    def verdict(self) -> str:
        """How many checks hold, in words."""
        held = sum(check.holds for check in self.outcome.checks)
        return f"{held} of {len(self.outcome.checks)} checks hold"

    @property
    def steps(self) -> str:
        """How long the steps took, in words."""
        parts = [f"{step} {seconds:.2g} s" for step, seconds in self.outcome.timings.items()]
        return f" ({', '.join(parts)})" if parts else ""


def draw_pictures(outcome: Outcome, folder: Path, formats: Sequence[str]) -> str | None:
    """Draw every picture in every format; where matplotlib is missing, return the reason."""
    try:
        for picture in outcome.pictures:
            for ending in formats:
                save_figure(picture.draw(), folder / f"{picture.name}.{ending}")
    except MissingExtraError as error:
        return str(error)
    return None


def write_results(report: Report, folder: Path) -> None:
    """Write ``results.json``, ``checks.csv`` and a CSV file per table."""
    outcome = report.outcome
    record = {
        "name": report.reproduction.name,
        "reproduces": report.reproduction.reproduces,
        "sources": report.reproduction.sources,
        "version": eqrm.__version__,
        "size": report.size,
        "seed": report.seed,
        "settings": dict(outcome.settings),
        "passed": report.passed,
        "cost": asdict(report.cost),
        "timings": dict(outcome.timings),
        "checks": [asdict(check) for check in outcome.checks],
        "remarks": outcome.remarks,
        "tables": {
            table.name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in outcome.tables
        },
    }
    text = json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    for table in (*outcome.tables, checks_table(outcome)):
        with (folder / f"{table.name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table.columns)
            writer.writerows(table.rows)


def checks_table(outcome: Outcome) -> Table:
    """The checks as a table."""
    columns = ["holds", "claim", "measured", "needed", "source"]
    rows: list[list[Cell]] = [
        [c.holds, c.claim, c.measured, c.needed, c.source] for c in outcome.checks
    ]
    return Table("checks", "Checks", columns, rows)


def _plain(value: Any) -> Any:
    """The same for JSON, which has no infinity and no NaN: they become text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def write_page(report: Report, folder: Path) -> Path:
    """Write ``README.md`` and its pictures into ``folder``; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = draw_pictures(report.outcome, folder, ("svg",))
    page = folder / "README.md"
    page.write_text(page_text(report, pictures=missing is None), encoding="utf-8")
    return page


def page_text(report: Report, pictures: bool = True) -> str:
    """The page in Markdown."""
    it, outcome = report.reproduction, report.outcome
    quick = " --quick" if report.size == "quick" else ""
    seed = f" --seed {report.seed}" if report.seed else ""
    parts = [
        f"# {it.title}",
        f"Reproduces: {it.reproduces}. Written by "
        f"`eqrm reproduce {it.name}{quick}{seed} --write-docs docs/reproductions`; "
        "run it again rather than edit this page.",
        f"**{report.verdict}.** This run took {report.cost}{report.steps}.",
    ]
    if pictures:
        parts += [
            f"![{each.caption}]({each.name}.svg)\n\n{each.caption}" for each in outcome.pictures
        ]
    parts += ["## Checks", checks_table(outcome).markdown()]
    if outcome.remarks:
        parts += ["## Remarks", "\n".join(f"- {remark}" for remark in outcome.remarks)]
    for table in outcome.tables:
        parts += [f"## {table.title}", table.markdown()]
    settings = "\n".join(f"- {key}: {value}" for key, value in outcome.settings.items())
    parts += ["## Settings", settings, "## Sources"]
    parts += ["\n".join(f"- {source}" for source in it.sources)]
    return "\n\n".join(parts) + "\n"
