"""The report in headless Chromium, as a reader meets it: behaviour."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eqrm import Evaluation, evaluate
from eqrm.evaluation.inference.in_time.ordered import TimeBounds
from eqrm.evaluation.presenting.report import write_report
from eqrm.evaluation.presenting.summary import summarised
from eqrm.risks import MeasuredRisks
from evaluation.report.browser import ABSENT, Browser, chromium
from evaluation.report.report_worlds import HOSTILE, measured, sentence_of, with_references

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
        for row, predictor in enumerate(("ERM", "EQRM")):
            quantile = np.quantile(measured()[predictor].risks, alpha, method="inverted_cdf")
            assert float(page.ask(NOW)[row]) == pytest.approx(quantile, abs=0.01)
        assert page.ask(TEXT.format("stated")) == sentence_of(measured(), "EQRM", alpha)
        columns = page.ask(here)
        assert len(columns) == (1 if alpha == 0.62 else 2)
        seen.append((page.ask(marks), page.ask(NOW), page.ask(TEXT.format("here")), columns))
    assert page.ask(heights)
    for part in range(4):
        assert seen[0][part] != seen[1][part]
    assert page.complaints == []


def test_the_slider_is_moved_by_the_keyboard(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask("document.getElementById('level').focus()")
    page.press("ArrowRight", 39)
    assert page.ask(TEXT.format("level-value")) == "0.91"
    spoken = "document.getElementById('level').getAttribute('aria-valuetext')"
    assert page.ask(spoken) == "level 0.91"


def test_beyond_its_reach_the_certificate_says_how_many_domains_are_needed(
    page: Browser, report: Path
) -> None:
    page.open(report)
    page.ask(f"({MOVE})(0.99)")
    refusal = page.ask(TEXT.format("stated"))
    assert "60 domains are too few" in refusal
    assert "at least 299 are needed" in refusal
    others = "[...document.querySelectorAll('[data-model]')].map(c => c.textContent)"
    assert page.ask(others) == ["too few domains"]


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


def test_another_model_brings_its_own_domains(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask("model.value = '0'; model.dispatchEvent(new Event('change'))")
    risks = measured()["ERM"]
    worst = [risks.domains[int(i)] for i in np.argsort(-risks.risks)]
    assert page.ask(NAMES) == worst[:10]
    ends = "[...document.querySelectorAll('#{} tbody th')].map(c => c.textContent)"
    assert page.ask(ends.format("worst")) == worst[:5]
    assert page.ask(ends.format("best")) == worst[:-6:-1]
    assert "ERM" in page.ask("document.querySelector('#funnel svg').getAttribute('aria-label')")


def test_searching_leaves_the_domains_that_match(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask("search.value = 'N 0005'; search.dispatchEvent(new Event('input'))")
    assert sorted(page.ask(NAMES)) == [f"domain {i:05d}" for i in range(50, 60)]
    assert page.ask("document.getElementById('more').hidden")
    page.ask("search.value = ''; search.dispatchEvent(new Event('input'))")
    page.ask("document.getElementById('more').click()")
    assert len(page.ask(NAMES)) == 60


def test_the_funnel_counts_domains_outside_its_limits(page: Browser, report: Path) -> None:
    page.open(report)
    risks, split = measured()["EQRM"], measured().noise["EQRM"]
    assert split is not None
    limit = 3.09 * np.sqrt(split.loss_variance / risks.counts)
    outside = int((np.abs(risks.risks - split.mean) > limit).sum())
    assert f"(blue): {outside} of 60." in page.ask(TEXT.format("funnel-note"))


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


def test_the_pages_policy_stops_a_script_that_slipped_in(page: Browser, report: Path) -> None:
    page.open(report)
    page.ask(
        "{const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; 1}"
    )
    assert page.ask("window.ran === undefined")
    assert page.complaints  # the browser says that it refused


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


def test_much_noise_and_one_example_per_domain_are_said_once(page: Browser, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    noisy = {
        name: MeasuredRisks.of(range(50), [4] * 50, generator.normal(1, 0.5, 50), [1.0] * 50)
        for name in ("a", "b", "c")
    }
    single = MeasuredRisks.of(range(50), [1] * 50, [0.5] * 50, [np.nan] * 50)
    evaluation = Evaluation({**noisy, "single": single}, "loss", None)
    write_report(evaluation, tmp_path / "report.html")
    page.open(tmp_path / "report.html")
    facts = page.ask("[...document.querySelectorAll('.facts li')].map(li => li.innerText)")
    noise = [fact for fact in facts if "sampling noise. Measure" in fact]
    assert len(noise) == 1
    assert noise[0].endswith("Concerns: a, b, c")
    assert sum("one example" in fact for fact in facts) == 1
    page.ask("model.value = '3'; model.dispatchEvent(new Event('change'))")
    assert "no control limits" in page.ask(TEXT.format("funnel-note"))
    assert page.ask(DEFECTS) is None
    assert page.complaints == []


def test_ten_thousand_domains_open_and_sort_in_seconds(page: Browser, tmp_path: Path) -> None:
    evaluation = measured(10_000)
    write_report(evaluation, tmp_path / "report.html")
    page.open(tmp_path / "report.html")
    took = page.ask(
        "(() => { const t = performance.now(); document.querySelector('#domains [data-key=risk]')"
        ".click(); return performance.now() - t; })()"
    )
    assert took < 2000
    lowest = "parseFloat(document.querySelector('#domains tbody tr').cells[1].textContent)"
    assert page.ask(lowest) == pytest.approx(evaluation["EQRM"].risks.min(), abs=0.01)
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
    page.ask("document.querySelectorAll('details').forEach(each => { each.open = true; })")
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
    text = page.ask("document.body.textContent")
    assert f"as these 120. {found.certificate(0.9).doubt}" in text
    for sentence in summary.sentences_in_time("predictor"):
        assert sentence.replace(" -", " −") in text
    assert "training has seen them: 2 domains" in text


def test_references_are_grey_and_a_verdict_names_them(page: Browser, tmp_path: Path) -> None:
    write_report(with_references(predictors=[HOSTILE[0]]), tmp_path / "references.html")
    page.open(tmp_path / "references.html", width=360)
    assert page.complaints == []
    assert page.ask(DEFECTS) is None
    assert page.ask("document.documentElement.scrollWidth") == 360
    rows = "[...document.querySelectorAll('#levels .refs .name')].map(c => c.textContent)"
    shown = page.ask(rows)
    assert shown[:2] == ["constant (base rate)", "constant (50/50 guess)"]
    assert len(shown) == 3
    assert page.ask("document.querySelectorAll('#picture .dot.ref').length") == 3
    assert "Recalibrate it" in page.ask("document.querySelector('.evidence').innerText")


def test_nested_domains_have_details_their_own_words_and_no_band(
    page: Browser, tmp_path: Path
) -> None:
    hospital = np.repeat(np.arange(40), 6)
    ward, risks = np.tile(np.repeat([0, 1, 2], 2), 40), np.random.default_rng(0).random(240)
    path = tmp_path / "nested.html"
    write_report(evaluate(domains=hospital, within=ward, losses=risks), path)
    page.open(path)
    page.ask("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert page.complaints == []
    assert page.ask(DEFECTS) is None
    text = page.ask("document.body.innerText")
    assert "Groups and members" in text
    assert "of new members of similar size in new groups have a measured risk" in text
    assert "new groups are drawn independently from the same distribution as these 40" in text
    assert "confidence band" not in text
    page.ask(f"({MOVE})(0.999)")
    assert "40 groups are too few" in page.ask("document.body.innerText")
