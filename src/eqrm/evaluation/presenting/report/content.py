"""What the report shows, as plain data: everything is computed here, the page only draws."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import numpy as np

import eqrm
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.comparison import Difference
from eqrm.evaluation.inference.exchangeability import ExchangeabilityTest
from eqrm.evaluation.inference.noise import NoiseSplit
from eqrm.evaluation.presenting.report import domain_rows, levels, shapes
from eqrm.evaluation.presenting.report.safe_json import bytes_of
from eqrm.evaluation.presenting.risk_table import RiskTable
from eqrm.evaluation.presenting.rounding import decimals, rounded
from eqrm.evaluation.presenting.summary import Summary
from eqrm.risks import MeasuredRisks

PACKAGES = ("numpy", "scipy", "torch", "duckdb")
ONE_EXAMPLE = (
    "Every domain has one example, so sampling noise cannot be told from real spread: measure "
    "domains on more examples."
)


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
        "predictors": [domain_rows.shortened(name) for name in names],
        "confidence": table.confidence,
        "domains": len(evaluation.domains),
        "view": shapes.view_of([risks.risks for risks in measured]),
        "shapes": [shapes.shape_of(risks.risks, table.confidence, steps) for risks in measured],
        "levels": levels.about_levels(evaluation, stops, start, table.confidence),
        "table": _table(table),
        "baseline": names.index(summary.baseline),
        "differences": _differences(summary, names),
        "noise": [
            _noise(risks, summary.noise[name]) for name, risks in evaluation.predictors.items()
        ],
        "alike": [[_test(test) for test in summary.exchangeability[name]] for name in names],
        "sampled": domain_rows.sampled_points(evaluation),
        "command": command,
        "versions": versions(),
    }
    left = max(domain_rows.MOST_BYTES - bytes_of(content), domain_rows.FEWEST_BYTES)
    return {**content, "rows": domain_rows.rows_of(evaluation, left)}


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


def _differences(summary: Summary, names: list[str]) -> list[dict[str, Any]]:
    """Each other predictor against the baseline, paired by domain."""
    return [
        {"predictor": names.index(name), "rows": [_difference(d) for d in found if d.reliable]}
        for name, found in summary.differences.items()
    ]


def _difference(found: Difference) -> dict[str, Any]:
    places = decimals(found.value, (found.high - found.low) / 4.0)
    ends = (rounded(found.value, places), rounded(found.low, places), rounded(found.high, places))
    return {
        "kind": found.statistic,
        "level": None if found.level is None else f"{found.level:g}",
        "texts": [_signed(text) for text in ends],
        "clear": found.clear,
        "lower": found.value < 0.0,
    }


def _signed(text: str) -> str:
    return text.replace("-", "−") if text.startswith("-") else f"+{text}"


def _noise(risks: MeasuredRisks, split: NoiseSplit | None) -> dict[str, Any]:
    if split is None:
        return {"refusal": ONE_EXAMPLE, "warning": None}
    losses = split.noise_variance / float((1.0 / risks.counts).mean())
    return {
        "share": shapes.short(split.noise_share),
        "tail": shapes.short(split.tail_noise_share),
        "alpha": f"{split.alpha:g}",
        "sentence": split.sentence,
        "warning": split.warning,
        "mean": shapes.short(float(risks.risks.mean()), shapes.digits_of(risks.risks)),
        "deviation": shapes.short(losses**0.5),
    }


def _test(test: ExchangeabilityTest) -> dict[str, Any]:
    return {"sentence": test.sentence, "warning": test.warning is not None}
