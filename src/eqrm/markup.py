"""Tables and names in HTML, Markdown and LaTeX: one writer each, and the one place that escapes.

In HTML a :class:`Markup` is written as it is; anything else becomes text: control characters are
made visible by :func:`eqrm.text.printable`, and characters that HTML reads are replaced. Templates
of pages hand every value to :func:`text`. For tables as text and CSV see :mod:`eqrm.text`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from eqrm.text import printable, shortened

LONGEST_LABEL = 40
_WORD_PART = re.compile(r"[^_\-/.:=,|]*[_\-/.:=,|]+|[^_\-/.:=,|]+")
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
LONG_WORD = 18
"""Letters in a row from which a label may be broken anywhere: no screen fits every name."""
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\|*_`[]~<&"})
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "{}$&#_%"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "†": r"$^\dagger$", "α": r"$\alpha$", "–": "--"}
)


class Shown(NamedTuple):
    """A cell with more than a text: ``small`` print below it, marked as the ``best`` of its column
    (bold), or ``quiet`` (in italics)."""

    text: str
    small: str = ""
    best: bool = False
    quiet: bool = False


Rows = Sequence[Sequence[str | Shown]]
"""A table whose first row has the headings and whose first column has the names."""


class Markup(str):
    """HTML, not to be escaped again."""

    __slots__ = ()

    def __html__(self) -> Markup:
        """Itself: what templates and :func:`text` ask for."""
        return self


def text(value: object) -> Markup:
    """A value as text in HTML."""
    if hasattr(value, "__html__"):
        return Markup(value.__html__())
    return Markup(escape(printable(str(value), lines=False)))


def typeset(sentence: str) -> str:
    """A sentence with true minus signs before numbers, and levels that are not broken."""
    return _MINUS.sub("−", sentence).replace("α = ", "α\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def label(name: object) -> Markup:
    """A name that may be broken after a hyphen, a dot and the like, but not inside a word."""
    full = str(name)
    shown = shortened(full, LONGEST_LABEL)
    parts = _WORD_PART.findall(shown)
    long = any(len(word) >= LONG_WORD for part in parts for word in part.split())
    title = f' title="{text(shortened(full, 200))}"' if shown != full else ""
    broken = "<wbr>".join(map(text, parts))
    return Markup(f'<bdi class="name{" long" * long}"{title}>{broken}</bdi>')


def lines_in_html(lines: str) -> Markup:
    """A text of several lines, as they are."""
    return Markup(f"<p>{'<br>'.join(map(text, lines.splitlines()))}</p>")


def html_table(rows: Rows) -> Markup:
    """A table, for a notebook, whose own style applies, or for a page."""
    head, *body = [[_in_html(cell) for cell in row] for row in rows]
    lines = "".join(
        f"<tr><th>{first}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for first, *cells in body
    )
    titles = "".join(f"<th>{cell}</th>" for cell in head)
    return Markup(f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>")


def _in_html(given: str | Shown) -> str:
    cell = given if isinstance(given, Shown) else Shown(given)
    shown = f"<b>{text(cell.text)}</b>" if cell.best else str(text(cell.text))
    shown = f"<i>{shown}</i>" if cell.quiet else shown
    return f"{shown}<br><small>{text(cell.small)}</small>" if cell.small else shown


def markdown_table(rows: Rows, numbers: Sequence[bool] | None = None, escaped: bool = True) -> str:
    """A table in Markdown. ``numbers`` are the columns that are aligned to the right, by default
    all but the first; without ``escaped`` cells are Markdown already.

    >>> print(markdown_table([["", "mean"], ["a_b", Shown("0.5", "[0.4, 0.6]", best=True)]]))
    |  | mean |
    |---|---:|
    | a\\_b | **0.5**<br><sub>[0.4, 0.6]</sub> |
    """
    right = numbers or [i > 0 for i in range(len(rows[0]))]
    lines = [f"| {' | '.join(_in_markdown(cell, escaped) for cell in row)} |" for row in rows]
    rule = "".join("---:|" if each else "---|" for each in right)
    return "\n".join([lines[0], f"|{rule}", *lines[1:]])


def _in_markdown(given: str | Shown, escaped: bool) -> str:
    cell = given if isinstance(given, Shown) else Shown(given)
    shown = in_markdown(cell.text) if escaped else cell.text.replace("|", "\\|")
    shown = f"**{shown}**" if cell.best else f"*{shown}*" if cell.quiet else shown
    return f"{shown}<br><sub>{cell.small}</sub>" if cell.small else shown


def in_markdown(line: str) -> str:
    """A line as text in Markdown."""
    return line.translate(_MARKDOWN)


def latex_table(rows: Rows, head: Sequence[str] = ()) -> str:
    """A tabular (needs booktabs), with a rule above the first row whose name is quiet.

    ``head`` are lines of LaTeX in place of the headings.
    """
    first, *body = [" & ".join(map(_in_latex, row)) + r" \\" for row in rows]
    quiet = [isinstance(row[0], Shown) and row[0].quiet for row in rows[1:]]
    if True in quiet:
        body.insert(quiet.index(True), r"\midrule")
    begin = [rf"\begin{{tabular}}{{l{'c' * (len(rows[0]) - 1)}}}", r"\toprule"]
    end = [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*begin, *(head or [first]), r"\midrule", *body, *end])


def _in_latex(given: str | Shown) -> str:
    cell = given if isinstance(given, Shown) else Shown(given)
    shown = in_latex(cell.text)
    shown = rf"\textbf{{{shown}}}" if cell.best else shown
    return rf"{shown} {{\scriptsize {in_latex(cell.small)}}}" if cell.small else shown


def in_latex(line: str) -> str:
    """A line as text in LaTeX."""
    return line.translate(_LATEX)
