"""Names that a terminal or a spreadsheet would obey, and whether any text still holds them."""

from __future__ import annotations

import contextlib
import csv
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np

CONTROLS = [
    *map(chr, (*range(32), *range(127, 160))),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\ufff9\U000e0041",
]
ESCAPES = ("\x1b[31m", "\x1b[2J", "\x1b]0;title\x07", "\x9b1A", "\r", "\b\b", "\u202e", "\nFAKE: ")
FORMULAS = ("=1+1", "@SUM(A1)", "+1+1", "-1+1")
FORMULA_BEGINS = ("=", "@", "+", "-")
TEXT = (".md", ".tex", ".csv", ".txt", ".html", ".json", ".jsonl", ".yaml", ".svg")


def hostile(seed: int) -> Iterator[str]:
    """Names with control characters at random places, without end."""
    rng = np.random.default_rng(seed)
    number = 0
    while True:
        number += 1
        parts = [FORMULAS[rng.integers(4)] if rng.random() < 0.3 else "", f"n{number}"]
        parts.append(ESCAPES[rng.integers(len(ESCAPES))])
        parts += [CONTROLS[place] for place in rng.integers(1, len(CONTROLS), 2)]
        yield "".join([*parts, "z"])


def controls_in(text: str) -> set[str]:
    """What a terminal might obey; line feeds are ours."""
    found = {c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    return {repr(c) for c in found | (set(text) & set(CONTROLS)) if c != "\n"}


def assert_clean(text: str, where: str) -> None:
    """No control characters, and no line that data began."""
    assert controls_in(text) == set(), where
    assert "\nFAKE" not in text, where


def assert_guarded(path: Path, where: str) -> None:
    """No cell of a CSV file that a spreadsheet would calculate, and no control characters."""
    text = path.read_text(encoding="utf-8")
    assert_clean(text, where)
    cells = [cell for line in csv.reader(text.splitlines()) for cell in line]
    assert any(cell.startswith("'") for cell in cells), where
    for cell in cells:
        with contextlib.suppress(ValueError):
            float(cell)
            continue
        assert not cell.startswith(FORMULA_BEGINS), where


def assert_clean_folder(folder: Path, at_least: int, *but: str) -> None:
    """All text files in a folder, but for those named."""
    files = [p for p in folder.rglob("*") if p.suffix in TEXT and p.name not in but]
    assert len(files) >= at_least
    for path in files:
        assert_clean(path.read_text(encoding="utf-8"), str(path))
