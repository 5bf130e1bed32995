"""What commands print and write, as lines of text that say the same on every machine.

Left out are times, versions, paths of this machine and checksums of whole files; scripts, styles
and coordinates of pages; the bytes of pictures and weights. Numbers keep nine digits.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from html.parser import HTMLParser
from itertools import groupby
from typing import Any

WIDTH = 100
DIGITS = 9
LONG_DECIMAL = re.compile(r"(?<![\w.])-?\d+\.\d+(?:[eE][-+]?\d+)?(?![\w.])")
PACKED = {"offset", "unit", "bytes", "text"}
BREAKS = {
    "p", "div", "section", "article", "header", "footer", "main", "nav", "h1", "h2", "h3", "h4",
    "ul", "ol", "li", "table", "thead", "tbody", "tr", "details", "summary", "figure",
    "figcaption", "svg", "text", "br", "dl", "dt", "dd", "caption", "label", "option", "title",
    "pre", "button", "script",
}  # fmt: skip
LEFT_OUT = {"style", "template"}
SAID = ("aria-label", "title", "alt")
"""Attributes that readers see or hear."""


class _Page(HTMLParser):
    """Collects the text of a page by lines, and its embedded data."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.silent = 0
        self.is_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in BREAKS:
            self.parts.append("\n")
        else:
            self.parts.append(" | " if tag in ("td", "th") else " ")
        self.is_data = tag == "script" and given.get("type") == "application/json"
        if tag in LEFT_OUT or (tag == "script" and not self.is_data):
            self.silent += 1
        self.parts += [f"\n({name}: {given[name]})\n" for name in SAID if given.get(name)]

    def handle_endtag(self, tag: str) -> None:
        if tag in BREAKS:
            self.parts.append("\n")
        if tag in LEFT_OUT or (tag == "script" and not self.is_data):
            self.silent -= 1
        self.is_data = False

    def handle_data(self, data: str) -> None:
        if self.is_data:
            self.parts.append(json_text(data))
        elif not self.silent:
            self.parts.append(re.sub(r"\s+", " ", data))


def html_text(page: str) -> str:
    """What a reader of the page sees, and the data that its scripts draw.

    >>> html_text("<h1>A <b>page</b></h1><style>p {}</style><p>0.5</p><script>run()</script>")
    'A page\\n0.5'
    """
    parser = _Page()
    parser.feed(page)
    parser.close()
    lines = ("".join(parser.parts)).split("\n")
    return "\n".join(filter(None, (re.sub(r"(?<=\S) {2,}", " ", line).rstrip() for line in lines)))


def json_text(text: str) -> str:
    """JSON with a line per field; lists of plain values fill lines.

    >>> print(json_text('{"a": [1, 2.5], "b": {"c": -0.0}}'))
    a: [1, 2.5]
    b:
      c: 0.0
    """
    return "\n".join(_lines(json.loads(text)))


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict) and value.keys() == PACKED:
        value = _unpacked(value)
    if isinstance(value, dict) and value:
        return [line for key, each in value.items() for line in _field(str(key), each)]
    if isinstance(value, list) and any(isinstance(each, (dict, list)) for each in value):
        return [line for number, each in enumerate(value) for line in _field(f"- {number}", each)]
    return _filled(value) if isinstance(value, list) else [_scalar(value)]


def _field(name: str, value: Any) -> list[str]:
    if name == "sha256":  # of numbers with all their digits
        value = "HASH"
    if re.search(r"\b(processor time|wall-clock time|path fits)\b", name):
        value = "TIME"
    if isinstance(value, str) and "\n" in value:
        return [f"{name}: |", *(f"  {line}" for line in value.split("\n"))]
    lines = _lines(value)
    plain = not isinstance(value, dict) or not value or value.keys() == PACKED
    if len(lines) == 1 and plain and not lines[0].startswith("- "):
        return [f"{name}: {lines[0]}"]
    return [f"{name}:", *(f"  {line}" for line in lines)]


def _filled(values: list[Any]) -> list[str]:
    """Plain values over as many lines as they take; equal neighbours are counted."""
    lines, runs = ["["], [(text, len(list(same))) for text, same in groupby(map(_scalar, values))]
    for number, (text, count) in enumerate(runs):
        item = text if count == 1 else f"{count} times {text}"
        item += "," if number < len(runs) - 1 else "]"
        if len(lines[-1]) + len(item) >= WIDTH:
            lines.append("")
        lines[-1] += (" " if lines[-1] not in ("", "[") else "") + item
    return lines if values else ["[]"]


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        return shortened(repr(value + 0.0))
    return json.dumps(value, ensure_ascii=False)


def _unpacked(column: dict[str, Any]) -> list[float | None] | dict[str, Any]:
    """A column of numbers that a page holds as base64, in the digits that it keeps."""
    kept, digits = column["bytes"], {3: 5, 2: 2}.get(column["bytes"], 5)
    try:
        raw = base64.b64decode(column["text"], validate=True)
    except (binascii.Error, TypeError):
        return {"packed": column}
    words = (raw[start : start + kept].ljust(4, b"\0") for start in range(0, len(raw), kept))
    shares = [struct.unpack(">f", word)[0] for word in words]
    values = [column["offset"] + column["unit"] * share for share in shares]
    return [None if each != each else float(f"{each:.{digits}g}") for each in values]


def shortened(text: str) -> str:
    """Decimal numbers with at most nine digits, which is more than is compared.

    >>> shortened("0.12345678901234 of 1.5 in version 0.2.0")
    '0.123456789 of 1.5 in version 0.2.0'
    """

    def fewer(found: re.Match[str]) -> str:
        digits = re.sub(r"[-.]", "", re.split("[eE]", found[0])[0]).lstrip("0")
        if len(digits) <= DIGITS:
            return found[0]
        short = f"{float(found[0]):.{DIGITS}g}"
        return short if re.search(r"[.e]", short) else f"{short}.0"

    return LONG_DECIMAL.sub(fewer, text)


VERSIONS = re.compile(r"\b([A-Za-z][\w-]*) \d+\.\d+\.\d+[\w.+]*")
TIMES = re.compile(r"\b\d+(?:\.\d+)? (s|ms|seconds)\b")


def masked(text: str, replacements: dict[str, str]) -> str:
    """The text without what another machine, day or version changes.

    >>> masked("eqrm 1.2.3 wrote /tmp/x/model in 3.2 s", {"1.2.3": "VERSION", "/tmp/x/": ""})
    'eqrm VERSION wrote model in TIME s'
    """
    for found, instead in replacements.items():
        text = text.replace(found, instead)
    text = VERSIONS.sub(r"\1 VERSION", TIMES.sub(r"TIME \1", text))
    return "\n".join(line.rstrip() for line in text.split("\n"))


def as_text(name: str, content: bytes) -> str | None:
    """A file as text, or None for one of bytes or of drawing commands."""
    if name.endswith((".svg", ".png", ".pdf", ".parquet", ".safetensors")):
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if name.endswith(".html"):
        return shortened(html_text(text))
    if text.startswith(("{", "[")):
        try:
            return json_text(text)
        except json.JSONDecodeError:
            pass
        try:
            return "\n".join(json_text(line) for line in text.splitlines() if line)
        except json.JSONDecodeError:
            pass
    return shortened(text.rstrip("\n"))
