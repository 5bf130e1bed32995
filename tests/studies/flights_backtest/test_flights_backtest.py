"""The reproduction ``flights-backtest``: at quick size, and its numbers on the pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from studies.flights_backtest.checks import check_year
from studies.flights_backtest.experiment import YearFindings, YearSettings
from studies.registry import new_study

from eqrm import evaluate
from eqrm.evaluation import backtest


def test_a_quick_run_counts_twice_and_compares_all_bounds(tmp_path: Path) -> None:
    told: list[str] = []
    report = new_study("flights-backtest").run(
        tmp_path, "quick", progress=lambda share, what: told.append(what)
    )
    assert report.passed
    assert any("trained once" in what for what in told)
    tables = {table.name: table for table in report.outcome.tables}
    assert [row[0] for row in tables["kinds"].rows] == [
        "plain",
        "spells",
        "recent",
        "online",
        "dependence=1",
    ]
    assert tables["held"].columns[4:] == [
        "base rate",
        "50/50 guess",
        "ERM",
        "ERM recalibrated for 0.9",
        "EQRM for 0.9",
    ]
    assert (tmp_path / "shares.svg").is_file()


def test_what_the_page_says_of_the_last_window_is_checked() -> None:
    risks = np.random.default_rng(0).normal(size=180)
    risks[150:] += 5.0
    measured = evaluate(domains=np.arange(180), losses={"ERM": risks})
    found = backtest(measured, certify=[60, 90], judge=30, quantiles=[0.9])
    checks = check_year(YearFindings(found, found, found), YearSettings())
    assert [check.holds for check in checks] == [True] * 5
    assert checks[-1].measured == "0.0% of 30 days (150 to 179)"
