"""The tests that ``make test`` leaves out (marks ``slow`` and ``full``): a check per folder."""

from __future__ import annotations

import re
from pathlib import Path

from verify.registry import ROOT, Options, Result, check, run_tests

MARKED = re.compile(r"\bmark\.(slow|full)\b")
WAITING = {"sweeps"}
"""Folders whose tests wait for other processes most of the time."""
TIMES_AS_MANY_GENERATED_CASES = {"distributions": 2}
"""adversarial.risk-vectors has a million more of them."""


def has_marked_tests(folder: Path) -> bool:
    """Whether any test in this folder is marked slow or full."""
    return any(MARKED.search(path.read_text("utf-8")) for path in folder.rglob("test_*.py"))


def register(area: str) -> None:
    """Add the check of one folder of tests."""
    factor = TIMES_AS_MANY_GENERATED_CASES.get(area)
    more = f", and {factor} times as many generated cases" if factor else ""

    title = f"tests/{area}: the tests marked slow or full{more}"

    @check(f"{area}.tests", title, waits=area in WAITING)
    def marked_tests(options: Options) -> Result:
        chosen = "slow or full or hypothesis" if factor else "slow or full"
        variables = {"EQRM_CASES_FACTOR": str(factor)} if factor else {}
        return run_tests(options, f"{area}-tests", f"tests/{area}", "-m", chosen, **variables)


for folder in sorted((ROOT / "tests").iterdir()):
    if folder.is_dir() and has_marked_tests(folder):
        register(folder.name)
