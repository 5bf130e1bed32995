"""docs/estimators.md shows what its example prints."""

from __future__ import annotations

import os
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
    assert run.stdout.rstrip() in PAGE.read_text(encoding="utf-8")
