"""What a computation found: checks against expected values, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eqrm.markup import markdown_table
from eqrm.text import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | float | bool | None
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Check:
    """A claim, whether it holds, and the numbers on both sides.

    ``source`` says where the claim comes from.
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
class ResultTable:
    """Numbers and words in rows: a CSV file, and a table on the page unless ``on_page`` is False.

    On the page, ``leading`` tables stand before the pictures, and ``folded`` ones open on a click.
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    on_page: bool = True
    leading: bool = False
    folded: bool = False

    def markdown(self) -> str:
        """The table in Markdown, four digits."""
        columns = [[row[j] for row in self.rows] for j in range(len(self.columns))]
        numbers = [all(isinstance(cell, float) for cell in column) for column in columns]
        return markdown_table(self._texts(), numbers, escaped=False)

    def section(self) -> str:
        """The table under its title, or folded away under it."""
        if self.folded:
            summary = f"<details><summary>{self.title}</summary>"
            return f"{summary}\n\n{self.markdown()}\n\n</details>"
        return f"## {self.title}\n\n{self.markdown()}"

    def text(self) -> str:
        """The table in aligned columns, four digits, under its title."""
        return f"{self.title}\n{aligned(self._texts())}"

    def _texts(self) -> list[list[str]]:
        return [list(self.columns), *([_text(cell) for cell in row] for row in self.rows)]


def _text(cell: Cell) -> str:
    """A cell for people: four digits, ✓ and ✗."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "✓" if cell else "✗"
    if isinstance(cell, float):
        return f"{cell + 0.0:.4g}"
    return cell


def percent(share: float | None, digits: int = 1) -> str:
    """A share in per cent; nothing where there is none."""
    return "" if share is None else f"{100.0 * share:.{digits}f}%"


@dataclass(frozen=True)
class Picture:
    """A figure with its caption; ``draw`` makes it and computes nothing."""

    name: str
    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Outcome:
    """What a computation found.

    ``answer`` is what the page opens with; ``remarks`` are sentences (exceptions, and where we
    differ), ``timings`` seconds by step.
    """

    settings: Mapping[str, Any]
    checks: Sequence[Check]
    tables: Sequence[ResultTable]
    pictures: Sequence[Picture]
    remarks: Sequence[str] = field(default_factory=tuple)
    timings: Mapping[str, float] = field(default_factory=dict)
    answer: str = ""

    def checks_table(self) -> ResultTable:
        """The checks as a table."""
        columns = ["holds", "claim", "measured", "needed", "source"]
        rows = [[getattr(check, column) for column in columns] for check in self.checks]
        return ResultTable("checks", "Checks", columns, rows)
