"""The examples in docs/objectives.md print what the page says."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "objectives.md"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_the_examples_on_the_page_print_what_it_says() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, optionflags=OPTIONS)
    assert results.attempted > 40
    assert results.failed == 0
