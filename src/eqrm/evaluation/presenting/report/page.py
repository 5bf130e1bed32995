"""The page itself: a template, a style, a script and the data, in one file.

What was measured travels as JSON in a block that no browser executes, and the script sets every
name as text. The page's own policy (CSP) allows only that script, by its hash, and no network
requests, so a name could do no harm even if the script had a bug.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.presenting.report.content import as_safe_json, report_content
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary, summarised
from eqrm.files.writing import whole_file

SCRIPTS = ("numbers.js", "charts.js", "curves.js", "level.js", "domains.js", "sections.js")


def write_report(
    evaluation: Evaluation,
    path: Path | str,
    *,
    command: str | None = None,
    table: RiskTable | None = None,
    summary: Summary | None = None,
    confidence: float = 0.95,
) -> None:
    """Write the report of an evaluation to ``path``: whole, or not at all.

    ``command`` is shown as the command that made the report. ``table`` is the risk table to
    show, by default that of :meth:`eqrm.Evaluation.risk_table`, and ``summary`` the certificates
    and tests; its level is where the slider starts. Certificates have the table's confidence.

    The file stays under 1 MB. Curves, tables and certificates always use all domains; if there
    are too many to list (more than about 10,000 with two predictors), the page lists the worst
    and the best of each predictor and says so.

    >>> import tempfile, eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(found, path)
    >>> path.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    page = report_html(
        evaluation, command=command, table=table, summary=summary, confidence=confidence
    )
    with whole_file(Path(path)) as draft:
        draft.write_text(page, encoding="utf-8", newline="\n")  # the policy holds its hashes


def report_html(
    evaluation: Evaluation,
    *,
    command: str | None = None,
    table: RiskTable | None = None,
    summary: Summary | None = None,
    confidence: float = 0.95,
) -> str:
    """The page as text; see :func:`write_report`."""
    shown = table or evaluation.risk_table(confidence=confidence)
    known = summary or summarised(evaluation, confidence=shown.confidence)
    content = report_content(evaluation, shown, known, command)
    return assembled_page("page.html", SCRIPTS, content)


def assembled_page(template: str, scripts: Sequence[str], content: Any) -> str:
    """A page of the report's kind: a template and scripts of ``assets``, and its data as JSON.

    The beginning and the end of templates, the same for all pages, are assets of their own.
    """
    text = _asset(template)
    for frame in ("opening", "closing"):
        text = text.replace(f"{{{{{frame}}}}}", _asset(f"{frame}.html"))
    style, script = _style(), _script(scripts)
    parts = {
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "data": as_safe_json(content),
    }
    # One pass over the template alone: what is put in is never searched for places again.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], text)


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@lru_cache
def _asset(name: str) -> str:
    folder = resources.files("eqrm.evaluation.presenting.report") / "assets"
    return (folder / name).read_text(encoding="utf-8")


def _style() -> str:
    return f"\n{_asset('page.css')}"


def _script(names: Sequence[str]) -> str:
    """All scripts in one function, so that none of their names is global."""
    body = "\n".join(_asset(name) for name in names)
    return f'\n(function () {{\n"use strict";\n{body}\n}})();\n'
