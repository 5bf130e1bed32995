"""The report's file: what is in it, how large it is, and that nothing in it can act."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm import Evaluation
from eqrm.errors import SettingError
from eqrm.evaluation.presenting.report import report_html, write_report
from eqrm.evaluation.presenting.report.content import listed_domains
from eqrm.risks import MeasuredRisks
from evaluation.report.report_worlds import HOSTILE, measured
from evaluation.routes import world

MEGABYTE = 1_000_000


def content_of(page: str) -> dict[str, Any]:
    """The data that a page carries."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None
    content: dict[str, Any] = json.loads(found[1])
    return content


class Elements(HTMLParser):
    """The start tags of a page, as an independent parser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_names_cannot_add_an_element_to_the_page() -> None:
    plain = Elements(report_html(measured(40))).found
    hostile = measured(40, predictors=HOSTILE[:2], names=HOSTILE)
    assert [tag for tag, _ in Elements(report_html(hostile, command=HOSTILE[1])).found] == [
        tag for tag, _ in plain
    ]


def test_names_arrive_unchanged_in_the_data() -> None:
    names = content_of(report_html(measured(40, names=HOSTILE)))["rows"]["names"]
    assert set(HOSTILE) <= set(names)


def test_half_a_surrogate_in_a_name_does_not_stop_the_report(tmp_path: Path) -> None:
    write_report(measured(40, names=["\ud800", "\udfff"]), tmp_path / "report.html")
    names = content_of((tmp_path / "report.html").read_text(encoding="utf-8"))["rows"]["names"]
    assert "\ud800" in names


def test_nothing_on_the_page_names_another_file_or_address() -> None:
    for tag, attributes in Elements(report_html(measured())).found:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")


def report_of(evaluation: Evaluation) -> dict[str, Any]:
    """The content of a page that is under a megabyte."""
    page = report_html(evaluation, table=evaluation.risk_table())
    assert len(page.encode()) < MEGABYTE
    return content_of(page)


def assert_ends_are_listed(names: Sequence[str], evaluation: Evaluation, number: int) -> None:
    for predictor in evaluation.predictors.values():
        order = np.argsort(predictor.risks)
        ends = [*order[:number], *order[-number:]]
        assert {predictor.domains[int(i)] for i in ends} <= set(names)


def test_domains_that_do_not_fit_leave_shorter_names_then_the_worst_and_the_best() -> None:
    """The same as at full size, with a smaller limit."""
    evaluation = measured(500, names=[f"{i:04d}" * 300 for i in range(500)])
    everything = listed_domains(evaluation)
    assert everything["all"]
    assert set(everything["names"]) == set(evaluation.domains)
    shorter = listed_domains(evaluation, 60_000)
    assert shorter["all"]
    assert max(map(len, shorter["names"])) == 60
    evaluation = measured(500)
    few = listed_domains(evaluation, 15_000)
    assert not few["all"]
    assert len(json.dumps(few)) < 20_000
    assert_ends_are_listed(few["names"], evaluation, 20)


@pytest.mark.full
def test_ten_thousand_domains_take_less_than_a_megabyte() -> None:
    rows = report_of(measured(10_000, predictors=["ERM", "EQRM", "third"]))["rows"]
    assert rows["all"]
    assert len(rows["names"]) == 10_000
    report_of(measured(10_000, ["ERM"], names=[f"{i}" * 2000 for i in range(10_000)]))


@pytest.mark.full
def test_more_domains_than_fit_leave_the_worst_and_the_best() -> None:
    evaluation = measured(30_000)
    content = report_of(evaluation)
    assert not content["rows"]["all"]
    assert content["domains"] == 30_000
    assert_ends_are_listed(content["rows"]["names"], evaluation, 500)


def test_a_table_per_domain_gives_the_same_report_as_the_raw_rows(tmp_path: Path) -> None:
    frame = world(4000)
    frame.to_parquet(tmp_path / "rows.parquet")
    table = frame.groupby("ward")["loss"].agg(n="count", mean="mean", variance="var").reset_index()
    table.to_csv(tmp_path / "table.csv", index=False)
    raw = eqrm.evaluate(tmp_path / "rows.parquet", domains="ward", losses="loss")
    aggregated = eqrm.evaluate(tmp_path / "table.csv", domains="ward", aggregated=True)
    one, two = (content_of(report_html(found)) for found in (raw, aggregated))
    names = [one.pop("predictors"), two.pop("predictors")]
    assert len(names[0]) == len(names[1]) == 1
    assert one == two


def test_the_same_evaluation_gives_the_same_bytes() -> None:
    assert report_html(measured()) == report_html(measured())


def test_the_certificate_of_each_stop_is_that_of_the_python_function() -> None:
    evaluation = measured(200)
    levels = content_of(report_html(evaluation))["levels"]
    for i, alpha in enumerate(levels["alphas"]):
        stated = levels["predictors"][1]["bound"][i]
        if levels["needed"][i] is not None:
            assert stated is None
            assert levels["needed"][i] == eqrm.evaluation.domains_needed(alpha, 0.95)
        else:
            bound = eqrm.evaluation.quantile_bound(evaluation["EQRM"].risks, alpha)
            assert stated[0] == pytest.approx(bound.bound, rel=1e-6)
            assert float(stated[1]) >= bound.bound - 1e-12


def test_bounded_losses_bring_a_certificate_for_the_true_risk() -> None:
    evaluation = measured(200, bounds=(-1.0, 3.0))
    levels = content_of(report_html(evaluation))["levels"]
    start = levels["start"]
    risks = evaluation["ERM"]
    wanted = eqrm.evaluation.true_risk_bound(
        risks.risks, risks.counts, loss_range=(-1.0, 3.0), loss_variances=risks.variances
    )
    assert levels["predictors"][0]["true"][start][0] == pytest.approx(wanted.bound, rel=1e-6)


def test_domains_called_by_dates_are_tested_against_time() -> None:
    days = [str(day.date()) for day in pd.date_range("2013-01-01", periods=80)]
    drifting = MeasuredRisks.of(days, [50] * 80, np.linspace(0.2, 0.9, 80), [0.01] * 80)
    evaluation = Evaluation({"ERM": drifting}, "log-loss", None)
    tests = content_of(report_html(evaluation))["exchangeability"][0]
    assert tests[0]["warning"]
    assert "grows over time" in tests[0]["sentence"]


@pytest.mark.parametrize("domains", [2, 3, 5])
def test_a_few_domains_with_equal_risks_of_one_example_still_give_a_report(domains: int) -> None:
    single = MeasuredRisks.of(range(domains), [1] * domains, [0.5] * domains, [np.nan] * domains)
    content = content_of(report_html(Evaluation({"ERM": single}, "loss", None)))
    assert content["shapes"][0]["density"] is None
    assert "one example" in content["noise"][0]["refusal"]


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
