"""The risks of all domains in few characters: 10,000 domains of 12 models fit into a page.

A column of numbers becomes base64 text of its deviations from an offset, in units of the largest:
the first three bytes of a 32-bit float, which keep five digits, or the first two, which keep two.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np

from eqrm.domains import Name
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.presenting.report.answer import ShownModel
from eqrm.evaluation.rounding import significant
from eqrm.text import printable

MOST_BYTES = 860_000
"""What all data of the page may take: with markup, style and script it stays under 1 MB."""
FEWEST_BYTES = 50_000
LONGEST_NAMES = (20_000, 1000, 200, 60)
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def packed(values: Any, kept: int = 3) -> dict[str, Any]:
    """A column as text; NaN stays NaN.

    >>> column = packed([0.5, 0.25, 1.0])
    >>> column["offset"], column["unit"], column["bytes"]
    (0.5, 0.5, 3)
    """
    numbers = np.asarray(values, dtype=np.float64)
    finite = numbers[np.isfinite(numbers)]
    # Up to the rounding of sums: the same risks give the same text.
    offset = significant(np.sort(finite)[finite.size // 2], 12) if finite.size else 0.0
    unit = significant(np.abs(finite - offset).max(initial=0.0), 6) or 1.0
    shares = np.round((numbers - offset) / unit, 9).astype(">f4")
    halves = shares.view(">u4")
    rounded = np.where(np.isnan(shares), halves, halves + (1 << (31 - 8 * kept)))
    cut = rounded.astype(">u4").view(np.uint8).reshape(-1, 4)[:, :kept]
    text = base64.b64encode(cut.tobytes()).decode()
    return {"offset": offset, "unit": unit, "bytes": kept, "text": text}


def listed_domains(
    evaluation: Evaluation, rows: list[ShownModel], most_bytes: int = MOST_BYTES
) -> dict[str, Any]:
    """The domains in columns: names, examples, and per model risks and sampling errors.

    All of them if they fit into ``most_bytes``; otherwise long names are shortened, then sampling
    errors are left out, and if that is not enough, only the worst and the best domains of each
    model are kept.
    """
    everything = np.arange(len(evaluation.domains))
    for errors in (True, False):
        for longest in LONGEST_NAMES:
            found = _columns(evaluation, rows, everything, longest, errors)
            if bytes_of(found) <= most_bytes:
                return {**found, "all": True}
    kept = everything.size
    while True:
        kept = max(1, int(kept * min(0.8, most_bytes / bytes_of(found))))
        found = _columns(evaluation, rows, _ends(rows, kept), LONGEST_NAMES[-1], True)
        if bytes_of(found) <= most_bytes or kept == 1:
            return {**found, "all": False}


def middle_cut(name: Name, longest: int = 200) -> str:
    """A name with its middle left out if it is too long.

    >>> middle_cut("abcdefghij", longest=6), middle_cut(7)
    ('abc…ij', '7')
    """
    text = str(name)
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def _columns(
    evaluation: Evaluation, rows: list[ShownModel], chosen: Any, longest: int, errors: bool
) -> dict[str, Any]:
    counts = [row.risks.counts[chosen].tolist() for row in rows]
    same = all(column == counts[0] for column in counts)
    return {
        "names": [middle_cut(evaluation.domains[i], longest) for i in chosen],
        "counts": counts[:1] if same else counts,
        "risks": [packed(row.risks.risks[chosen]) for row in rows],
        "errors": [packed(row.risks.standard_errors[chosen], 2) for row in rows]
        if errors
        else None,
    }


def _ends(rows: list[ShownModel], kept: int) -> Any:
    """The domains of lowest and highest risk of each model, about ``kept`` in all."""
    each = max(1, kept // (2 * len(rows)))
    chosen = []
    for row in rows:
        order = np.argsort(row.risks.risks, kind="stable")
        chosen += [order[:each], order[-each:]]
    return np.unique(np.concatenate(chosen))


def as_safe_json(content: Any) -> str:
    r"""JSON for the inside of a ``script`` element: nothing in it can end the element.

    >>> as_safe_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return printable(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text), lines=False)


def bytes_of(content: Any) -> int:
    """What it takes as JSON."""
    return len(as_safe_json(content).encode())
