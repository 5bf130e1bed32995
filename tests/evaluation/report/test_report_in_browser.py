"""The report in headless Chromium, as a reader meets it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eqrm import Evaluation, evaluate
from eqrm.evaluation.inference.in_time.ordered import TimeBounds
from eqrm.evaluation.presenting.report import write_report
from eqrm.evaluation.presenting.summary import summarised
from eqrm.risks import MeasuredRisks
from evaluation.report.browser import ABSENT, Browser, browser, chromium
from evaluation.report.report_worlds import HOSTILE, measured, sentence_of

CHROMIUM = chromium()
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=ABSENT),
    pytest.mark.xdist_group("chromium"),
]
MOVE = """(value) => {
  const slider = document.getElementById("level");
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""
NAMES = "[...document.querySelectorAll('#domains tbody tr')].map(r => r.cells[0].textContent)"
LOWEST = "parseFloat(document.querySelector('#domains tbody tr').cells[2].textContent)"
DEFECTS = "document.body.innerText.match(/NaN|undefined|\\[object|Infinity/)"


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    assert CHROMIUM is not None
    with browser(CHROMIUM) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(measured(), path, command="eqrm evaluate a.parquet --domain day")
    return path


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
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


def test_its_first_words_say_what_was_measured(page: Browser, report: Path) -> None:
    page.open(report)
    assert page.ask("document.querySelector('h1').textContent") == measured().sentence
    text = page.ask("document.body.innerText")
    assert "eqrm evaluate a.parquet --domain day" in text
    assert "same distribution as these 60" in text


def test_the_slider_moves_numbers_marks_and_statement(page: Browser, report: Path) -> None:
    page.open(report)
    read = "[...document.querySelectorAll('#cards .card')].map(c => c.textContent)"
    marks = "[...document.querySelectorAll('.marks circle')].map(c => c.getAttribute('cx'))"
    seen = []
    for alpha in (0.9, 0.5):
        stop = page.ask(f"JSON.parse(data.textContent).levels.alphas.indexOf({alpha})")
        page.ask(f"({MOVE})({stop})")
        cards = page.ask(read)
        for card, predictor in zip(cards, ("ERM", "EQRM"), strict=True):
            assert sentence_of(measured(), predictor, alpha) in card
            quantile = np.quantile(measured()[predictor].risks, alpha, method="inverted_cdf")
            assert f"{quantile:.4g}" in card
        assert page.ask("document.getElementById('level-value').textContent") == f"{alpha:g}"
        seen.append((cards, page.ask(marks)))
    assert seen[0][0] != seen[1][0]
    assert all(float(a) > float(b) for a, b in zip(seen[0][1], seen[1][1], strict=True))
    assert page.complaints == []


def test_the_slider_is_moved_by_the_keyboard(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask("document.getElementById('level').focus()")
    page.press("ArrowRight", 39)
    assert page.ask("document.getElementById('level-value').textContent") == "0.91"
    assert page.ask("document.getElementById('level').getAttribute('aria-valuetext')") == "α = 0.91"


def test_beyond_its_reach_the_card_says_how_many_domains_are_needed(
    page: Browser, report: Path
) -> None:
    page.open(report)
    stop = page.ask("JSON.parse(data.textContent).levels.alphas.indexOf(0.99)")
    page.ask(f"({MOVE})({stop})")
    refusal = page.ask("document.querySelector('.refusal').textContent")
    assert "60 domains are too few" in refusal
    assert "At least 299 are needed" in refusal


def test_domains_are_sorted_by_the_columns_heading(page: Browser, report: Path) -> None:
    page.open(report)
    risks = measured()["ERM"]
    ascending = [risks.domains[int(i)] for i in np.argsort(risks.risks)]
    assert page.ask(NAMES) == ascending[::-1][:15]
    page.ask("document.getElementById('best').click()")
    assert page.ask(NAMES) == ascending[:15]
    page.ask("""document.querySelector('#domains [data-key="name"]').click()""")
    names = page.ask(NAMES)
    assert names == [f"domain {i:05d}" for i in range(15)]
    page.ask("""document.querySelector('#domains [data-key="name"]').click()""")
    assert page.ask(NAMES)[0] == "domain 00059"
    assert (
        page.ask("document.querySelector('#domains th').getAttribute('aria-sort')") == "descending"
    )


def test_searching_leaves_the_domains_that_match(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask("search.value = 'N 0005'; search.dispatchEvent(new Event('input'))")
    assert sorted(page.ask(NAMES)) == [f"domain {i:05d}" for i in range(50, 60)]
    assert page.ask("document.getElementById('more').hidden")


def test_show_more_lists_the_rest(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask("document.getElementById('more').click()")
    assert len(page.ask(NAMES)) == 60


def test_a_predictor_can_be_hidden(page: Browser, report: Path) -> None:
    page.open(report)
    curves = "document.querySelectorAll('#cdf .curve').length"
    assert page.ask(curves) == 2
    page.ask("document.querySelector('#legend button').click()")
    assert page.ask(curves) == 1
    assert page.complaints == []


def test_hostile_names_are_shown_as_text_and_change_nothing(page: Browser, tmp_path: Path) -> None:
    plain, hostile = tmp_path / "plain.html", tmp_path / "hostile.html"
    write_report(measured(40, ["a", "b"]), plain, command="x")
    write_report(measured(40, HOSTILE[:2], names=HOSTILE), hostile, command=HOSTILE[1])
    page.open(plain)
    count = (
        "[document.querySelectorAll('*').length, document.scripts.length, document.images.length]"
    )
    wanted = page.ask(count)
    page.open(hostile, width=390)
    page.ask("document.getElementById('more').click()")
    assert set(HOSTILE) <= set(page.ask(NAMES))
    assert HOSTILE[0] in page.ask("document.querySelector('#cards h3').textContent")
    assert page.ask("document.getElementById('command').textContent") == HOSTILE[1]
    assert page.complaints == []
    assert page.requests == [hostile.as_uri()]
    assert page.ask("document.documentElement.scrollWidth") == 390
    page.open(hostile)
    assert page.ask(count) == wanted


def test_the_pages_policy_stops_a_script_that_slipped_in(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask(
        "{const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; 1}"
    )
    assert page.ask("window.ran === undefined")
    assert page.complaints  # the browser says that it refused


def test_it_prints(page: Browser, report: Path) -> None:
    page.open(report, dark=True)
    page.medium("print", dark=True)
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.ask("getComputedStyle(document.getElementById('level')).display") == "none"
    assert page.pdf().startswith(b"%PDF")
    assert page.complaints == []


def test_a_much_too_noisy_tail_and_one_example_per_domain_are_said(
    page: Browser, tmp_path: Path
) -> None:
    generator = np.random.default_rng(0)
    noisy = MeasuredRisks.of(range(50), [4] * 50, generator.normal(1, 0.5, 50), [1.0] * 50)
    single = MeasuredRisks.of(range(50), [1] * 50, [0.5] * 50, [np.nan] * 50)
    evaluation = Evaluation({"noisy": noisy, "single": single}, "loss", None)
    write_report(evaluation, tmp_path / "report.html")
    page.open(tmp_path / "report.html")
    assert "sampling noise" in page.ask("document.getElementById('warnings').textContent")
    assert "one example" in page.ask("document.getElementById('noise').textContent")
    assert page.ask(DEFECTS) is None
    assert page.complaints == []


@pytest.mark.full
def test_ten_thousand_domains_open_and_sort_in_seconds(page: Browser, tmp_path: Path) -> None:
    evaluation = measured(10_000)
    write_report(evaluation, tmp_path / "report.html", table=evaluation.risk_table())
    page.open(tmp_path / "report.html")
    took = page.ask(
        "(() => { const t = performance.now(); document.getElementById('best').click();"
        "return performance.now() - t; })()"
    )
    assert took < 2000
    assert page.ask(LOWEST) == pytest.approx(evaluation["ERM"].risks.min(), abs=0.01)
    assert page.complaints == []


@pytest.mark.parametrize(
    ("centre", "spread"), [(0.1, 1e-16), (0.1, 1e-6), (1000.0, 1e-9), (1e30, 1e-3), (1e30, 1e-16)]
)
def test_risks_close_together_are_drawn(
    page: Browser, centre: float, spread: float, tmp_path: Path
) -> None:
    risks = centre * (1.0 + spread * np.linspace(0.0, 1.0, 40))
    found = MeasuredRisks.of(range(40), np.full(40, 9), risks, np.full(40, (centre * spread) ** 2))
    write_report(Evaluation({"one": found}, "loss", None), tmp_path / "near.html")
    page.open(tmp_path / "near.html")
    assert page.complaints == []
    assert page.ask(DEFECTS) is None
    drawn = json.loads(page.ask("document.getElementById('data').textContent"))
    assert drawn["view"]["low"] < drawn["view"]["high"]
    if spread > 1e-12:
        assert len(set(drawn["shapes"][0]["risks"])) == 40


def test_a_certificate_that_the_order_test_doubts_says_so_and_bounds_in_time_are_listed(
    page: Browser, tmp_path: Path
) -> None:
    noise = np.random.default_rng(0).normal(size=122)
    days = (np.datetime64("2013-01-01") + np.arange(122)).astype(str)
    seen = np.arange(122) < 2
    found = evaluate(domains=days, losses=np.cumsum(noise)[:122] / 9, seen=seen)
    summary = summarised(found, in_time=TimeBounds(dependence=2, recent=30.0))
    write_report(found, tmp_path / "time.html", summary=summary)
    page.open(tmp_path / "time.html")
    assert page.complaints == []
    assert page.ask(DEFECTS) is None
    doubt = found.certificate(0.9).doubt
    assert f"as these 120. {doubt}" in page.ask("document.getElementById('cards').innerText")
    listed = page.ask("document.getElementById('exchangeable').innerText")
    for sentence in summary.sentences_in_time("predictor"):
        assert sentence in listed
    assert "training has seen them: 2 domains" in page.ask("document.querySelector('h1').innerText")


def test_references_have_their_rows_and_verdicts(page: Browser, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    day, logits = np.repeat(np.arange(40), 50), rng.normal(size=2000)
    label = (rng.random(2000) < 1.0 / (1.0 + np.exp(-logits))).astype(int)
    sure = 1.0 / (1.0 + np.exp(-4.0 * logits))
    given = {"domains": day, "labels": label, "predictions": {HOSTILE[0]: sure}}
    write_report(evaluate(**given, references=True), tmp_path / "references.html")
    page.open(tmp_path / "references.html", width=390)
    assert page.complaints == []
    assert page.ask(DEFECTS) is None
    assert page.ask("document.documentElement.scrollWidth") == 390
    rows = "[...document.querySelectorAll('#references tbody th')].map(c => c.textContent)"
    shown = page.ask(rows)
    assert shown[1:3] == ["constant (base rate) reference", "constant (equal odds) reference"]
    assert len(shown) == 4
    assert "Recalibrate it" in page.ask("document.getElementById('verdicts').innerText")


def test_nested_domains_have_a_section_their_own_words_and_no_band(
    page: Browser, tmp_path: Path
) -> None:
    hospital = np.repeat(np.arange(40), 6)
    ward, risks = np.tile(np.repeat([0, 1, 2], 2), 40), np.random.default_rng(0).random(240)
    found = evaluate(domains=hospital, within=ward, losses=risks)
    path = tmp_path / "nested.html"
    write_report(found, path)
    page.open(path)
    assert page.complaints == []
    assert page.ask(DEFECTS) is None
    text = page.ask("document.body.innerText")
    assert "Groups and members" in text
    assert "of new members of similar size in new groups have a measured risk" in text
    assert "new groups are drawn independently from the same distribution as these 40" in text
    assert "whole true curve" not in text
    assert page.ask("document.getElementById('band').closest('label').hidden") is True
    page.ask(f"({MOVE})(document.getElementById('level').max)")
    assert "40 groups are too few" in page.ask("document.body.innerText")
