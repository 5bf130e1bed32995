"""The page of a watch: its content, which the report's style and charts draw."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from eqrm.evaluation.presenting.report.page import assembled_page
from eqrm.evaluation.rounding import rounded_up, significant
from eqrm.evaluation.watching.state import Record, WatchState
from eqrm.evaluation.watching.words import about_certificate, verdict_in_words
from eqrm.files.writing import write_text
from eqrm.text import counted, one_line

SCRIPTS = ("numbers.js", "charts.js", "watch.js")
MOST_DRAWN, MOST_LISTED = 2000, 500
"""New domains in the pictures and in the table, the latest ones; certified ones count extra."""


def write_watch_page(state: WatchState, path: Path, command: str) -> None:
    """Write the page of a watch to a file that needs nothing else to be opened."""
    page = assembled_page("watch.html", SCRIPTS, watch_content(state), command=command)
    write_text(path, page)


def watch_content(state: WatchState) -> dict[str, Any]:
    """Everything on the page, ready for JSON."""
    claim, report, domains = state.claim, state.report, state.domains
    certified = min(len(claim.risks), MOST_DRAWN)
    return {
        "predictors": [one_line(claim.predictor)],
        "verdict": verdict_in_words(state),
        "claim": [text for text in about_certificate(state) if text not in _warnings(state)],
        "warnings": _warnings(state),
        "bound": claim.certificate.bound,
        "boundText": rounded_up(claim.certificate.bound),
        "alarmAt": report.alarm_at,
        "suspiciousAt": math.sqrt(report.alarm_at),
        "certified": {
            "names": [one_line(str(name)) for name in claim.domains[-certified:]],
            "risks": significant(claim.risks[-certified:]),
        },
        "domains": [_row(record) for record in domains[-MOST_DRAWN:]],
        "watched": len(domains),
        "listed": MOST_LISTED,
        "earlier": _earlier(state),
    }


def _warnings(state: WatchState) -> list[str]:
    return [text for text in about_certificate(state) if text.startswith("Warning: ")]


def _row(record: Record) -> dict[str, Any]:
    evidence = record["evidence"]
    return {
        "name": one_line(str(record["domain"])),
        "examples": record["examples"],
        "risk": significant(record["risk"]),
        "missed": record["missed"],
        "evidence": None if evidence is None else significant(evidence),
        "verdict": record["verdict"],
    }


def _earlier(state: WatchState) -> list[str]:
    """A sentence per certificate before the one that is watched now."""
    told, domains = [], 0
    current: dict[str, Any] | None = None
    last = ""
    for entry in state.history:
        if "certificate" not in entry:
            domains, last = domains + 1, entry["verdict"]
            continue
        if current is not None:
            told.append(
                f"{one_line(current['predictor'])}, bound "
                f"{current['certificate']['bound']:.4g}: {counted(domains, 'domain')}, "
                f"{last or 'none judged'}."
            )
        current, domains, last = entry["certificate"], 0, ""
    return told
