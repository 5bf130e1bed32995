"""docs/estimators.md says what the code prints."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "estimators.md"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_the_examples_on_the_page_print_what_it_says() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, optionflags=OPTIONS)
    assert results.attempted > 10
    assert results.failed == 0


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
