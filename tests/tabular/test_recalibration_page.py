"""docs/recalibration.md says what the code prints."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "recalibration.md"


def test_the_examples_on_the_page_print_what_it_says() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 8
    assert found.failed == 0


@pytest.mark.slow
def test_the_commands_on_the_page_print_what_it_says(tmp_path: Path) -> None:
    example = [str(ROOT / "examples" / "recalibrate_flights.py"), "flights-predictions.parquet"]
    command = ["-m", "eqrm.cli", "recalibrate", "flights-predictions.parquet", "--domain", "day"]
    command += ["--target", "late", "--prediction", "p", "--alpha", "0.9"]
    page = PAGE.read_text(encoding="utf-8")
    for arguments in (example, [*command, "--save", "correction.json"]):
        run = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert run.stdout.rstrip() in page
