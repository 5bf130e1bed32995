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
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import eqrm
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.comparison import SMOOTH
from eqrm.evaluation.inference.noise import ONE_EXAMPLE
from eqrm.evaluation.inference.risk_checks import Refused
from eqrm.evaluation.presenting.report.answer import (
    Answer,
    ShownModel,
    answer_of,
    concerned,
    doubts_of,
    level_label,
    shown_models,
)
from eqrm.evaluation.presenting.report.content import as_safe_json, report_content
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary, summarised
from eqrm.evaluation.presenting.table_cells import Statistic, rounded_difference, worst_domains
from eqrm.evaluation.rounding import as_percent, rounded, rounded_up
from eqrm.files.writing import write_text
from eqrm.level import Level
from eqrm.markup import Markup, label, text, typeset
from eqrm.text import one_line

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
MOST_COLUMNS = 6
"""Levels with a column of their own; the slider's column shows any other."""
FIRST_COLUMNS = (0.5, 0.9, 0.99, 1.0, 0.95, 0.75, 0.25, 0.0)
ENDS = {"0": "lowest", "1": "highest"}
LISTED = 5
NOT_TESTED = "Not tested: there are fewer than five domains."
IN_PYTHON = "eqrm.evaluate(…) and eqrm.evaluation.write_report(…), called from Python"


def write_report(
    evaluation: Evaluation,
    path: Path | str,
    *,
    command: str | None = None,
    table: RiskTable | None = None,
    summary: Summary | None = None,
    answer: Answer | None = None,
) -> None:
    """Write the report of an evaluation to ``path``: whole, or not at all, and under 1 MB.

    ``command`` is shown as the command that made the report. ``table`` is the risk table to
    show, by default that of :meth:`eqrm.Evaluation.risk_table`, and ``summary`` the certificates
    and tests; its level is where the slider starts. ``answer`` is the verdict, by default which
    model has the lowest quantile of risk at that level. Certificates have the table's confidence.
    """
    write_text(Path(path), report_html(evaluation, table, summary, answer, command))


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
    models = [row for row in rows if row.name in evaluation.models]
    chosen = next(row for row in rows if row.chosen)
    facts = doubts_of(evaluation, known, told, rows, shown.confidence)
    return assembled_page(
        "report.html",
        SCRIPTS,
        content,
        command=command or IN_PYTHON,
        styles=STYLES,
        title=told.sentence,
        answer=told,
        long=len(told.sentence) > LONG_SENTENCE,
        about=about(evaluation, content["risk"]),
        evaluation=evaluation,
        summary=known,
        table=shown,
        rows=rows,
        models=models,
        chosen=chosen,
        levels=_levels(shown, rows, content),
        tablenote=table_note(shown, rows, content["unit"]),
        facts=[(fact.text, concerned(fact, rows)) for fact in facts],
        ends=[
            ("worst", "Highest risk", worst_domains(chosen.risks, LISTED)),
            ("best", "Lowest risk", worst_domains(chosen.risks, LISTED, best=True)),
        ],
        numbers={row.name: _numbers(shown, known, row) for row in rows},
        told=_told(known, models),
    )


def _levels(shown: RiskTable, rows: Sequence[ShownModel], content: dict[str, Any]) -> Any:
    """The table of levels: where the cells of its columns are, and the slider's own column.

    Columns are the levels of trained models first, then usual ones; narrow screens drop the last
    ones (classes p1 to p3). At a level of the table the slider shows what the table has.
    """
    levels = content["levels"]
    start = levels["labels"][levels["start"]]
    known = {
        level_label(s.level): i
        for i, s in enumerate(shown.statistics)
        if s.level is not None and s.column.in_levels
    }
    own = [row.trained_for and level_label(row.trained_for) for row in rows]
    usual = [level_label(Level(alpha)) for alpha in FIRST_COLUMNS]
    wanted = dict.fromkeys([*own, start, *usual, *known])
    chosen = [level for level in wanted if level in known][:MOST_COLUMNS]
    columns = [
        {
            "place": place,
            "level": level,
            "title": shown.statistics[place].column.in_levels.format(ENDS.get(level, level)),
            "kind": f"p{1 + chosen.index(level) // 2}",
        }
        for level, place in known.items()
        if level in chosen
    ]
    if start in known:
        now = [shown.all_cells[row.name][known[start]].text for row in rows]
    else:
        now = [
            rounded(quantiles[levels["start"]], places)
            for quantiles, places in zip(levels["quantiles"], content["decimals"], strict=True)
        ]
    return {
        "start": start,
        "alone": [i for i, s in enumerate(shown.statistics) if s.level is None],
        "columns": columns,
        "rows": list(zip(rows, own, now, strict=True)),
        # A level that has a column of its own needs no second one.
        "here": "here twice" if start in chosen else "here",
    }


def _told(summary: Summary, models: Sequence[ShownModel]) -> dict[str, dict[str, Any]]:
    """What tests found, in sentences, by part of the details and model."""
    told: dict[str, dict[str, Any]] = {}
    for name in (row.name for row in models):
        split, beside = summary.noise[name], summary.references.get(name)
        nested, tests = summary.nested.get(name), summary.exchangeability[name]
        found = {
            "noise": f"{ONE_EXAMPLE}." if split is None else split.sentence,
            "references": [] if beside is None else [beside.sentence],
            "tests": [test.sentence for test in tests] or [NOT_TESTED],
            "nested": [] if nested is None else nested.sentences,
            "in_time": summary.sentences_in_time(name),
        }
        for part, sentences in found.items():
            told.setdefault(part, {})[name] = sentences
    return told


def _numbers(shown: RiskTable, summary: Summary, row: ShownModel) -> list[list[object]]:
    """Headings, and every statistic of a model with its difference from the first model."""
    differences = {
        Statistic.of(found): found
        for found in summary.differences.get(row.name, [])
        if not found.refused
    }
    lines: list[list[object]] = [["Statistic", "Risk", f"{as_percent(shown.confidence)} interval"]]
    if differences:
        lines[0] += [Markup(f"Minus {label(one_line(summary.baseline))}"), "Interval"]
    for statistic, cell in zip(shown.statistics, shown.all_cells[row.name], strict=True):
        called = statistic.column.in_numbers.format(statistic.level)
        line: list[object] = [called, cell.text, cell.interval]
        found = differences.get(statistic)
        if found is not None:
            value, low, high = rounded_difference(found)
            line += [f"{value}{' (clear)' if found.clear else ''}", f"[{low}, {high}]"]
        elif differences:
            line += ["", ""]
        lines.append(line)
    return lines


def about(evaluation: Evaluation, risk: str) -> str:
    """What was measured, in the line below the verdict."""
    counts = next(iter(evaluation.models.values())).counts
    least, median, most = int(counts.min()), int(np.median(counts)), int(counts.max())
    sizes = f"{most:,} in each" if least == most else f"{least:,} to {most:,}, median {median:,}"
    domains = f"{len(evaluation.domains):,} domains"
    if evaluation.outer_domains is not None:
        domains += f" of {len(set(evaluation.outer_domains)):,} groups"
    return (
        f"Measured on {evaluation.examples:,} examples in {domains} ({sizes}). "
        f"Risk: the {risk} of a domain; lower is better.{evaluation.left_out}"
    )


def table_note(shown: RiskTable, rows: Sequence[ShownModel], risk: str) -> str:
    """How to read the table of levels."""
    estimate = " (Harrell–Davis estimates)" if shown.interpolation == SMOOTH else ""
    parts = [
        f"Risk ({risk}). A column such as 0.9 is a quantile{estimate}: nine of ten domains have at "
        f"most this risk. Small: {as_percent(shown.confidence)} confidence intervals, if domains "
        "are independent; ? where there are too few domains for a limit. Bold: lowest of the "
        "column."
    ]
    if any(row.trained_for is not None for row in rows):
        parts.append("Boxed: the level that a model was trained for.")
    if any(row.reference for row in rows):
        parts.append(
            "Grey, with letters: references, the simpler alternatives that a model must beat."
        )
    return " ".join(parts)


def assembled_page(
    template: str,
    scripts: Sequence[str],
    content: Any,
    *,
    command: str,
    styles: Sequence[str] = STYLES[:1],
    **values: Any,
) -> str:
    """A page of the report's kind: a template and scripts of ``assets``, and its data as JSON.

    ``values`` are for the template, which escapes each by :func:`eqrm.markup.text`.
    """
    style = "".join(f"\n{_asset(name)}" for name in styles)
    # All scripts in one function, so that none of their names is global.
    body = "\n".join(_asset(name) for name in scripts)
    script = f'\n(function () {{\n"use strict";\n{body}\n}})();\n'
    given = {
        "policy": (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        "style": Markup(style),
        "script": Markup(script),
        "data": Markup(as_safe_json(content)),
        "title": "eqrm",
        "command": command,
        "versions": " · ".join(f"{name} {version}" for name, version in _versions().items()),
    }
    return _templates().get_template(template).render({**given, **values})


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
    found.filters |= {"label": label, "typeset": typeset, "one_line": one_line}
    found.filters |= {
        "rounded_up": rounded_up,
        "joined": lambda parts: Markup(", ".join(map(text, parts))),
    }
    found.tests["refused"] = lambda bound: isinstance(bound, Refused)
    return found


def _versions() -> dict[str, str]:
    """What is installed of what the numbers rest on."""
    found = {"eqrm": eqrm.__version__, "Python": platform.python_version()}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@lru_cache
def _asset(name: str) -> str:
    folder = resources.files("eqrm.evaluation.presenting.report") / "assets"
    return (folder / name).read_text(encoding="utf-8")
