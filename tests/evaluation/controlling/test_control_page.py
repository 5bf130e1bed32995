"""docs/control.md says what commands and Python print."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts" / "website"))

import tutorials  # noqa: E402


@pytest.mark.slow
def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    blocks, problems = tutorials.run_page(ROOT / "docs" / "control.md", tmp_path)
    assert (blocks, problems) == (8, [])
