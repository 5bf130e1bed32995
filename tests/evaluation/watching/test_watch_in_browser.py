"""The page of a watch in headless Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.report.browser import ABSENT, browser, chromium
from evaluation.watching.watch_worlds import days, started, watch, written

CHROMIUM = chromium()
DEFECTS = "document.body.innerText.match(/NaN|undefined|\\[object|Infinity/)"


@pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)
@pytest.mark.xdist_group("chromium")
def test_the_pages_of_a_new_and_of_a_broken_watch_open_without_complaint(tmp_path: Path) -> None:
    state = started(tmp_path)
    assert CHROMIUM is not None
    with browser(CHROMIUM) as page:
        for new, rows in (([], 0), (["--new", written(tmp_path, days(60, 40, 0.2), "a.csv")], 40)):
            watch(state, *new)
            path = tmp_path / "w.state.html"
            page.open(path, width=390)
            assert page.complaints == []
            assert page.requests == [path.as_uri()]
            assert page.ask(DEFECTS) is None
            assert page.ask("document.documentElement.scrollWidth") == 390
            assert page.ask("document.querySelectorAll('#domains tbody tr').length") == rows
            assert page.ask("document.querySelectorAll('svg[role=img]').length") == 2
        assert page.ask("document.getElementById('sentence').textContent").startswith("Broken: ")
        drawn = "document.querySelector('#risks .s1').getAttribute('d').match(/M/g).length"
        missed = "[...document.querySelectorAll('#domains td.best')].length"
        assert page.ask(drawn) == page.ask(missed) > 10
