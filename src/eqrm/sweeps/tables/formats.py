"""Tables of a sweep as text, Markdown, LaTeX, CSV and a page of HTML with pictures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

from eqrm.errors import MissingExtraError
from eqrm.markup import text
from eqrm.sweeps.tables.cells import PAPER, SelectedRun, SweepTable, SweepTables
from eqrm.text import aligned, counted, csv_text, one_line

MOST_LINES = 20
"""Missing runs that text, Markdown and LaTeX name; CSV and HTML name all."""
_SYMBOLS = {"±": r"$\pm$", "†": r"$^\dagger$", "α": r"$\alpha$", "–": "--", "^": r"\^{}"}
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "{}$&#_%"} | {"\\": r"\textbackslash{}", "~": r"\~{}"} | _SYMBOLS
)
_STYLE = """
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif;
  color: #17191c; background: #fff; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #d9dde2; }
th:first-child, td:first-child { text-align: left; }
tr.paper { color: #5a6068; font-style: italic; }
div { overflow-x: auto; }
img { max-width: 100%; }
"""


def to_text(found: SweepTables, selected: bool = False) -> str:
    """Aligned columns under their titles, then notes and what is missing."""
    parts = [f"{_printable(table.title)}\n{aligned(_grid(table))}" for table in found.tables]
    if selected:
        parts.append(f"Selected runs\n{aligned(_selected_grid(found.selected))}")
    parts += ["\n".join(notes(found)), *("\n".join(lines) for lines in _gaps(found, MOST_LINES))]
    return "\n\n".join(part for part in parts if part)


def to_markdown(found: SweepTables, selected: bool = False) -> str:
    """A Markdown table each, under a heading."""
    parts = [
        f"### {_in_markdown(_printable(t.title))}\n\n{_markdown_table(_grid(t))}"
        for t in found.tables
    ]
    if selected:
        parts.append(f"### Selected runs\n\n{_markdown_table(_selected_grid(found.selected))}")
    parts += map(_in_markdown, notes(found))
    for heading, *lines in _gaps(found, MOST_LINES):
        parts.append("\n".join([f"{heading}\n", *(f"- {_in_markdown(line)}" for line in lines)]))
    return "\n\n".join(parts)


def to_latex(found: SweepTables, selected: bool = False) -> str:
    """A tabular each, in the layout of the paper's appendix G.2 (needs booktabs)."""
    parts = [_latex_table(_printable(table.title), _grid(table)) for table in found.tables]
    if selected:
        parts.append(_latex_table("Selected runs", _selected_grid(found.selected)))
    lines = [*notes(found), *(line for gap in _gaps(found, MOST_LINES) for line in gap)]
    parts.append("\n".join(f"% {line}" for line in lines))
    return "\n\n".join(parts)


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
                numbers = [cell.value, cell.error]
                shown = ["" if number is None else repr(number) for number in numbers]
                rows.append([*place, *shown, cell.trials, int(cell.complete)])
    for kind, gaps in (
        ("missing", found.missing),
        ("pruned", found.pruned),
        ("unjudged", found.unjudged),
    ):
        rows += [[kind, *[""] * 4, line, *[""] * 4] for line in gaps]
    return csv_text(rows).rstrip("\n")


def to_html(found: SweepTables, selected: bool = False) -> str:
    """One file: every table with its picture, what was selected, and what is missing."""
    from eqrm.sweeps.tables.pictures import pictures_of  # what draws is slow to import

    parts, without = [], ""
    for table in found.tables:
        pictures: list[tuple[str, str]] = []
        try:
            pictures = pictures_of(table)
        except MissingExtraError as error:
            without = f"<p>No pictures: {text(str(error))}</p>"
        parts.append(f"<h2>{text(table.title)}</h2>\n{_html_table(table)}")
        parts += [f'<p><img src="{data}" alt="{text(alt)}"></p>' for data, alt in pictures]
    parts += [without, *(f"<p>{text(line)}</p>" for line in notes(found))]
    for heading, *lines in _gaps(found, most=None):
        items = "".join(f"<li>{text(line)}</li>\n" for line in lines)
        parts.append(f"<h2>{text(heading)}</h2>\n<ul>\n{items}</ul>")
    opened = " open" if selected else ""
    rows = _selected_grid(found.selected)
    parts.append(f"<details{opened}><summary>Selected runs</summary>\n{_html_rows(rows)}</details>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'\">\n"
        f"<title>Tables of a sweep</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{text(_headline(found))}</h1>\n" + "\n".join(filter(None, parts)) + "\n</body>\n"
        "</html>"
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


def _gaps(found: SweepTables, most: int | None) -> Iterator[list[str]]:
    """Headings, each with its lines: runs that are missing, were pruned, or could not be judged."""
    for heading, lines in (
        ("Missing runs", found.missing),
        ("Pruned runs, which are not chosen from", found.pruned),
        ("Runs that could not be judged or reported", found.unjudged),
    ):
        if lines:
            shown = [_printable(line) for line in lines[:most]]
            more = len(lines) - len(shown)
            rest = [f"and {more:,} more lines (--format csv lists all)"] if more else []
            yield [f"{heading}:", *shown, *rest]


def _printable(line: str) -> str:
    """One line, however names are spelled."""
    return "".join(c if c.isprintable() else " " for c in line)


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
            _printable(", ".join(f"{name}={_short(value)}" for name, value in s.settings.items())),
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


def _in_markdown(cell: str) -> str:
    return re.sub(r"([\\|*_`\[\]~<&])", r"\\\1", cell)


def _markdown_table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(map(_in_markdown, row))} |" for row in rows]
    return "\n".join([lines[0], f"|---|{'---:|' * (len(rows[0]) - 1)}", *lines[1:]])


def _latex_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    lines = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in rows]
    return "\n".join(
        [
            rf"\paragraph{{{title.translate(_LATEX)}}}",
            rf"\begin{{tabular}}{{l{'c' * (len(rows[0]) - 1)}}}",
            r"\toprule",
            rf"{lines[0]} \midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _html_table(table: SweepTable) -> str:
    return _html_rows(_grid(table), [row.source == PAPER for row in table.rows])


def _html_rows(rows: Sequence[Sequence[str]], paper: Sequence[bool] = ()) -> str:
    head = "".join(f'<th scope="col">{text(cell)}</th>' for cell in rows[0])
    body = []
    for number, row in enumerate(rows[1:]):
        mark = ' class="paper"' if number < len(paper) and paper[number] else ""
        body.append(f"<tr{mark}>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>")
    lines = "\n".join(body)
    return (
        f"<div><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table></div>"
    )
