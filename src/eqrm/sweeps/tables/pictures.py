"""Pictures of a sweep's tables: accuracy per held-out domain, quantile curves. Nothing computes."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from eqrm.evaluation.presenting.plots import INK, new_figure, save_figure, shades
from eqrm.sweeps.tables.cells import OVER_DOMAINS, PAPER, QUANTILES, SweepTable
from eqrm.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMED = 24
"""With more columns than this, their names do not fit below the picture."""
MOST_LETTERS = 12
"""Longer names are slanted, so that they do not run into each other."""


def pictures_of(table: SweepTable) -> list[tuple[str, str]]:
    """The pictures of a table: SVG as data URLs, each with a text for those who cannot see it."""
    figures = []
    if table.curves and any(table.curves.values()):
        figures.append((draw_quantile_curves(table), f"Quantile curves. {table.title}"))
    elif table.kind != QUANTILES and not table.kind.endswith(OVER_DOMAINS):
        figures.append((draw_columns(table), f"Values with standard errors. {table.title}"))
    return [(_data_url(figure), alt) for figure, alt in figures]


def draw_columns(table: SweepTable) -> Figure:
    """A group of points per column, one per objective, with its standard error."""
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
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        save_figure(figure, path)
        content = base64.b64encode(path.read_bytes()).decode()
    return f"data:image/svg+xml;base64,{content}"
