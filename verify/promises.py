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


PROMISES = (
    Promise(
        "Exact quantiles and gradients",
        "The quantile of an estimated law of risks, and its gradient, are those of its definition: "
        "compared with 50-digit arithmetic on every code path, finite or refused with an error for "
        "any finite risks, monotone in the level, the same with and without the C part.",
        (
            "adversarial.risk-vectors",
            "distributions.accuracy",
            "distributions.cuda",
            "distributions.tests",
            "gpu.tests",
            "linear.closed-form",
            "linear.newton",
            "estimators.optimum",
        ),
    ),
    Promise(
        "Coverage",
        "A certificate that is printed with a percentage holds in at least that share of simulated "
        "worlds, under the assumption that it names. An interval that is printed with one holds in "
        "at least that share less two points ([how often each does](reproductions/intervals/"
        "README.md), by statistic, number of domains and law). Where nothing holds, none is "
        "printed.",
        (
            "evaluation.tests",
            "studies.intervals",
            "studies.nested-domains",
            "studies.control-coverage",
            "studies.domains-in-time",
            "studies.flights-backtest",
        ),
    ),
    Promise(
        "Nothing is lost",
        "After `kill -9` at any moment, a run, a sweep or a watch goes on and ends, on the CPU, "
        "with the bytes of an undisturbed one. A file that a command writes is the old or the "
        "whole new one, also when the disk is full.",
        ("adversarial.kills", "training.tests", "sweeps.tests", "sweeps.clusters"),
    ),
    Promise(
        "Nothing executes, nothing is obeyed",
        "No file that is read can run code. Damaged and foreign files are refused. No control "
        "character that came from data reaches a terminal, a page or a table, and no cell of a "
        "CSV file begins a formula.",
        (
            "adversarial.tests",
            "adversarial.files",
            "data.damaged-files",
            "data.downloads",
            "data.official-layouts",
        ),
    ),
    Promise(
        "Determinism",
        "The same seed gives the same result: in each repetition, after a resume, and for any "
        "number of processes. For any number of threads: see above for what is the same to the "
        "last bit and what is the same up to rounding.",
        ("adversarial.thread-counts", "data.batches", "networks.many-runs", "estimators.saving"),
    ),
    Promise(
        "Bounded memory, no leaks",
        "Memory does not grow with the number of steps or evaluations, files stay closed, and "
        "files of a billion rows are evaluated in a gigabyte.",
        (
            "adversarial.leaks",
            "distributions.memory",
            "training.many-domains",
            "evaluation.large-files",
            "recalibration.large-files",
            "control.large-files",
        ),
    ),
    Promise(
        "Speed",
        "EQRM costs about as much as ERM, and the ratios on the pages are those measured.",
        (
            "boosting.speed",
            "data.graphs",
            "distributions.rules",
            "distributions.speed",
            "estimators.speed",
            "linear.sampling",
            "linear.speed",
            "package.import-time",
            "sweeps.overhead",
            "sweeps.tables",
            "training.step-cost",
        ),
    ),
    Promise(
        "What the papers say",
        "Figures and tables of the papers, computed again and checked by number.",
        (
            "distributions.bandwidths",
            "networks.colored-mnist",
            "objectives.tests",
            "studies.causal-recovery",
            "studies.linear-regression",
            "studies.linear-sem",
            "studies.tests",
        ),
    ),
    Promise(
        "What the pages say of real data",
        "Where training for a level helps and where it does not is what was measured.",
        (
            "data.molecules",
            "estimators.tests",
            "examples.tests",
            "networks.molecules",
            "objectives.many-domains",
            "studies.frontiers",
            "studies.policy",
            "studies.quantile-selection",
            "studies.requirements",
            "tabular.tests",
        ),
    ),
    Promise(
        "It works from a fresh clone",
        "`make test` and `make demo` need nothing but Python, and print what README.md quotes. "
        "`make docs` builds the site: no warnings, no broken links, and its tutorials print what "
        "they show. What commands print and write, and what quick studies find, is as recorded in "
        "`tests/record/`. Estimators work in the pipelines and searches of the oldest scikit-learn "
        "that is supported, and of the newest.",
        (
            "estimators.scikit-learn",
            "package.clean-clone",
            "package.light",
            "package.record",
            "package.wheel",
            "tables.demo",
            "website.tests",
        ),
    ),
)


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


def page_of_promises() -> str:
    """The promises in Markdown, each with its checks and how their last run ended."""
    recorded, parts = last_run(), []
    for promise in PROMISES:
        ended: dict[str, list[str]] = {}
        for name in promise.checks:
            found = recorded.get(name)
            how = "no run is recorded" if found is None else f"{found['status']} ({found['date']})"
            ended.setdefault(how, []).append(f"`{name}`")
        lines = [f"- {how}: {', '.join(names)}" for how, names in ended.items()]
        parts.append("\n".join([f"### {promise.title}", promise.words, "", *lines]))
    return "\n\n".join(parts)
