"""Tables of a sweep as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields

from eqrm.errors import Setting
from eqrm.markup import in_latex, in_markdown, latex_table, markdown_table
from eqrm.sweeps.tables.cells import ERROR_NOTE, PAPER, SelectedRun, SweepTable, SweepTables
from eqrm.text import aligned, counted, csv_text, one_line, printable

MOST_LINES = 20
"""Missing runs that text, Markdown and LaTeX name; CSV names all."""


def to_text(found: SweepTables, selected: bool = False) -> str:
    """Aligned columns under their titles, then notes and what is missing."""
    parts = [f"{title}\n{aligned(rows)}" for title, rows in _grids(found, selected)]
    parts += ["\n".join(notes(found)), *("\n".join(lines) for lines in _gaps(found))]
    return "\n\n".join(parts)


def to_markdown(found: SweepTables, selected: bool = False) -> str:
    """A Markdown table each, under a heading."""
    parts = [
        f"### {in_markdown(title)}\n\n{markdown_table(rows)}"
        for title, rows in _grids(found, selected)
    ]
    parts += map(in_markdown, notes(found))
    for heading, *lines in _gaps(found):
        parts.append("\n".join([f"{heading}\n", *(f"- {in_markdown(line)}" for line in lines)]))
    return "\n\n".join(parts)


def to_latex(found: SweepTables, selected: bool = False) -> str:
    """A tabular each, in the layout of the paper's appendix G.2 (needs booktabs)."""
    parts = [
        f"\\paragraph{{{in_latex(title)}}}\n{latex_table(rows)}"
        for title, rows in _grids(found, selected)
    ]
    lines = [*notes(found), *(line for gap in _gaps(found) for line in gap)]
    return "\n\n".join([*parts, "\n".join(f"% {line}" for line in lines)])


def to_csv(found: SweepTables, selected: bool = False) -> str:
    """A line per cell with all digits, accuracies as shares; or a line per selected run."""
    rows: list[list[object]]
    if selected:
        names = [field.name for field in fields(SelectedRun)]
        rows = [list(names)]
        for each in found.selected:
            place = [getattr(each, name) for name in names[:-1]]
            rows.append([*place, json.dumps(each.settings, ensure_ascii=False)])
        return csv_text(rows).rstrip("\n")
    header = ("table", "dataset", "selection", "objective", "source", "column", "value")
    rows = [[*header, "standard_error", "trials", "complete"]]
    for table in found.tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                if row.source == PAPER and cell.value is None:
                    continue
                place = [table.kind, table.dataset, table.rule, row.objective, row.source, column]
                rows.append([*place, cell.value, cell.error, cell.trials, int(cell.complete)])
    for kind, _, lines in found.gaps:
        rows += [[kind, *[""] * 4, line, *[""] * 4] for line in lines]
    return csv_text(rows).rstrip("\n")


FORMATS: dict[str, Callable[[SweepTables, bool], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
}
"""Format → the function that writes it; the flag asks for the selected runs."""
SUFFIXES = {".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv"}


def notes(found: SweepTables) -> list[str]:
    """What the numbers are."""
    cells = [c for t in found.tables for r in t.rows if r.source != PAPER for c in r.cells]
    lines = [f"Tables of {counted(found.runs, 'run')}."]
    if cells:
        lines[0] += f" {ERROR_NOTE}"
    if any(not cell.complete for cell in cells):
        lines.append(
            "† runs are missing or could not be judged: chosen among the others. – no value."
        )
    if any(row.source == PAPER for table in found.tables for row in table.rows):
        lines.append(
            "(paper): as printed in Probable Domain Generalization via Quantile Risk Minimization "
            "(NeurIPS 2022), section 6.2 and appendix G.2."
        )
    return lines


def _gaps(found: SweepTables) -> list[list[str]]:
    """Headings, each with its lines: runs that are missing, or could not be judged."""
    told = []
    for _, heading, lines in found.gaps:
        shown = [printable(line, lines=False) for line in lines[:MOST_LINES]]
        more = len(lines) - len(shown)
        rest = [f"and {more:,} more lines ({Setting('format', 'csv')} lists all)"] if more else []
        told.append([f"{heading}:", *shown, *rest])
    return told


def _grids(found: SweepTables, selected: bool) -> list[tuple[str, list[list[str]]]]:
    grids = [(printable(table.title, lines=False), _grid(table)) for table in found.tables]
    return [*grids, ("Selected runs", _selected_grid(found.selected))] if selected else grids


def _grid(table: SweepTable) -> list[list[str]]:
    header = ["objective", *map(one_line, table.columns)]
    return [header, *([one_line(r.label), *(c.text for c in r.cells)] for r in table.rows)]


def _selected_grid(selected: Sequence[SelectedRun]) -> list[list[str]]:
    header = ["dataset", "selection", "objective", "held out", "trial", "draw", "step", "score"]
    rows = [
        [
            *map(one_line, (s.dataset, s.rule, s.objective, s.held_out)),
            *(str(s.trial), str(s.draw), str(s.step), f"{s.score:.4g}"),
            *("" if s.value is None else f"{s.value:.4g}", one_line(s.run)),
            one_line(", ".join(f"{k}={_short(v)}" for k, v in s.settings.items())),
        ]
        for s in selected
    ]
    return [[*header, "reported", "run", "settings"], *rows]


def _short(value: object) -> str:
    """A value with four digits; CSV has all of them."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
