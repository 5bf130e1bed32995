"""The risk table as text, Markdown, LaTeX, CSV and plain data."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eqrm.evaluation.presenting.risk_table import Cell, RiskTable, Statistic, WorstDomain

LONGEST_NAME = 40
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def as_text(table: RiskTable, intervals: bool) -> str:
    """Aligned columns, below them what they mean and the worst domains.

    With intervals a line per statistic, which fits a terminal; without, a line per predictor.
    """
    parts = [aligned(_upright(table) if intervals else _flat(table)), _legend(table, intervals)]
    for name, domains in table.worst.items():
        if domains:
            parts.append(f"Worst domains of {one_line(name)}:\n{_worst_lines(domains)}")
    return "\n\n".join(parts)


def _flat(table: RiskTable) -> list[list[str]]:
    header = ["predictor", *(s.label for s in table.statistics)]
    return [header, *([one_line(n), *map(_marked, cells)] for n, cells in table.cells.items())]


def _upright(table: RiskTable) -> list[list[str]]:
    lines = [["", *(part for name in table.cells for part in (one_line(name), ""))]]
    for i, statistic in enumerate(table.statistics):
        row = [cells[i] for cells in table.cells.values()]
        lines.append([statistic.label, *(t for c in row for t in (_marked(c), c.interval))])
    return lines


def _marked(cell: Cell) -> str:
    return f"{cell.text}*" if cell.best else f"{cell.text} "


def as_markdown(table: RiskTable, intervals: bool) -> str:
    """A row per predictor; intervals in small print under the values."""
    header = ["predictor", *(s.label for s in table.statistics)]
    rows = []
    for name, cells in table.cells.items():
        rows.append([_in_markdown(one_line(name)), *(_markdown_cell(c, intervals) for c in cells)])
    rule = "|".join(["---", *["---:"] * len(table.statistics)])
    body = [f"| {' | '.join(row)} |" for row in [header, *rows]]
    return "\n".join([body[0], f"|{rule}|", *body[1:]])


def as_latex(table: RiskTable, intervals: bool) -> str:
    """The layout of the paper's Tables 2 and 3 (needs booktabs and multirow)."""
    kinds = [s.kind for s in table.statistics]
    groups = [("quantile", "Quantile risk"), ("superquantile", "Superquantile risk")]
    titles, rules, labels = [r"\multirow{2}{*}{Alg.}", r"\multirow{2}{*}{Mean}"], [], ["", ""]
    column = 3
    for kind, title in groups:
        width = kinds.count(kind)
        if width:
            titles.append(rf"\multicolumn{{{width}}}{{c}}{{{title}}}")
            rules.append(rf"\cmidrule(lr){{{column}-{column + width - 1}}}")
            column += width
    labels += [str(s.level) for s in table.statistics if s.level is not None]
    lines = [
        rf"\begin{{tabular}}{{@{{}}l{'c' * len(kinds)}@{{}}}} \toprule",
        " & ".join(titles) + r" \\ " + " ".join(rules),
        " & ".join(labels).strip() + r" \\ \midrule",
    ]
    for name, cells in table.cells.items():
        row = " & ".join([_in_latex(one_line(name)), *(_latex_cell(c, intervals) for c in cells)])
        lines.append(row + r" \\")
    lines[-1] += r" \bottomrule"
    return "\n".join([*lines, r"\end{tabular}"])


def as_csv(table: RiskTable) -> str:
    """predictor, statistic, level, value, low, high, standard_error, best."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["predictor", "statistic", "level", "value", "low", "high", "standard_error", "best"]
    )
    for name, cells in table.cells.items():
        for statistic, cell in zip(table.statistics, cells, strict=True):
            level = "" if statistic.level is None else str(statistic.level)
            numbers = [cell.value, cell.low, cell.high, cell.error]
            shown = ["" if n is None else repr(n) for n in numbers]
            writer.writerow([name, statistic.kind, level, *shown, int(cell.best)])
    return stream.getvalue().rstrip("\n")


def as_dict(table: RiskTable) -> dict[str, Any]:
    """Plain types, ready for JSON."""
    return {
        "domains": table.domains,
        "confidence": table.confidence,
        "predictors": {
            name: {
                "statistics": [
                    _cell_dict(s, c) for s, c in zip(table.statistics, cells, strict=True)
                ],
                "worst": [_worst_dict(domain) for domain in table.worst[name]],
            }
            for name, cells in table.cells.items()
        },
    }


def _cell_dict(statistic: Statistic, cell: Cell) -> dict[str, Any]:
    return {
        "statistic": statistic.kind,
        "level": None if statistic.level is None else str(statistic.level),
        "value": cell.value,
        "low": cell.low,
        "high": cell.high,
        "standard_error": cell.error,
        "text": cell.text,
        "interval": cell.interval,
        "best": cell.best,
    }


def _worst_dict(domain: WorstDomain) -> dict[str, Any]:
    return {
        "domain": domain.domain,
        "n": domain.count,
        "risk": domain.risk,
        "standard_error": domain.standard_error,
        "text": domain.text,
    }


def _legend(table: RiskTable, intervals: bool) -> str:
    words = [
        f"Risk over {table.domains} domains. 0 to 1 are quantiles (0.9: nine of ten "
        'domains have at most this risk), "beyond 0.9" is the mean of the worst tenth.'
    ]
    if intervals:
        words.append(
            f"Brackets: {100 * table.confidence:g}% confidence; ? where there are too few "
            "domains to tell."
        )
    if len(table.cells) > 1:
        words.append("* the lowest of the predictors.")
    return "\n".join(words)


def _worst_lines(domains: Sequence[WorstDomain]) -> str:
    rows = [[f"  {one_line(str(d.domain))}", d.text, f"n = {d.count}"] for d in domains]
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(_width(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        first = row[0] + " " * (widths[0] - _width(row[0]))
        rest = [" " * (w - _width(c)) + c for c, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Places that a text takes in a terminal: wide letters and emoji take two."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def one_line(name: str) -> str:
    """One line of moderate length, without control characters."""
    plain = "".join(c if c.isprintable() else " " for c in name)
    return plain if len(plain) <= LONGEST_NAME else f"{plain[: LONGEST_NAME - 1]}…"


def _in_markdown(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{c}" if c in "\\|*_`[]~" else c for c in escaped)


def _markdown_cell(cell: Cell, intervals: bool) -> str:
    value = f"**{cell.text}**" if cell.best else cell.text
    return f"{value}<br><sub>{cell.interval}</sub>" if intervals and cell.interval else value


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def _latex_cell(cell: Cell, intervals: bool) -> str:
    value = rf"\textbf{{{cell.text}}}" if cell.best else cell.text
    return rf"{value} {{\scriptsize {cell.interval}}}" if intervals and cell.interval else value
