"""The tests that ``make test`` leaves out (marks ``slow`` and ``full``): a check per folder."""

from __future__ import annotations

import re
from pathlib import Path

from verify.registry import ROOT, Options, Result, check, run_tests

MARKED = re.compile(r"\bmark\.(slow|full)\b")
WAITING = {"sweeps"}
"""Folders whose tests wait for other processes most of the time."""


def has_marked_tests(folder: Path) -> bool:
    """Whether any test in this folder is marked slow or full."""
    return any(MARKED.search(path.read_text("utf-8")) for path in folder.rglob("test_*.py"))


def register(area: str) -> None:
    """Add the check of one folder of tests."""

    @check(f"{area}.tests", f"tests/{area}: the tests marked slow or full", waits=area in WAITING)
    def marked_tests(options: Options) -> Result:
        return run_tests(options, f"{area}-tests", f"tests/{area}", "-m", "slow or full")


@check(
    "sweeps.clusters",
    "SLURM and Ray, two nodes each: the records and tables of one machine",
    alone=True,
)
def clusters(options: Options) -> Result:
    return run_tests(options, "clusters", "tests/sweeps/engines", "-m", "cluster")


for folder in sorted((ROOT / "tests").iterdir()):
    if folder.is_dir() and has_marked_tests(folder):
        register(folder.name)
