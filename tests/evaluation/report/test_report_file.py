"""The report's file: what stands in it without scripts, how large it is, that nothing can act."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqrm
from eqrm import Evaluation
from eqrm.errors import SettingError
from eqrm.evaluation.presenting.report import report_html, write_report
from eqrm.evaluation.presenting.report.answer import answer_of, shown_models
from eqrm.evaluation.presenting.report.content import listed_domains
from eqrm.evaluation.presenting.summary import summarised
from eqrm.risks import MeasuredRisks
from evaluation.report.report_worlds import (
    HOSTILE,
    TWELVE,
    measured,
    sentence_of,
    unpacked,
    with_references,
)

MEGABYTE = 1_000_000
VOID = {"meta", "input", "wbr", "link", "br"}


def content_of(page: str) -> dict[str, Any]:
    """The data that a page carries."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


class Elements(HTMLParser):
    """The start tags and the text of a page, as an independent parser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text += data

    def count(self, tag: str, kind: str = "") -> int:
        """Elements with this tag, and this class."""
        return sum(t == tag and kind in (a.get("class") or "").split(" ") for t, a in self.found)


@pytest.mark.parametrize("number", [1, 2, 6, 12])
def test_without_scripts_there_are_verdict_table_and_certificate(number: int) -> None:
    evaluation = measured(40, TWELVE[:number])
    found = Elements(report_html(evaluation))
    assert not found.open
    summary = summarised(evaluation)
    answer = answer_of(evaluation, summary, evaluation.risk_table())
    assert found.text.index(answer.sentence) < found.text.index("Models at each level")
    assert found.count("td", "here") == number
    for name in TWELVE[:number]:
        assert name in found.text
    assert sentence_of(evaluation, answer.chosen, 0.9) in found.text
    assert "What could be wrong" in found.text
    assert "eqrm.evaluate(…)" in found.text


def test_a_reference_that_is_better_is_the_verdict_and_gains_are_not_claimed() -> None:
    page = Elements(report_html(with_references()))
    assert "'sure' does not beat the references at level 0.9." in page.text
    assert "Recalibrate it" in page.text
    assert "A reference (a constant, or a recalibration) has a clearly lower 0.9-quantile" in (
        page.text
    )
    assert page.count("span", "ref") >= 3
    assert page.count("tbody", "refs") == 1
    assert "AUC" in page.text


def test_names_cannot_add_an_element_to_the_page() -> None:
    def tags(evaluation: Evaluation, command: str) -> list[str]:
        found = Elements(report_html(evaluation, command=command)).found
        return [tag for tag, _ in found if tag not in ("wbr", "bdi")]

    hostile = measured(40, models=HOSTILE[:2], names=HOSTILE)
    assert tags(hostile, HOSTILE[1]) == tags(measured(40), "x")


def test_names_arrive_unchanged_in_the_data_and_visible_in_the_page() -> None:
    page = report_html(measured(40, ["a\x1b[31m<b>", "b"], names=HOSTILE))
    assert set(HOSTILE) <= set(content_of(page)["rows"]["names"])
    assert "a\\u001b[31m&lt;b&gt;" in page
    assert "\x1b" not in page


def test_nothing_on_the_page_names_another_file_or_address() -> None:
    page = report_html(measured())
    for tag, attributes in Elements(page).found:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attributes
        assert "style" not in attributes, "the page's policy would refuse it"
        assert attributes.get("href", "#").startswith("#")
    assert set(re.findall(r"https?://[^\"'\s]+", page)) == {"http://www.w3.org/2000/svg"}


def assert_ends_are_listed(names: Sequence[str], evaluation: Evaluation, number: int) -> None:
    for model in evaluation.models.values():
        order = np.argsort(model.risks)
        ends = [*order[:number], *order[-number:]]
        assert {model.domains[int(i)] for i in ends} <= set(names)


def listed(evaluation: Evaluation, most_bytes: int = MEGABYTE) -> dict[str, Any]:
    answer = answer_of(evaluation, summarised(evaluation), evaluation.risk_table())
    return listed_domains(evaluation, shown_models(evaluation, answer), most_bytes)


def test_domains_that_do_not_fit_leave_names_then_errors_then_all_but_worst_and_best() -> None:
    """The same as at full size, with a smaller limit."""
    evaluation = measured(500, names=[f"{i:04d}" * 300 for i in range(500)])
    everything = listed(evaluation)
    assert everything["all"]
    assert set(everything["names"]) == set(evaluation.domains)
    shorter = listed(evaluation, 60_000)
    assert shorter["all"]
    assert max(map(len, shorter["names"])) == 60
    evaluation = measured(500)
    assert listed(evaluation, 15_000)["errors"] is None
    few = listed(evaluation, 9_000)
    assert not few["all"]
    assert len(json.dumps(few)) < 12_000
    assert_ends_are_listed(few["names"], evaluation, 20)


def test_the_risks_of_all_domains_arrive_with_five_digits() -> None:
    evaluation = measured(300)
    rows = content_of(report_html(evaluation))["rows"]
    risks = evaluation["EQRM"]
    assert unpacked(rows["risks"][1]) == pytest.approx(risks.risks, rel=2e-5)
    assert unpacked(rows["errors"][1]) == pytest.approx(risks.standard_errors, rel=5e-3)


def test_the_same_evaluation_gives_the_same_bytes() -> None:
    assert report_html(measured()) == report_html(measured())


def test_the_certificate_of_each_stop_is_that_of_the_python_function() -> None:
    evaluation = measured(200)
    levels = content_of(report_html(evaluation))["levels"]
    for i, alpha in enumerate(levels["alphas"]):
        stated = levels["bounds"][1][i]
        if levels["needed"][i] is not None:
            assert stated is None
            assert levels["needed"][i] == eqrm.evaluation.domains_needed(alpha, 0.95)
        else:
            bound = eqrm.evaluation.quantile_bound(evaluation["EQRM"].risks, alpha)
            assert bound.bound - 1e-12 <= float(stated[0]) <= bound.bound * 1.001


def test_each_stop_has_the_quantile_of_the_table() -> None:
    evaluation = measured(100)
    levels = content_of(report_html(evaluation))["levels"]
    table = evaluation.risk_table(levels["alphas"], [])
    for found, cells in zip(levels["quantiles"], table.cells.values(), strict=True):
        assert found == pytest.approx([cell.value for cell in cells[1:]], rel=1e-4)


def test_a_model_picked_on_these_domains_has_a_bound_for_all_models_at_once() -> None:
    evaluation = measured(200, TWELVE[:6])
    data = content_of(report_html(evaluation))
    levels, chosen = data["levels"], data["models"][data["chosen"]]
    wanted = eqrm.evaluation.quantile_bound(evaluation[chosen].risks, 0.9, 1.0 - 0.05 / 6)
    assert float(levels["chosen"]["picked"][levels["start"]][0]) >= wanted.bound
    assert levels["compared"] == 6
    alone = content_of(report_html(measured(200, ["ERM"])))["levels"]
    assert alone["compared"] is None
    assert alone["chosen"]["picked"] is None


def test_bounded_losses_bring_a_certificate_for_the_true_risk() -> None:
    evaluation = measured(200, ["ERM"], bounds=(-1.0, 3.0))
    levels = content_of(report_html(evaluation))["levels"]
    risks = evaluation["ERM"]
    wanted = eqrm.evaluation.true_risk_bound(
        risks.risks, risks.counts, loss_range=(-1.0, 3.0), loss_variances=risks.variances
    )
    stated = levels["chosen"]["true"][levels["start"]][0]
    assert float(stated) == pytest.approx(wanted.bound, rel=1e-3)


@pytest.mark.parametrize("domains", [2, 3, 5])
def test_a_few_domains_with_equal_risks_of_one_example_still_give_a_report(domains: int) -> None:
    single = MeasuredRisks.of(range(domains), [1] * domains, [0.5] * domains, [np.nan] * domains)
    page = report_html(Evaluation({"ERM": single}, "loss", None))
    assert content_of(page)["noise"] == [None]
    assert "Every domain has one example" in page


def test_a_report_that_fails_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(SettingError, match="does not exist"):
        write_report(measured(), tmp_path / "nowhere" / "report.html")

    def full(*_: object, **__: object) -> int:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="disk full"):
        write_report(measured(), path)
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
