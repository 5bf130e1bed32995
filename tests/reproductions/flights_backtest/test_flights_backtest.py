"""The reproduction ``flights-backtest``: at quick size, and its numbers on the pages."""

from __future__ import annotations

from pathlib import Path

from eqrm.reproductions import reproduction


def test_a_quick_run_counts_twice_and_compares_all_bounds(tmp_path: Path) -> None:
    told: list[str] = []
    report = reproduction("flights-backtest").run(
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
        "equal odds",
        "ERM",
        "ERM recalibrated for 0.9",
        "EQRM for 0.9",
    ]
    assert (tmp_path / "shares.svg").is_file()
