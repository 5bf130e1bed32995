"""docs/estimators.md shows what its example prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "estimators.md"


@pytest.mark.slow
def test_the_tour_prints_what_the_page_says() -> None:
    run = subprocess.run(
        [sys.executable, "examples/estimators_tour.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    page = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(risk on .*?)```", page, flags=re.DOTALL)
    printed = run.stdout.splitlines()
    assert [line for line in shown.splitlines() if line not in printed] == []
