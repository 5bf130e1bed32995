"""The page itself: static parts, a template, a style, scripts and their data, in one file.

The verdict, the picture at one level, the table, certificates and details are HTML that needs no
script. Scripts move the level, search domains and draw; what they need travels as JSON in a block
that no browser executes, and they set every name as text. The page's own policy (CSP) allows only
these scripts, by their hash, and no network requests, so a name could do no harm even if there
were a bug.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import eqrm
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.presenting.report.answer import Answer, answer_of, shown_models
from eqrm.evaluation.presenting.report.content import report_content
from eqrm.evaluation.presenting.report.details import details_part
from eqrm.evaluation.presenting.report.doubts import doubts_of, doubts_part
from eqrm.evaluation.presenting.report.packing import as_safe_json
from eqrm.evaluation.presenting.report.picture import static_picture
from eqrm.evaluation.presenting.report.sections import (
    about_part,
    certificate_part,
    ends_part,
    levels_part,
    table_note,
)
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary, summarised
from eqrm.files.writing import whole_file
from eqrm.markup import element, joined, label, text, typeset

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGES = ("numpy", "scipy", "torch", "duckdb")
SCRIPTS = (
    "numbers.js",
    "charts.js",
    "picture.js",
    "level.js",
    "curves.js",
    "domains.js",
    "start.js",
)
STYLES = ("page.css", "report.css")
LONG_SENTENCE = 75
IN_PYTHON = "eqrm.evaluate(…) and write_report(…), called from Python"


def write_report(
    evaluation: Evaluation,
    path: Path | str,
    *,
    command: str | None = None,
    table: RiskTable | None = None,
    summary: Summary | None = None,
    answer: Answer | None = None,
    confidence: float = 0.95,
) -> None:
    """Write the report of an evaluation to ``path``: whole, or not at all.

    ``command`` is shown as the command that made the report. ``table`` is the risk table to
    show, by default that of :meth:`eqrm.Evaluation.risk_table`, and ``summary`` the certificates
    and tests; its level is where the slider starts. ``answer`` is the verdict, by default which
    model has the lowest quantile of risk at that level. Certificates have the table's confidence.

    The file stays under 1 MB. Curves, tables and certificates always use all domains; if there
    are too many to list (10,000 domains of 12 models fit), the page lists the worst and the best
    of each model and says so.

    >>> import tempfile, eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(found, path)
    >>> path.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    shown = table or evaluation.risk_table(confidence=confidence)
    page = report_html(evaluation, shown, summary, answer, command)
    with whole_file(Path(path)) as draft:
        draft.write_text(page, encoding="utf-8", newline="\n")  # the policy holds its hashes


def report_html(
    evaluation: Evaluation,
    table: RiskTable | None = None,
    summary: Summary | None = None,
    answer: Answer | None = None,
    command: str | None = None,
) -> str:
    """The page as text; see :func:`write_report`."""
    shown = table or evaluation.risk_table()
    known = summary or summarised(evaluation, confidence=shown.confidence)
    told = answer or answer_of(evaluation, known, shown)
    rows = shown_models(evaluation, told)
    content = report_content(evaluation, shown, known, told, rows)
    start = content["levels"]["labels"][content["levels"]["start"]]
    chosen = next(row for row in rows if row.chosen)
    facts = doubts_of(evaluation, known, told, rows, shown.confidence)
    return assembled_page(
        "report.html",
        SCRIPTS,
        content,
        command=command or IN_PYTHON,
        styles=STYLES,
        parts={
            "title": text(told.sentence),
            "sentence": element(
                "h1", typeset(told.sentence), id="sentence", class_=_size(told.sentence)
            ),
            "evidence": joined(*(element("p", typeset(each)) for each in told.evidence)),
            "about": text(about_part(evaluation, content["risk"])),
            "picture": static_picture(content),
            "start": text(start),
            "chosen": label(chosen.name),
            "levels": levels_part(shown, rows, told, content),
            "tablenote": text(table_note(shown, rows, content["unit"])),
            "certificate": certificate_part(known, rows, evaluation, start),
            "doubts": doubts_part(facts, rows),
            "ends": ends_part(chosen.risks),
            "details": details_part(evaluation, shown, known, told, rows),
        },
    )


def _size(sentence: str) -> str | None:
    """Long sentences in a smaller font."""
    return "longer" if len(sentence) > LONG_SENTENCE else None


def assembled_page(
    template: str,
    scripts: Sequence[str],
    content: Any,
    *,
    command: str,
    styles: Sequence[str] = STYLES[:1],
    parts: Mapping[str, str] | None = None,
) -> str:
    """A page of the report's kind: a template and scripts of ``assets``, and its data as JSON.

    The beginning and the end of templates, the same for all pages, are assets of their own.
    ``parts`` are HTML for places of the template.
    """
    page = _asset(template)
    for frame in ("opening", "closing", "made"):
        page = page.replace(f"{{{{{frame}}}}}", _asset(f"{frame}.html"))
    style, script = _style(styles), _script(scripts)
    versions = " · ".join(f"{name} {version}" for name, version in _versions().items())
    filled = {
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "data": as_safe_json(content),
        "title": "eqrm",
        "command": text(command),
        "versions": text(versions),
        **(parts or {}),
    }
    # One pass over the template alone: what is put in is never searched for places again.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: filled[place[1]], page)


def rendered(template: str, /, **values: Any) -> str:
    """A page of ``assets``, with every value escaped by :func:`eqrm.markup.text`."""
    return _templates().get_template(template).render(values)


@lru_cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # slow to import

    found = Environment(
        loader=PackageLoader("eqrm.evaluation.presenting.report", "assets"),
        autoescape=True,
        finalize=text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"label": label, "typeset": typeset}
    return found


def _versions() -> dict[str, str]:
    """What is installed of what the numbers rest on."""
    found = {"eqrm": eqrm.__version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@lru_cache
def _asset(name: str) -> str:
    folder = resources.files("eqrm.evaluation.presenting.report") / "assets"
    return (folder / name).read_text(encoding="utf-8")


def _style(names: Sequence[str]) -> str:
    return "".join(f"\n{_asset(name)}" for name in names)


def _script(names: Sequence[str]) -> str:
    """All scripts in one function, so that none of their names is global."""
    body = "\n".join(_asset(name) for name in names)
    return f'\n(function () {{\n"use strict";\n{body}\n}})();\n'
