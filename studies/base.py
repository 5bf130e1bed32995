"""A reproduction, and what a run of it leaves behind: JSON, CSV, figures, a page of the docs."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import Field, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import eqrm
from eqrm.checks import one_of
from eqrm.errors import MissingExtraError
from eqrm.evaluation.presenting.plots import save_figure
from eqrm.files.writing import write_text
from eqrm.text import csv_text, duration
from studies.outcome import Outcome, Progress


def no_progress(share: float, what: str) -> None:
    """Show nothing."""


class Study(ABC):
    """One table or figure of a paper. Subclasses say what and compute it."""

    name: ClassVar[str]
    title: ClassVar[str]
    reproduces: ClassVar[str]
    sources: ClassVar[tuple[str, ...]]
    beside: ClassVar[tuple[str, ...]] = ("device", "workers")
    """Settings of ``--set`` that results do not depend on."""
    output = Path()
    """Where it keeps results, once it runs."""

    @property
    def given(self) -> dict[str, Any]:
        """The other settings, where they are not the defaults, as they are typed."""
        own: Sequence[Field[Any]] = fields(self) if is_dataclass(self) else ()
        defaults = {each.name: each.default for each in own if each.name not in self.beside}
        found = {name: getattr(self, name) for name in defaults}
        return {name: _typed(it) for name, it in found.items() if it != defaults[name]}

    def missing(self, size: str = "full") -> list[str]:
        """What has to be there before it can run, a sentence each, with what to do."""
        return []

    @abstractmethod
    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Compute everything at "full" or "quick" size; nothing is written or drawn."""

    def run(
        self, output: Path, size: str = "full", seed: int = 0, progress: Progress = no_progress
    ) -> Report:
        """Compute, measure what it cost, write results and figures into ``output``."""
        one_of(size, ("full", "quick"), "size")
        self.output = output
        output.mkdir(parents=True, exist_ok=True)
        with _measured() as cost:
            outcome = self.compute(size, seed, progress)
            missing = _draw_pictures(outcome, output, ("svg", "pdf"))
        report = Report(self, outcome, size, seed, cost, missing)
        _write_results(report, output)
        return report


def _typed(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


@dataclass
class Cost:
    """``seconds`` of wall-clock time and of all cores, and the largest memory of the process."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_megabytes: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.seconds:.1f} s wall clock, {self.cpu_seconds:.1f} s of processor time, "
            f"{self.peak_megabytes:.0f} MB peak memory"
        )


@contextmanager
def _measured() -> Iterator[Cost]:
    """Measure a block; the numbers are there when it has ended."""
    cost = Cost()
    wall, processor = time.perf_counter(), _processor_seconds()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - wall
        cost.cpu_seconds = _processor_seconds() - processor
        cost.peak_megabytes = _peak_megabytes()


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _peak_megabytes() -> float:
    """The largest resident memory this process has had; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


@dataclass(frozen=True)
class Report:
    """A finished run. ``no_pictures`` says why there are none, where that is so."""

    study: Study
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
        """A phrase with the number of checks that hold."""
        held = sum(check.holds for check in self.outcome.checks)
        return f"{held} of {len(self.outcome.checks)} checks hold"

    @property
    def steps(self) -> str:
        """A phrase with the time that the steps took."""
        parts = [
            f"{step} {duration(seconds) if seconds > 100.0 else f'{seconds:.2g} s'}"
            for step, seconds in self.outcome.timings.items()
        ]
        return f" ({', '.join(parts)})" if parts else ""


def _draw_pictures(outcome: Outcome, folder: Path, formats: Sequence[str]) -> str | None:
    """Draw every picture in every format; where matplotlib is missing, return the reason."""
    try:
        for picture in outcome.pictures:
            for ending in formats:
                save_figure(picture.draw(), folder / f"{picture.name}.{ending}")
    except MissingExtraError as error:
        return str(error)
    return None


def _write_results(report: Report, folder: Path) -> None:
    """Write ``results.json``, ``checks.csv`` and a CSV file per table."""
    outcome = report.outcome
    record = {
        "name": report.study.name,
        "reproduces": report.study.reproduces,
        "sources": report.study.sources,
        "version": eqrm.__version__,
        "size": report.size,
        "seed": report.seed,
        "settings": dict(outcome.settings),
        "passed": report.passed,
        "cost": asdict(report.cost),
        "timings": dict(outcome.timings),
        "checks": [asdict(check) for check in outcome.checks],
        "answer": outcome.answer,
        "remarks": outcome.remarks,
        "tables": {
            table.name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in outcome.tables
        },
    }
    text = json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(folder / "results.json", f"{text}\n")
    for table in (*outcome.tables, outcome.checks_table()):
        write_text(folder / f"{table.name}.csv", csv_text([table.columns, *table.rows]))


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
    missing = _draw_pictures(report.outcome, folder, ("svg",))
    page = folder / "README.md"
    write_text(page, _page_text(report, pictures=missing is None))
    return page


def _page_text(report: Report, pictures: bool = True) -> str:
    """The page in Markdown."""
    it, outcome = report.study, report.outcome
    quick = " --quick" if report.size == "quick" else ""
    seed = f" --seed {report.seed}" if report.seed else ""
    given = "".join(f" --set {name}={value}" for name, value in it.given.items())
    parts = [
        f"# {it.title}",
        f"Reproduces: {it.reproduces}. Written by "
        f"`python -m studies {it.name}{quick}{seed}{given} --write-docs docs/reproductions`; "
        "run it again instead of editing this page.",
        f"**{report.verdict}.** This run took {report.cost}{report.steps}.",
        *([outcome.answer] if outcome.answer else []),
        *(table.section() for table in outcome.tables if table.on_page and table.leading),
    ]
    if pictures:
        parts += [
            f"![{each.caption}]({each.name}.svg)\n\n{each.caption}" for each in outcome.pictures
        ]
    parts += ["## Checks", outcome.checks_table().markdown()]
    if outcome.remarks:
        parts += ["## Remarks", "\n".join(f"- {remark}" for remark in outcome.remarks)]
    parts += [each.section() for each in outcome.tables if each.on_page and not each.leading]
    settings = "\n".join(f"- {key}: {value}" for key, value in outcome.settings.items())
    parts += ["## Settings", settings, "## Sources"]
    parts += ["\n".join(f"- {source}" for source in it.sources)]
    return "\n\n".join(parts) + "\n"
