"""The page of a backtest in headless Chromium."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eqrm import evaluate
from eqrm.evaluation import backtest
from evaluation.report.browser import ABSENT, browser, chromium
from evaluation.report.report_worlds import HOSTILE

CHROMIUM = chromium()


@pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)
@pytest.mark.xdist_group("chromium")
def test_the_page_draws_shares_and_risks_and_takes_names_as_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    losses = {str(HOSTILE[0]): rng.normal(size=160), "other": rng.normal(size=160)}
    found = backtest(evaluate(domains=np.arange(160), losses=losses), certify=[40, 60], judge=20)
    path = tmp_path / "page.html"
    found.write_report(path, command="eqrm backtest t.csv")
    assert CHROMIUM is not None
    with browser(CHROMIUM) as page:
        page.open(path)
        assert page.requests == [path.as_uri()]
        assert page.ask("document.querySelectorAll('#shares circle').length") == 2 * 6
        marks = "document.querySelectorAll('#risks circle, #risks .s1').length"
        assert page.ask(marks) == 6 * 20
        page.ask("document.querySelectorAll('#sizes button')[1].click()")
        assert page.ask("document.querySelectorAll('#shares circle').length") == 2 * 5
        assert "certified on 60" in page.ask("document.querySelector('#tables h3').textContent")
        page.ask("document.querySelectorAll('#legend button')[0].click()")
        assert page.ask("document.querySelectorAll('#shares circle').length") == 5
        assert page.ask("document.body.innerText.match(/NaN|undefined|Infinity/)") is None
        assert page.complaints == []
