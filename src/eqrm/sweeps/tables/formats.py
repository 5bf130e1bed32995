"""Tables of a sweep as text, Markdown, LaTeX, CSV and a page of HTML with pictures."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from eqrm.errors import MissingExtraError, Setting
from eqrm.markup import Shown, html_table, in_latex, in_markdown, latex_table, markdown_table
from eqrm.sweeps.tables.cells import (
    OVER_DOMAINS,
    PAPER,
    QUANTILES,
    SelectedRun,
    SweepTable,
    SweepTables,
)
from eqrm.text import aligned, counted, csv_text, one_line, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 20
"""Missing runs that text, Markdown and LaTeX name; CSV and HTML name all."""
MOST_NAMED = 24
"""With more columns than this, their names do not fit below the picture."""
MOST_LETTERS = 12
"""Longer names are slanted, so that they do not run into each other."""
SELECTED = "Selected runs"


def to_text(found: SweepTables, selected: bool = False) -> str:
    """Aligned columns under their titles, then notes and what is missing."""
    parts = [f"{title}\n{aligned(rows)}" for title, rows in _grids(found, selected)]
    parts += ["\n".join(notes(found)), *("\n".join(lines) for lines in _gaps(found, MOST_LINES))]
    return "\n\n".join(parts)


def to_markdown(found: SweepTables, selected: bool = False) -> str:
    """A Markdown table each, under a heading."""
    parts = [
        f"### {in_markdown(title)}\n\n{markdown_table(rows)}"
        for title, rows in _grids(found, selected)
    ]
    parts += map(in_markdown, notes(found))
    for heading, *lines in _gaps(found, MOST_LINES):
        parts.append("\n".join([f"{heading}\n", *(f"- {in_markdown(line)}" for line in lines)]))
    return "\n\n".join(parts)


def to_latex(found: SweepTables, selected: bool = False) -> str:
    """A tabular each, in the layout of the paper's appendix G.2 (needs booktabs)."""
    parts = [
        f"\\paragraph{{{in_latex(title)}}}\n{latex_table(rows)}"
        for title, rows in _grids(found, selected)
    ]
    lines = [*notes(found), *(line for gap in _gaps(found, MOST_LINES) for line in gap)]
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


def to_html(found: SweepTables, selected: bool = False) -> str:
    """One file: every table with its picture, what was selected, and what is missing."""
    from eqrm.evaluation.presenting.report.page import rendered  # slow to import

    parts, without = [], ""
    for table in found.tables:
        pictures: list[tuple[str, str]] = []
        try:
            pictures = pictures_of(table)
        except MissingExtraError as error:
            without = str(error)
        sources = ["", *(row.source for row in table.rows)]
        rows = [
            [Shown(cell, quiet=source == PAPER) for cell in line]
            for source, line in zip(sources, _grid(table), strict=True)
        ]
        parts.append((table.title, html_table(rows), pictures))
    return rendered(
        "sweep.html",
        headline=_headline(found),
        tables=parts,
        without=without,
        notes=notes(found),
        gaps=_gaps(found, most=None),
        selected=html_table(_selected_grid(found.selected)),
        opened=selected,
    )


FORMATS: dict[str, Callable[[SweepTables, bool], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
    "html": to_html,
}
"""Format → the function that writes it; the flag asks for the selected runs."""
SUFFIXES = {".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv", ".html": "html"}


def notes(found: SweepTables) -> list[str]:
    """What the numbers are."""
    cells = [c for t in found.tables for r in t.rows if r.source != PAPER for c in r.cells]
    lines = [f"{_headline(found)}. {found.error_note}"] if cells else [f"{_headline(found)}."]
    if any(not cell.complete for cell in cells):
        lines.append(
            "† runs are missing or could not be judged: chosen among the others. – no value."
        )
    if any(row.source == PAPER for table in found.tables for row in table.rows):
        lines.append(
            "(paper): as printed in Probable Domain Generalization via Quantile Risk Minimization "
            "(NeurIPS 2022), section 6.2 and appendix G.2."
        )
    return [*lines, *found.remarks]


def _headline(found: SweepTables) -> str:
    return f"Tables of {counted(found.runs, 'run')}"


def _gaps(found: SweepTables, most: int | None) -> list[list[str]]:
    """Headings, each with its lines: runs that are missing, were pruned, or could not be judged."""
    told = []
    for _, heading, lines in found.gaps:
        shown = [printable(line, lines=False) for line in lines[:most]]
        more = len(lines) - len(shown)
        csv = Setting("format", "csv")
        rest = [f"and {more:,} more lines ({csv} lists all)"] if more else []
        told.append([f"{heading}:", *shown, *rest])
    return told


def _grids(found: SweepTables, selected: bool) -> list[tuple[str, list[list[str]]]]:
    """Every table with its title."""
    grids = [(printable(table.title, lines=False), _grid(table)) for table in found.tables]
    return [*grids, (SELECTED, _selected_grid(found.selected))] if selected else grids


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
            printable(", ".join(f"{k}={_short(v)}" for k, v in s.settings.items()), lines=False),
        ]
        for s in selected
    ]
    return [[*header, "reported", "run", "settings"], *rows]


def _short(value: object) -> str:
    """A value with four digits; CSV has all of them.

    >>> _short(0.00123456), _short([8, 8])
    ('0.001235', '[8, 8]')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def pictures_of(table: SweepTable) -> list[tuple[str, str]]:
    """The pictures of a table: SVG as data URLs, each with a text for those who cannot see it."""
    figures = []
    if table.curves and any(table.curves.values()):
        figures.append((draw_quantile_curves(table), f"Quantile curves. {table.title}"))
    elif table.content != QUANTILES and table.form != OVER_DOMAINS:
        figures.append((draw_columns(table), f"Values with standard errors. {table.title}"))
    return [(_data_url(figure), alt) for figure, alt in figures]


def draw_columns(table: SweepTable) -> Figure:
    """A group of points per column, one per objective, with its standard error."""
    from eqrm.evaluation.presenting.plots import new_figure

    figure = new_figure(width=max(5.0, min(12.0, 1.2 * len(table.columns) + 2.0)), height=3.4)
    axes = figure.subplots()
    rows = [row for row in table.rows if row.source != PAPER]
    for number, (row, colour) in enumerate(zip(rows, _colours(len(rows)), strict=True)):
        shift = 0.6 * ((number + 0.5) / len(rows) - 0.5)
        scale = 100.0 if row.cells[0].percent else 1.0
        known = [(i + shift, cell) for i, cell in enumerate(row.cells) if cell.value is not None]
        axes.errorbar(
            [x for x, _ in known],
            [scale * cell.value for _, cell in known if cell.value is not None],
            yerr=[scale * (cell.error or 0.0) for _, cell in known],
            fmt="o",
            color=colour,
            markersize=4,
            label=str(number),
        )
    few = len(table.columns) <= MOST_NAMED
    axes.set_xticks(range(len(table.columns)) if few else [])
    if few:
        names = [one_line(name) for name in table.columns]
        axes.set_xticklabels(names, parse_math=False)
        if max(map(len, names)) > MOST_LETTERS:
            axes.tick_params(axis="x", labelrotation=20)
    axes.set_ylabel(table.measured)
    _name_rows(axes, [row.objective for row in rows])
    return figure


def draw_quantile_curves(table: SweepTable) -> Figure:
    """The quantile function of the risk over held-out domains, all trials together."""
    from eqrm.evaluation.presenting.plots import new_figure

    figure = new_figure(width=5.6, height=3.6)
    axes = figure.subplots()
    curves = {name: risks for name, risks in (table.curves or {}).items() if risks}
    for number, (risks, colour) in enumerate(
        zip(curves.values(), _colours(len(curves)), strict=True)
    ):
        shares = [i / len(risks) for i in range(len(risks) + 1)]
        axes.step(shares, [risks[0], *risks], where="pre", color=colour, label=str(number))
    axes.set_xlabel("level α")
    axes.set_ylabel("α-quantile of the risk")
    axes.set_xlim(0.0, 1.0)
    _name_rows(axes, list(curves))
    return figure


def _colours(number: int) -> list[str]:
    from eqrm.evaluation.presenting.plots import INK, shades

    return [INK, *shades(number - 1)] if number > 1 else [INK] * number


def _name_rows(axes: Axes, names: list[str]) -> None:
    """A legend whose names are shown as they are: no formulas, none hidden."""
    legend = axes.legend(
        frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5)
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(one_line(name))


def _data_url(figure: Figure) -> str:
    from eqrm.evaluation.presenting.plots import save_figure

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        save_figure(figure, path)
        content = base64.b64encode(path.read_bytes()).decode()
    return f"data:image/svg+xml;base64,{content}"
