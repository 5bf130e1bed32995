"""What a reproduction is: settings, checks against expected values, tables, pictures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from eqrm.errors import SettingError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from eqrm.reproductions.report import Report

SIZES = ("full", "quick")
Cell = str | float | bool | None
Progress = Callable[[float, str], None]


def no_progress(share: float, what: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Check:
    """A claim, whether it holds, and the numbers on both sides.

    ``source`` says where the claim comes from.

    >>> print(Check("spread shrinks", True, "2.1 > 0.4", "a falling sequence", "Figure 3 B"))
    PASS  spread shrinks: 2.1 > 0.4 (needed: a falling sequence)
    """

    claim: str
    holds: bool
    measured: str
    needed: str
    source: str

    def __str__(self) -> str:
        word = "PASS" if self.holds else "FAIL"
        return f"{word}  {self.claim}: {self.measured} (needed: {self.needed})"


@dataclass(frozen=True)
class Table:
    """Numbers and words in rows: a CSV file, and a table on the page.

    >>> print(Table("risks", "Risk by level", ["level", "risk"], [["0.9", 1.5551]]).markdown())
    | level | risk |
    |---|---:|
    | 0.9 | 1.555 |
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers only."""
        width = range(len(self.columns))
        return [all(isinstance(row[j], float) for row in self.rows) for j in width]

    def markdown(self) -> str:
        """The table in Markdown, four digits."""
        marks = "".join("---:|" if numeric else "---|" for numeric in self.numeric)
        lines = [_row(self.columns), f"|{marks}"]
        lines += [_row([short(cell) for cell in row]) for row in self.rows]
        return "\n".join(lines)

    def text(self) -> str:
        """The table in aligned columns, four digits, under its title."""
        rows = [list(self.columns), *([short(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[j]) for row in rows) for j in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.rjust(width) if numeric else cell.ljust(width)
                for cell, width, numeric in zip(row, widths, self.numeric, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.title, *lines])


def short(cell: Cell) -> str:
    """A cell for people: four digits, ✓ and ✗.

    >>> short(0.123456), short(True), short(None), short(-0.0)
    ('0.1235', '✓', '', '0')
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "✓" if cell else "✗"
    if isinstance(cell, float):
        return f"{cell + 0.0:.4g}"
    return cell


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@dataclass(frozen=True)
class Picture:
    """A figure with its caption; ``draw`` makes it and computes nothing."""

    name: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Outcome:
    """What a computation found.

    ``remarks`` are sentences (exceptions, and where we differ), ``timings`` seconds by step.
    """

    settings: Mapping[str, Any]
    checks: Sequence[Check]
    tables: Sequence[Table]
    pictures: Sequence[Picture]
    remarks: Sequence[str] = field(default_factory=tuple)
    timings: Mapping[str, float] = field(default_factory=dict)


class Reproduction(ABC):
    """One table or figure of a paper. Subclasses say what and compute it."""

    name: ClassVar[str]
    title: ClassVar[str]
    reproduces: ClassVar[str]
    sources: ClassVar[tuple[str, ...]]

    @abstractmethod
    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Compute everything at "full" or "quick" size; nothing is written or drawn."""

    def run(
        self, output: Path, size: str = "full", seed: int = 0, progress: Progress = no_progress
    ) -> Report:
        """Compute, measure what it cost, write results and figures into ``output``."""
        from eqrm.reproductions.cost import measured
        from eqrm.reproductions.report import Report, draw_pictures, write_results

        if size not in SIZES:
            raise SettingError(f"There is no size {size!r}. {did_you_mean(size, SIZES)}")
        output.mkdir(parents=True, exist_ok=True)
        with measured() as cost:
            outcome = self.compute(size, seed, progress)
            missing = draw_pictures(outcome, output, ("svg", "pdf"))
        report = Report(self, outcome, size, seed, cost, missing)
        write_results(report, output)
        return report
