"""What the package promises, which checks hold each promise, and what their last run found."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from verify.registry import ROOT

LAST_RUN = ROOT / "verify" / "last_run.json"


@dataclass(frozen=True)
class Promise:
    """A promise, the sentence that makes it, and the checks that hold it."""

    title: str
    words: str
    checks: tuple[str, ...]


PROMISES: list[Promise] = []


def verdict(promise: Promise, statuses: dict[str, str]) -> str:
    """HOLDS, BROKEN, or PARTLY and NOT RUN where checks were left out."""
    found = [statuses.get(name, "SKIP") for name in promise.checks]
    if "FAIL" in found:
        return "BROKEN"
    if "PASS" not in found:
        return "NOT RUN"
    return "PARTLY" if "SKIP" in found else "HOLDS"


def last_run() -> dict[str, dict[str, Any]]:
    """What is recorded of the last run of each check."""
    if not LAST_RUN.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(LAST_RUN.read_text(encoding="utf-8"))
    return found


def record_run(records: list[dict[str, Any]]) -> None:
    """Keep the results of these checks in place of those of earlier runs of the same ones."""
    date = datetime.now(timezone.utc).date().isoformat()
    kept = last_run()
    for record in records:
        if record["status"] != "SKIP" or record["check"] not in kept:
            seconds = {key: round(record[key], 1) for key in ("seconds", "processor_seconds")}
            words = {key: record[key] for key in ("status", "summary")}
            kept[record["check"]] = {**words, **seconds, "date": date}
    text = json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False)
    LAST_RUN.write_text(text + "\n", encoding="utf-8")
