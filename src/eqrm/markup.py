"""HTML from Python values: every string from data is escaped here, and nowhere else.

A :class:`Markup` is HTML already; anything else becomes text: control characters are made visible
by :func:`eqrm.text.printable`, and characters that HTML reads are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from eqrm.text import printable, shortened

VOID = ("br", "wbr", "input", "col")
LONGEST_LABEL = 40
_WORD_PART = re.compile(r"[^_\-/.:=,|]*[_\-/.:=,|]+|[^_\-/.:=,|]+")
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
LONG_WORD = 18
"""Letters in a row from which a label may be broken anywhere: no screen fits every name."""


class Markup(str):
    """HTML, not to be escaped again."""

    __slots__ = ()


def text(value: object) -> Markup:
    """A value as text in HTML.

    >>> text("<b>\\x1b")
    '&lt;b&gt;\\\\u001b'
    >>> text(text("&"))
    '&amp;'
    """
    if isinstance(value, Markup):
        return value
    return Markup(escape(printable(str(value), lines=False)))


def typeset(sentence: str) -> str:
    """A sentence with true minus signs before numbers, and levels that are not broken.

    >>> typeset("from -1 to 2-fold"), typeset("α = 0.9")
    ('from −1 to 2-fold', 'α\\xa0=\\xa00.9')
    """
    return _MINUS.sub("−", sentence).replace("α = ", "α\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def joined(*children: object) -> Markup:
    """Children one after the other; None is left out."""
    return Markup("".join(text(child) for child in children if child is not None))


def element(tag: str, /, *children: object, **attributes: Any) -> Markup:
    """An element. ``class_`` is class, ``aria_label`` is aria-label; None and False leave one out.

    >>> element("p", "a < b", element("wbr"), class_="quiet", hidden=True)
    '<p class="quiet" hidden>a &lt; b<wbr></p>'
    """
    told = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in VOID:
        return Markup(f"<{tag}{told}>")
    return Markup(f"<{tag}{told}>{joined(*children)}</{tag}>")


def label(name: object) -> Markup:
    """A name that may be broken after a hyphen, a dot and the like, but not inside a word.

    >>> label("boosted_trees")
    '<bdi class="name">boosted_<wbr>trees</bdi>'
    """
    full = str(name)
    shown = shortened(full, LONGEST_LABEL)
    parts = _WORD_PART.findall(shown)
    inner = joined(
        *(p for part in parts for p in (part, element("wbr"))[: 1 + (part is not parts[-1])])
    )
    long = any(len(word) >= LONG_WORD for part in parts for word in part.split())
    return element(
        "bdi",
        inner,
        class_="name long" if long else "name",
        title=shortened(full, 200) if shown != full else None,
    )


def table(head: list[object], rows: list[Markup], **attributes: Any) -> Markup:
    """A table with one line of headings; ``rows`` are tr elements."""
    cells = [
        item
        if isinstance(item, Markup) and item.startswith("<t")
        else element("th", item, scope="col")
        for item in head
    ]
    return element(
        "table",
        element("thead", element("tr", *cells)),
        element("tbody", *rows),
        **attributes,
    )


def folded(title: object, *children: object, **attributes: Any) -> Markup:
    """A part of the page that opens on demand."""
    return element("details", element("summary", title), *children, **attributes)


def scrolling(content: Markup, name: str) -> Markup:
    """What may be wider than a phone, in a frame that scrolls, also by keyboard."""
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=name)


def lines_in_html(lines: str) -> Markup:
    """A text of several lines, as they are.

    >>> lines_in_html("a < b\\nc")
    '<p>a &lt; b<br>c</p>'
    """
    return element("p", Markup("<br>".join(text(line) for line in lines.splitlines())))


def table_in_html(header: Sequence[object], rows: Iterable[Sequence[object]], note: str) -> Markup:
    """A table for a notebook, whose own style applies; the first column has the names.

    >>> table_in_html(["", "mean"], [["ERM", 0.5]], "Risk.")
    '<table><thead><tr><th></th><th>mean</th></tr></thead><tbody><tr><th>ERM</th><td>0.5</td></tr></tbody></table><p>Risk.</p>'
    """
    head = element("tr", *(element("th", each) for each in header))
    body = [element("tr", element("th", f), *(element("td", c) for c in rest)) for f, *rest in rows]
    table = element("table", element("thead", head), element("tbody", *body))
    return joined(table, lines_in_html(note) if note else None)
