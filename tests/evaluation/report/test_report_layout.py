"""The layout of the report in headless Chromium: phone to wide screen, 2 to 12 models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eqrm.evaluation.presenting.report import write_report
from evaluation.report.browser import ABSENT, WITHOUT_AXE, Browser, axe, chromium
from evaluation.report.report_worlds import TWELVE, measured

CHROMIUM, AXE = chromium(), axe()
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason=ABSENT),
    pytest.mark.xdist_group("chromium"),
]
SCREENS = {360: 740, 1024: 768, 1600: 900}
DOMAINS = (10, 300, 10_000)
OPEN = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
FIRST = """['h1', '#picture svg', '.level', '#level'].map((what) => {
  const box = document.querySelector(what).getBoundingClientRect();
  return [what, box.left, box.top, box.right, box.bottom, box.width * box.height];
})"""
MOVED = """['#picture', '#levels', '#stated', '#here'].map((what) =>
  document.querySelector(what).textContent)"""
TO_THE_MEDIAN = """(() => {
  const slider = document.querySelector('#level');
  const levels = JSON.parse(document.querySelector('#data').textContent).levels;
  slider.value = levels.alphas.indexOf(0.5);
  slider.dispatchEvent(new Event('input', { bubbles: true }));
})()"""
TOO_WIDE = """[...document.querySelectorAll('main *')].filter((each) => {
  if (each.closest('svg') || each.closest('.scroll') || each.closest('figcaption')) return false;
  const box = each.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map((each) => each.outerHTML.slice(0, 80))"""
BEYOND_PARENT = """[...document.querySelectorAll('table')].filter((each) => !each.closest('.scroll')
  && each.getBoundingClientRect().right > each.parentElement.getBoundingClientRect().right + 0.5
).map((each) => each.outerHTML.slice(0, 80))"""
BROKEN_WORDS = """(() => {
  const broken = [];
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (parent.closest('svg, pre, .long, select')) continue;
    for (const word of node.data.matchAll(/[^\\s_\\-\\/.:=,|−–]+/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) broken.push(word[0]);
    }
  }
  return broken;
})()"""
CLASHES = """(() => {
  const labels = [...document.querySelectorAll('#picture .label')];
  const boxes = labels.map((each) => [each.textContent, each.getBoundingClientRect()]);
  const outer = document.querySelector('#picture svg').getBoundingClientRect();
  const cut = ([, box]) => box.left < outer.left - 1 || box.right > outer.right + 1;
  const found = boxes.filter(cut).map(([text]) => text + ' cut');
  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([two, b]) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > 3) found.push(one + ' over ' + two);
  }));
  return found;
})()"""
SERIOUS = """axe.run().then((found) => found.violations
  .filter((each) => ['serious', 'critical'].includes(each.impact))
  .map((each) => [each.id, each.nodes.slice(0, 3).map((node) => node.html.slice(0, 120))]))"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A report by numbers of models and domains, written once."""
    folder = tmp_path_factory.mktemp("reports")

    def made(models: int, domains: int) -> Path:
        path = folder / f"{models}-{domains}.html"
        if not path.exists():
            write_report(measured(domains, TWELVE[:models]), path)
        return path

    return made


@pytest.mark.parametrize("domains", DOMAINS)
@pytest.mark.parametrize("models", [2, 6, 12])
@pytest.mark.parametrize("width", SCREENS)
def test_nothing_overflows_no_word_is_broken_and_the_first_screen_has_the_answer(
    page: Browser, reports: Any, width: int, models: int, domains: int
) -> None:
    path = reports(models, domains)
    assert path.stat().st_size < 1_000_000
    page.open(path, width=width, height=SCREENS[width])
    for what, left, top, right, bottom, area in page.ask(FIRST):
        assert area > 0, what
        assert min(left, top) >= 0, what
        assert right <= width, what
        assert bottom <= SCREENS[width], what
    assert page.ask(CLASHES) == []
    before = page.ask(MOVED)
    page.ask(TO_THE_MEDIAN)
    after = page.ask(MOVED)
    assert all(one != two for one, two in zip(before, after, strict=True))
    assert page.ask(CLASHES) == []
    page.ask(OPEN)
    assert page.ask("document.documentElement.scrollWidth") == width
    assert page.ask(TOO_WIDE) == []
    assert page.ask(BEYOND_PARENT) == []
    assert page.ask(BROKEN_WORDS) == []
    assert page.complaints == []


@pytest.mark.skipif(AXE is None, reason=WITHOUT_AXE)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("width", "models"), [(360, 12), (1024, 6), (1600, 2), (1024, 1)])
def test_axe_finds_nothing_serious(
    page: Browser, reports: Any, width: int, models: int, dark: bool
) -> None:
    page.open(reports(models, 300), width=width, height=SCREENS[width], dark=dark)
    page.ask(OPEN)
    page.ask(f"{AXE}; 1")
    assert page.ask(SERIOUS) == []
