"""Studies at full size: figures and tables of papers, real tables, domains in time."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

from verify.registry import ROOT, Options, Result, check, passed, run_program


def run_study(options: Options, name: str, place: str) -> dict[str, Any]:
    """Run the command at full size; its results, exit code and wall-clock time from outside."""
    folder = options.output / place
    (folder / "results.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "studies", name, "--output", str(folder)]
    finished = run_program(options, place, command)
    if not (folder / "results.json").exists():
        raise RuntimeError(f"The study {name} did not finish; see {finished.log}")
    found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    ending = {"code": finished.code, "wall": finished.seconds, "log": str(finished.log)}
    return {**found, **ending}


def all_checks(found: dict[str, Any]) -> Result:
    """PASS when every check holds and the command says so."""
    wrong = [check["claim"] for check in found["checks"] if not check["holds"]]
    right = len(found["checks"]) - len(wrong)
    tail = f"; failed: {'; '.join(wrong)}" if wrong else ""
    return passed(
        found["passed"] and found["code"] == 0 and not wrong and right > 0,
        f"{right} of {len(found['checks'])} checks hold{tail}; log in {found['log']}",
        checks=found["checks"],
        remarks=found["remarks"],
    )


ALL_CHECKS = {
    "causal-recovery": "causal-recovery: the table and seven cases of appendix G.1.2",
    "linear-sem": "linear-sem: the eight tasks of the IRM paper, four methods",
    "frontiers": "real tables: auto's excess over the best fixed choice, and its cost in path fits",
    "quantile-selection": "flights by day: runs selected by a quantile and by the mean, 10 splits "
    "of 40 runs",
    "domains-in-time": "domains in time: coverage, miss rates and false alarms in 2,000 simulated "
    "worlds each",
    "flights-backtest": "flights: certificates of 45, 60 and 90 past days on later days, counted "
    "twice",
    "nested-domains": "nested domains: coverage for new members of groups in 2,000 simulated "
    "worlds each",
    "control-coverage": "operating points: how often enough new domains meet the requirement, in "
    "2,000 to 10,000 simulated worlds each",
    "requirements": "requirements: which model keeps most of what new domains allow, in two worlds "
    "and five tables, 20 splits each",
    "policy": "decisions: what the model handed over achieves in 16 kinds of worlds, 1,360 tables",
    "intervals": "intervals: coverage of means, quantiles, superquantiles and differences in 10 "
    "laws, 5 numbers of domains and 2,000 simulated worlds each",
}


LONG = {"frontiers", "quantile-selection", "policy"}
"""One to three hours of processor time each; their pages hold what the last run found."""


COUNTED = {"flights-backtest": ("held", "held-fixed")}
"""Tables of counts, which are the same on every machine: those of the page must be the present."""


def not_on_the_page(name: str, folder: Path) -> list[str]:
    """Rows of such tables in a folder of results that the committed page does not have."""
    page = (ROOT / "docs" / "reproductions" / name / "README.md").read_text(encoding="utf-8")
    rows = []
    for table in COUNTED.get(name, ()):
        with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as file:
            rows += [f"| {' | '.join(row)} |" for row in csv.reader(file)]
    return [row for row in rows if row not in page]


def register(name: str, title: str) -> None:
    """Add the check that all checks of a study hold, and that its page is the present."""

    @check(f"studies.{name}", title, long=name in LONG)
    def whole(options: Options) -> Result:
        result = all_checks(run_study(options, name, name))
        other = not_on_the_page(name, options.output / name)
        if not other:
            return result
        return passed(False, f"{result.summary}; its page has other numbers: {other[0]}")


for name, title in ALL_CHECKS.items():
    register(name, title)


@check(
    "studies.linear-regression",
    "Figure 3 A-D and the CDF figure at the paper's size, checked by number, in 60 s and 1 GB",
    alone=True,
)
def linear_regression(options: Options) -> Result:
    found = run_study(options, "linear-regression", "linear-regression")
    result = all_checks(found)
    settings, megabytes = found["settings"], found["cost"]["peak_megabytes"]
    solving = found["timings"]["solving 14 levels"]
    return passed(
        result.status == "PASS"
        and found["wall"] <= 60
        and megabytes <= 1e9 / 2**20
        and solving <= 1
        and (settings["domains"], settings["rows"]) == (1000, 200_000),
        f"{result.summary}; {found['wall']:.1f} s from start to end of the command "
        f"({found['cost']['cpu_seconds']:.1f} s of processor time), peak memory "
        f"{megabytes:.0f} MB, 14 levels solved in {solving:.2f} s",
        **result.details,
        cost=found["cost"],
        timings=found["timings"],
    )
