"""What the report shows, as plain data: everything is computed here, the page only draws."""

from __future__ import annotations

import json
import platform
import re
from importlib import metadata
from typing import Any

import numpy as np

import eqrm
from eqrm.domains import Name
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.inference.exchangeability import ExchangeabilityTest, doubt_about
from eqrm.evaluation.inference.noise import ONE_EXAMPLE, NoiseSplit
from eqrm.evaluation.presenting.report import levels, shapes
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.summary import Summary, rounded_difference
from eqrm.evaluation.rounding import digits_of_spread, significant
from eqrm.risks import MeasuredRisks
from eqrm.text import printable

PACKAGES = ("numpy", "scipy", "torch", "duckdb")
MOST_BYTES = 900_000
"""What all data of the page may take: with style and script it stays under 1 MB."""
FEWEST_BYTES = 50_000
LONGEST_NAMES = (20_000, 1000, 200, 60)
MOST_POINTS = 2000
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def report_content(
    evaluation: Evaluation, table: RiskTable, summary: Summary, command: str | None = None
) -> dict[str, Any]:
    """Everything on the page, ready for JSON.

    >>> from eqrm.evaluation.presenting.summary import summarised
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> content = report_content(found, found.risk_table(), summarised(found))
    >>> content["predictors"], content["levels"]["needed"][content["levels"]["start"]]
    (['predictor'], 29)
    """
    names = list(evaluation.predictors)
    steps = min(shapes.MOST_STEPS, 3 * shapes.MOST_STEPS // len(names))
    start = min(max(summary.alpha.alpha, levels.LOWEST), levels.HIGHEST)
    stops = levels.stops_of(table, start)
    measured = evaluation.predictors.values()
    content: dict[str, Any] = {
        "sentence": evaluation.sentence,
        "sizes": _sizes(evaluation),
        "loss": evaluation.loss,
        "predictors": [_middle_cut(name) for name in names],
        "confidence": table.confidence,
        "domains": len(evaluation.domains),
        "view": shapes.view_of([risks.risks for risks in measured]),
        "shapes": [shapes.curve_shape(risks.risks, table.confidence, steps) for risks in measured],
        "levels": levels.about_levels(evaluation, stops, start, table.confidence),
        "table": _table(table),
        "references": _references(table, summary),
        "baseline": names.index(summary.baseline),
        "differences": _differences(summary, names),
        "refusals": summary.refusals(),
        "noise": [
            _noise(risks, summary.noise[name]) for name, risks in evaluation.predictors.items()
        ],
        "exchangeability": [
            [_test(test) for test in summary.exchangeability[name]] for name in names
        ],
        "nested": [summary.nested[name].sentences for name in names] if summary.nested else None,
        "doubts": [doubt_about(summary.exchangeability[name]) for name in names],
        "in_time": [summary.sentences_in_time(name) for name in names],
        "sampled": sampled_points(evaluation),
        "command": command,
        "versions": versions(),
    }
    left = max(MOST_BYTES - _bytes_of(content), FEWEST_BYTES)
    return {**content, "rows": listed_domains(evaluation, left)}


def versions() -> dict[str, str]:
    """What is installed of what the numbers rest on.

    >>> versions()["eqrm"] == eqrm.__version__
    True
    """
    found = {"eqrm": eqrm.__version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _sizes(evaluation: Evaluation) -> list[int]:
    counts = next(iter(evaluation.predictors.values())).counts
    return [int(counts.min()), int(np.median(counts)), int(counts.max())]


def _table(table: RiskTable) -> dict[str, Any]:
    return {
        "statistics": [
            {"kind": s.kind, "level": None if s.level is None else str(s.level)}
            for s in table.statistics
        ],
        "cells": [
            [[cell.text, cell.interval, cell.best] for cell in cells]
            for cells in table.cells.values()
        ],
    }


def _references(table: RiskTable, summary: Summary) -> dict[str, Any] | None:
    """Every predictor beside the references, what to think of it, and what is missing."""
    if not table.reference_cells and not summary.notes:
        return None
    lines = table.beside_references() if table.reference_cells else []
    return {
        "lines": lines,
        "predictors": len(table.cells),
        "verdicts": [
            f"{_middle_cut(name)}: {found.sentence}" for name, found in summary.references.items()
        ],
        "notes": [*summary.shared_gains(), *summary.notes],
    }


def _differences(summary: Summary, names: list[str]) -> list[dict[str, Any]]:
    """Each other predictor against the baseline, paired by domain."""
    return [
        {
            "predictor": names.index(name),
            "rows": [_difference(d) for d in found if d.domains >= d.needed],
        }
        for name, found in summary.differences.items()
    ]


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "kind": found.statistic,
        "level": None if found.level is None else f"{found.level:g}",
        "texts": [_signed(text) for text in rounded_difference(found)],
        "clear": found.clear,
        "lower": found.value < 0.0,
    }


def _signed(text: str) -> str:
    if text == "?":
        return text
    return text.replace("-", "−") if text.startswith("-") else f"+{text}"


def _noise(risks: MeasuredRisks, split: NoiseSplit | None) -> dict[str, Any]:
    if split is None:
        return {"refusal": f"{ONE_EXAMPLE}: measure domains on more examples.", "warning": None}
    return {
        "share": significant(split.noise_share),
        "tail": significant(split.tail_noise_share),
        "alpha": f"{split.alpha:g}",
        "sentence": split.sentence,
        "warning": split.warning,
        "mean": significant(split.mean, digits_of_spread(risks.risks)),
        "deviation": significant(split.loss_variance**0.5),
    }


def _test(test: ExchangeabilityTest) -> dict[str, Any]:
    return {"sentence": test.sentence, "warning": test.warning is not None}


def listed_domains(evaluation: Evaluation, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The domains in columns: names, examples, and per predictor risks and sampling errors.

    All of them if they fit into ``most_bytes``; otherwise long names are shortened, and if that is
    not enough, only the worst and the best domains of each predictor are kept.

    >>> import eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> rows = listed_domains(found)
    >>> rows["names"], rows["risks"], rows["all"]
    (['a', 'b'], [[0.2, 0.7]], True)
    """
    everything = np.arange(len(evaluation.domains))
    for longest in LONGEST_NAMES:
        rows = _columns(evaluation, everything, longest)
        if _bytes_of(rows) <= most_bytes:
            return {**rows, "all": True}
    kept = everything.size
    while True:
        kept = max(1, int(kept * min(0.8, most_bytes / _bytes_of(rows))))
        rows = _columns(evaluation, _ends(evaluation, kept), LONGEST_NAMES[-1])
        if _bytes_of(rows) <= most_bytes or kept == 1:
            return {**rows, "all": False}


def sampled_points(evaluation: Evaluation) -> dict[str, Any] | None:
    """An even sample of examples and risks for risk against size; None where all are listed.

    >>> import eqrm
    >>> found = eqrm.evaluate(domains=["a", "a", "b", "b"], losses=[0.1, 0.3, 0.5, 0.9])
    >>> sampled_points(found) is None
    True
    """
    domains = len(evaluation.domains)
    if domains <= 5 * MOST_POINTS:
        return None
    chosen = np.linspace(0, domains - 1, MOST_POINTS).astype(np.int64)
    rows = _columns(evaluation, chosen, LONGEST_NAMES[-1])
    return {"counts": rows["counts"], "risks": rows["risks"]}


def _middle_cut(name: Name, longest: int = 200) -> str:
    """A name with its middle left out if it is too long.

    >>> _middle_cut("abcdefghij", longest=6), _middle_cut(7)
    ('abc…ij', '7')
    """
    text = str(name)
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def _columns(evaluation: Evaluation, chosen: Any, longest: int) -> dict[str, Any]:
    measured, domains = list(evaluation.predictors.values()), evaluation.domains
    counts = [risks.counts[chosen].tolist() for risks in measured]
    same = all(column == counts[0] for column in counts)
    return {
        "names": [_middle_cut(domains[i], longest) for i in chosen],
        "counts": counts[:1] if same else counts,
        "risks": [
            significant(risks.risks[chosen], digits_of_spread(risks.risks)) for risks in measured
        ],
        "errors": [
            [None if error != error else error for error in significant(errors[chosen], 2)]
            for errors in (risks.standard_errors for risks in measured)
        ],
    }


def _ends(evaluation: Evaluation, kept: int) -> Any:
    """The domains of lowest and highest risk of each predictor, about ``kept`` in all."""
    each = max(1, kept // (2 * len(evaluation)))
    chosen = []
    for risks in evaluation.predictors.values():
        order = np.argsort(risks.risks, kind="stable")
        chosen += [order[:each], order[-each:]]
    return np.unique(np.concatenate(chosen))


def as_safe_json(content: Any) -> str:
    r"""JSON for the inside of a ``script`` element: nothing in it can end the element.

    >>> as_safe_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return printable(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text), lines=False)


def _bytes_of(content: Any) -> int:
    return len(as_safe_json(content).encode())
