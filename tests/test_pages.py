"""The examples of the pages run. tests/website/ follows their links."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "page",
    [
        "backtest",
        "certificates",
        "concepts",
        "domainbed",
        "domains-in-time",
        "estimators",
        "nested-domains",
        "train",
        "training",
    ],
)
def test_examples_print_what_the_page_says(page: str) -> None:
    results = doctest.testfile(
        str(ROOT / "docs" / f"{page}.md"),
        module_relative=False,
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
    )
    assert results.attempted > 0
    assert results.failed == 0
