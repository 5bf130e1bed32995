"""The page of a backtest, made of the report's assets: everything is computed here, it only draws.

As in the report, names travel as JSON and are set as text; the page's policy allows its own script
only, and no network requests.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.evaluation.backtesting.results import JudgedWindows, WindowRisks
from eqrm.evaluation.backtesting.words import conclusions, in_sentences, tables, warnings_of
from eqrm.evaluation.presenting.report.page import assembled_page
from eqrm.evaluation.rounding import significant
from eqrm.files.writing import whole_file
from eqrm.text import one_line

SCRIPTS = ("numbers.js", "charts.js", "backtest.js")
MOST_POINTS = 20_000
"""Risks that are drawn one by one; with more, the page has no picture of them."""


def write_backtest_page(found: JudgedWindows, path: Path, command: str | None = None) -> None:
    """Write the page to ``path``: whole, or not at all."""
    made = command or "eqrm.evaluation.backtest(…) and write_report(…), called from Python"
    page = assembled_page("backtest.html", SCRIPTS, backtest_content(found), command=made)
    with whole_file(path) as draft:
        draft.write_text(page, encoding="utf-8", newline="\n")  # the policy holds its hashes


def backtest_content(found: JudgedWindows) -> dict[str, Any]:
    """Everything on the page, ready for JSON."""
    trained = [name for name in found.predictors if name not in found.references]
    first = found.predictors.index(trained[0]) if trained else 0
    below = warnings_of(found)
    return {
        "predictors": [one_line(name) for name in found.predictors],
        "first": first,
        "sentence": in_sentences(found),
        "loss": found.loss,
        "order": found.domains.order,
        "level": found.plan.headline,
        "kind": found.plan.kinds[0],
        "warnings": below,
        "conclusions": [text for text in conclusions(found) if text not in below],
        "sizes": [_of_size(found, certify) for certify in found.plan.certify],
    }


def _of_size(found: JudgedWindows, certify: int) -> dict[str, Any]:
    windows = found.windows(certify)
    places = np.argsort(found.domains.spans.order)
    points = sum(len(each.window.judge) for each in windows) * len(found.predictors)
    few = points <= MOST_POINTS
    return {
        "certify": certify,
        "windows": [
            {
                "places": (places[each.window.judge] + 1).tolist() if few else [],
                "names": [one_line(str(found.domains.names[i])) for i in each.window.judge]
                if few
                else [],
            }
            for each in windows
        ],
        "shares": [_shares(found, certify, name) for name in found.predictors],
        "later": [[_later(found, each, name) for each in windows] for name in found.predictors]
        if few
        else None,
        "tables": [{"title": title, "rows": rows} for title, rows in tables(found, certify)],
    }


def _shares(found: JudgedWindows, certify: int, predictor: str) -> list[float | None]:
    kind, level = found.plan.kinds[0], found.plan.headline
    wanted = (certify, predictor, kind, level)
    own = {
        row.window: row.share
        for row in found.shares
        if (row.certify, row.predictor, row.kind, row.level) == wanted and not row.refusal
    }
    return [own.get(each.window.number) for each in found.windows(certify)]


def _later(found: JudgedWindows, each: WindowRisks, predictor: str) -> dict[str, Any] | None:
    if predictor not in each.later:
        return None
    judged = found.judged(each, predictor, found.plan.kinds[0], found.plan.headline)
    bounds = [b if math.isfinite(b) else None for b in judged.bounds.tolist()]
    return {
        "risks": significant(judged.risks),
        "bounds": [None if b is None else significant(b) for b in bounds],
    }
