"""What evaluations, tables, certificates and comparisons show in a notebook."""

from __future__ import annotations

import html
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import eqrm

DAYS = np.arange(60)


def _evaluation(number: int = 60) -> eqrm.Evaluation:
    random = np.random.default_rng(0)
    first = random.lognormal(size=number)
    losses = {"ERM": first, "<b>EQRM</b>": 0.5 * first + 0.01 * random.normal(size=number)}
    return eqrm.evaluate(domains=DAYS[:number], losses=losses)


def test_an_evaluation_shows_its_sentence_and_its_table() -> None:
    found = _evaluation()
    page = found._repr_html_()
    assert found.sentence in html.unescape(page)
    assert page.count("<table>") == 1
    assert "&lt;b&gt;EQRM&lt;/b&gt;" in page
    assert "<b>EQRM" not in page
    assert page.count("<tr>") == 3


def test_a_frame_of_risks_has_a_row_per_predictor_and_domain() -> None:
    found = _evaluation()
    frame = found.to_frame()
    assert list(frame) == ["model", "domain", "risk", "examples", "variance"]
    assert len(frame) == 120
    risks = frame[frame.model == "ERM"].set_index("domain").risk
    assert risks.to_dict() == dict(zip(found.domains, found["ERM"].risks.tolist(), strict=True))


def test_a_table_as_a_frame_is_its_csv() -> None:
    table = _evaluation().risk_table()
    frame = table.to_frame()
    assert frame.best.dtype == bool
    lines = table.to_csv().splitlines()
    assert lines[0].split(",") == list(frame)
    assert len(lines) == len(frame) + 1
    assert float(lines[1].split(",")[3]) == frame.value[0]
    assert pd.isna(frame.level[0])


def test_a_comparison_is_a_dictionary_that_shows_itself() -> None:
    compared = _evaluation().compare(alpha=[0.5, 0.9])
    assert list(compared) == ["<b>EQRM</b>"]
    frame = compared.to_frame()
    assert set(frame.baseline) == {"ERM"}
    assert frame.value.tolist() == [each.value for each in compared["<b>EQRM</b>"]]
    page = compared._repr_html_()
    assert page.count("<tr>") == 1 + len(frame)
    assert "Risk minus that of ERM" in page
    assert "&lt;b&gt;EQRM" in page
    assert compared["<b>EQRM</b>"][0].clear
    assert "<b>" in page


def test_a_comparison_with_too_few_domains_has_no_intervals() -> None:
    compared = _evaluation(5).compare(alpha=[0.9])
    assert all(each.refused for each in compared["<b>EQRM</b>"])
    assert "[" not in compared._repr_html_().split("</table>")[0]
    assert len(compared.plot(Figure().subplots()).get_lines()) == 1  # the line at 0


@pytest.mark.parametrize("number", [60, 12])
def test_pictures_are_drawn_on_the_axes_that_are_given(number: int) -> None:
    axes = Figure().subplots()
    found = _evaluation(number)
    assert found.plot(axes) is axes
    assert len(axes.get_lines()) == 2
    below = Figure().subplots()
    assert found.compare().plot(below) is below
    low, high = below.get_xlim()
    assert math.isfinite(low)
    assert low < 0.0 < high
