"""The report in headless Chromium, as a reader meets it: behaviour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eqrm.evaluation.presenting.report import write_report
from evaluation.report.browser import ABSENT, Browser, chromium
from evaluation.report.report_worlds import HOSTILE, measured, sentence_of

CHROMIUM = chromium()
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason=ABSENT),
    pytest.mark.xdist_group("chromium"),
]
MOVE = """(alpha) => {
  const slider = document.getElementById("level");
  const levels = JSON.parse(document.getElementById("data").textContent).levels;
  slider.value = levels.alphas.indexOf(alpha);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""
NAMES = "[...document.querySelectorAll('#domains tbody tr')].map(r => r.cells[0].textContent)"
DEFECTS = "document.body.innerText.match(/NaN|undefined|\\[object|Infinity/)"
TEXT = "document.getElementById('{}').textContent"
NOW = "[...document.querySelectorAll('#levels td[data-now]')].map(c => c.textContent)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(measured(), path, command="eqrm evaluate a.parquet --domain day")
    return path


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_opens_without_complaint_and_fetches_nothing(
    page: Browser, report: Path, width: int, dark: bool
) -> None:
    page.open(report, width=width, dark=dark)
    assert page.complaints == []
    assert page.requests == [report.as_uri()]
    assert page.ask("document.documentElement.scrollWidth") == width
    assert page.ask(DEFECTS) is None
    background = page.ask("getComputedStyle(document.body).backgroundColor")
    lightness = [int(part) for part in background[4:-1].split(",")]
    assert max(lightness) < 60 if dark else min(lightness) > 230


def test_without_scripts_it_shows_verdict_and_table(page: Browser, report: Path) -> None:
    page.scripts(False)
    try:
        page.open(report, width=360)
        shown = [
            "document.querySelector('h1').getBoundingClientRect().height",
            "document.querySelector('#levels').getBoundingClientRect().height",
        ]
        assert all(page.ask(height) > 20 for height in shown)
        assert page.ask("document.documentElement.scrollWidth") == 360
        assert page.ask("getComputedStyle(document.querySelector('.level')).display") == "none"
    finally:
        page.scripts(True)


def test_the_slider_moves_picture_table_and_certificate(page: Browser, report: Path) -> None:
    page.open(report)
    marks = "[...document.querySelectorAll('#picture circle')].map(c => c.getAttribute('cy'))"
    heights = "document.querySelector('#picture .axis-name').textContent"
    here = "[...document.querySelectorAll('#levels thead .here')].map(c => c.textContent)"
    seen = []
    for alpha in (0.9, 0.5, 0.62):
        page.ask(f"({MOVE})({alpha})")
        assert page.ask(TEXT.format("level-value")) == f"{alpha:g}"
        assert f"{alpha:g}-quantile" in page.ask("document.querySelector('#picture').textContent")
        for row, model in enumerate(("ERM", "EQRM")):
            quantile = np.quantile(measured()[model].risks, alpha, method="inverted_cdf")
            assert float(page.ask(NOW)[row]) == pytest.approx(quantile, abs=0.01)
        assert page.ask(TEXT.format("stated")) == sentence_of(measured(), "EQRM", alpha)
        columns = page.ask(here)
        assert len(columns) == (1 if alpha == 0.62 else 2)
        seen.append((page.ask(marks), page.ask(NOW), page.ask(TEXT.format("here")), columns))
    assert page.ask(heights)
    for part in range(4):
        assert seen[0][part] != seen[1][part]
    assert page.complaints == []


def test_domains_are_sorted_by_the_columns_heading(page: Browser, report: Path) -> None:
    page.open(report)
    risks = measured()["EQRM"]
    ascending = [risks.domains[int(i)] for i in np.argsort(risks.risks)]
    press = """document.querySelector('#domains [data-key="{}"]').click()"""
    assert page.ask(NAMES) == ascending[::-1][:10]
    page.ask(press.format("risk"))
    assert page.ask(NAMES) == ascending[:10]
    page.ask(press.format("name"))
    assert page.ask(NAMES) == [f"domain {i:05d}" for i in range(10)]
    page.ask(press.format("name"))
    assert page.ask(NAMES)[0] == "domain 00059"
    sort = "document.querySelector('#domains th').getAttribute('aria-sort')"
    assert page.ask(sort) == "descending"


def test_searching_leaves_the_domains_that_match(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask("search.value = 'N 0005'; search.dispatchEvent(new Event('input'))")
    assert sorted(page.ask(NAMES)) == [f"domain {i:05d}" for i in range(50, 60)]
    assert page.ask("document.getElementById('more').hidden")
    page.ask("search.value = ''; search.dispatchEvent(new Event('input'))")
    page.ask("document.getElementById('more').click()")
    assert len(page.ask(NAMES)) == 60


def test_hostile_names_are_shown_as_text_and_change_nothing(page: Browser, tmp_path: Path) -> None:
    plain, hostile = tmp_path / "plain.html", tmp_path / "hostile.html"
    write_report(measured(40, ["a", "b"]), plain, command="x")
    write_report(measured(40, HOSTILE[:2], names=HOSTILE), hostile, command=HOSTILE[1])
    count = "[document.scripts.length, document.images.length, document.links.length]"
    page.open(plain)
    wanted = page.ask(count)
    page.open(hostile, width=360)
    page.ask("document.getElementById('more').click()")
    assert {name for name in HOSTILE if len(name) <= 40} <= set(page.ask(NAMES))
    assert HOSTILE[0] in page.ask("document.getElementById('levels').textContent")
    assert page.ask(TEXT.format("command")) == HOSTILE[1]
    assert page.complaints == []
    assert page.requests == [hostile.as_uri()]
    assert page.ask("document.documentElement.scrollWidth") == 360
    assert page.ask(count) == wanted


def test_it_prints_with_all_details_open(page: Browser, report: Path) -> None:
    page.open(report, dark=True)
    page.medium("print", dark=True)
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.ask("getComputedStyle(document.querySelector('.level')).display") == "none"
    page.ask("window.dispatchEvent(new Event('beforeprint'))")
    assert page.ask("document.querySelectorAll('details:not([open])').length") == 0
    assert page.ask("document.querySelectorAll('#cdf .step').length") == 2
    page.ask("window.dispatchEvent(new Event('afterprint'))")
    assert page.ask("document.querySelectorAll('details[open]').length") == 0
    assert page.pdf().startswith(b"%PDF")
    assert page.complaints == []
