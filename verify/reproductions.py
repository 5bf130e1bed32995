"""Reproductions at full size: figures and tables of papers, real tables, domains in time."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

from verify.registry import Options, Result, check, passed, run_program


@cache
def reproduce(options: Options, name: str) -> dict[str, Any]:
    """Run the command at full size; its results, exit code and wall-clock time from outside."""
    folder = options.output / name
    (folder / "results.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "eqrm.cli", "reproduce", name, "--output", str(folder)]
    finished = run_program(options, name, command)
    if not (folder / "results.json").exists():
        raise RuntimeError(f"eqrm reproduce {name} did not finish; see {finished.log}")
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


@check(
    "reproductions.linear-regression",
    "Figure 3 A-D and the CDF figure at the paper's size, checked by number",
)
def figure_three(options: Options) -> Result:
    return all_checks(reproduce(options, "linear-regression"))


@check("reproductions.cost", "linear-regression at full size in 60 s and 1 GB, 14 levels in 1 s")
def cost(options: Options) -> Result:
    found = reproduce(options, "linear-regression")
    settings, megabytes = found["settings"], found["cost"]["peak_megabytes"]
    solving = found["timings"]["solving 14 levels"]
    return passed(
        found["wall"] <= 60
        and megabytes <= 1e9 / 2**20
        and solving <= 1
        and (settings["domains"], settings["rows"]) == (1000, 200_000),
        f"{found['wall']:.1f} s from start to end of the command "
        f"({found['cost']['cpu_seconds']:.1f} s of processor time), peak memory "
        f"{megabytes:.0f} MB, 14 levels solved in {solving:.2f} s",
        cost=found["cost"],
        timings=found["timings"],
    )


@check(
    "reproductions.causal-recovery", "causal-recovery: the table and seven cases of appendix G.1.2"
)
def recovery(options: Options) -> Result:
    return all_checks(reproduce(options, "causal-recovery"))


@check("reproductions.linear-sem", "linear-sem: the eight tasks of the IRM paper, four methods")
def sem(options: Options) -> Result:
    return all_checks(reproduce(options, "linear-sem"))


@check(
    "reproductions.frontiers",
    "real tables: auto's excess over the best fixed choice, and its cost in path fits",
)
def frontiers(options: Options) -> Result:
    return all_checks(reproduce(options, "frontiers"))


@check(
    "reproductions.quantile-selection",
    "flights by day: runs selected by a quantile and by the mean, 10 splits of 40 runs",
)
def quantile_selection(options: Options) -> Result:
    return all_checks(reproduce(options, "quantile-selection"))


@check(
    "reproductions.domains-in-time",
    "domains in time: coverage, miss rates and false alarms in 2,000 simulated worlds each",
)
def domains_in_time(options: Options) -> Result:
    return all_checks(reproduce(options, "domains-in-time"))


@check(
    "reproductions.flights-backtest",
    "flights: certificates of 45, 60 and 90 past days beside the days that came, counted twice",
)
def flights_backtest(options: Options) -> Result:
    return all_checks(reproduce(options, "flights-backtest"))


@check(
    "reproductions.nested-domains",
    "nested domains: coverage for new members of groups in 2,000 simulated worlds each",
)
def nested_domains(options: Options) -> Result:
    return all_checks(reproduce(options, "nested-domains"))
