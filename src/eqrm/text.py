"""Text for messages and tables: counts, short lists, suggestions, aligned columns."""

from __future__ import annotations

import csv
import difflib
import io
import re
import shlex
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

LONGEST_NAME = 40
_CONTROLS = (
    r"\x00-\x09\x0b-\x1f\x7f-\x9f"  # of terminals, but for the line feed
    r"\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f"  # line ends; the direction of writing
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"  # marks, halves, tags
)
_CONTROL = re.compile(f"[{_CONTROLS}]")
_CONTROL_OR_LINE = re.compile(f"[\\n{_CONTROLS}]")
_FORMULA = ("=", "+", "-", "@")
WIDTH = 96
SYNONYMS = (
    ("target", "label", "labels"),
    ("domain", "domains", "group", "groups", "domain_ids"),
    ("alpha", "quantiles", "level", "levels", "probability"),
    ("seed", "random_state"),
    ("model", "predictor"),
    ("confidence", "conf"),
    ("within", "inner"),
    ("l2", "ridge"),
)
"""Words for one thing (docs/words.md), of which an interface has one or two."""


def counted(number: int, thing: str) -> str:
    """A count with its noun."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time in words, rounded to what matters.

    >>> duration(40), duration(200), duration(3 * 3600 + 700), duration(4 * 86400)
    ('40 seconds', '3 minutes', '3 hours', '4 days')
    """
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * size:
            return counted(round(seconds / size), unit)
    return counted(max(1, round(seconds)), "second")


def listed(items: Sequence[object], most: int = 5) -> str:
    """The first few items, quoted, and how many more there are."""
    shown = ", ".join(shortened(repr(item)) for item in items[:most])
    return f"{shown} and {len(items) - most:,} more" if len(items) > most else shown


def shortened(text: str, most: int = 60) -> str:
    """A text that is too long for a message, cut with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def typed(value: object) -> str:
    """A value as it is typed after an option in a shell."""
    return shlex.quote(str(value))


def nearest(name: object, choices: Iterable[Any]) -> list[Any]:
    """The choices that are words for the same as ``name``, or else the one spelled most like it."""
    options = list(choices)
    word, *words = (str(each).lower().lstrip("-").replace("-", "_") for each in (name, *options))
    named = dict(zip(words, options, strict=True))
    same = [each for meant in SYNONYMS if word in meant for each in meant if each in named]
    return [named[each] for each in same or difflib.get_close_matches(word, words, n=1)]


def did_you_mean(name: object, choices: Iterable[object], most: int = 20) -> str:
    """Suggest the choice nearest to ``name``, then list the choices."""
    options = list(choices)
    close = " or ".join(map(repr, nearest(name, options)))
    hint = f"Did you mean {close}? " if close else ""
    more = f" and {len(options) - most:,} more" if len(options) > most else ""
    return f"{hint}Choose from: {', '.join(map(_bare, options[:most]))}{more}."


def _bare(option: object) -> str:
    text = str(option)
    return text if re.fullmatch(r"[\w.+-]+", text) else repr(option)


def printable(text: str, *, lines: bool = True) -> str:
    """The same without control characters, which are written as JSON writes them.

    Every text that is printed or written passes through here: what comes from data may hold some,
    and a terminal obeys them. ``lines`` keeps line feeds.

    >>> print(printable("a\\x1b[31mb"), printable("a\\nb", lines=False))
    a\\u001b[31mb a\\u000ab
    """
    return (_CONTROL if lines else _CONTROL_OR_LINE).sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return re.sub("(....)", r"\\u\1", units)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """CSV whose cells are printable, and no formulas where a spreadsheet opens it."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([map(csv_cell, row) for row in rows])
    return stream.getvalue()


def csv_cell(value: object) -> object:
    """A cell of :func:`csv_text`; only strings need a look."""
    if not isinstance(value, str):
        return value
    text = printable(value, lines=False)
    # Signs alone calculate nothing.
    is_safe = not text.startswith(_FORMULA) or not text.strip("+-") or is_numeral(text)
    return text if is_safe else f"'{text}"


def is_numeral(text: str) -> bool:
    """Whether it can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def one_line(name: str) -> str:
    """One line of moderate length, without control characters."""
    return shortened("".join(c if c.isprintable() else " " for c in name), LONGEST_NAME)


def wrapped(*paragraphs: str) -> str:
    """Paragraphs in lines that fit a terminal."""
    return "\n".join(textwrap.fill(text, WIDTH, break_on_hyphens=False) for text in paragraphs)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of text: the first left-aligned, the others right-aligned.

    >>> print(aligned([["level", "risk"], ["0.9", "1.25"]]))
    level  risk
    0.9    1.25
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first + " " * (widths[0] - _width(first))]
        cells += [" " * (w - _width(cell)) + cell for cell, w in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Columns that a string takes in a terminal: wide letters and emoji take two."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
