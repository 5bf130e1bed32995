"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evaluation.report.browser import Browser, browser, chromium


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    found = chromium()
    assert found is not None
    with browser(found) as opened:
        yield opened
