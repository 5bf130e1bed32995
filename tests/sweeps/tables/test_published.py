"""The paper's numbers: as printed, and found under any spelling of a dataset and a domain."""

from __future__ import annotations

import re

import pytest

from data.real_data import ROOT
from eqrm.sweeps.tables.published import matching_column, published_rows

PAPER = ROOT.parent / "paper" / "qrm.tex"
RULES = ("training-domain", "oracle")


def test_quantiles_of_the_paper_are_by_level() -> None:
    rows = published_rows("quantiles", "oracle", "iwildcam")
    assert {"ERM", *(f"EQRM α={a}" for a in (0.25, 0.5, 0.75, 0.9, 0.99))} < set(rows)
    assert rows["EQRM α=0.9"]["0.9"].printed == "1.81"
    assert list(rows["ERM"]) == ["mean", "0", "0.25", "0.5", "0.75", "0.9", "0.99", "1"]
    assert not {"IRM", "CORAL"} & set(published_rows("quantiles", "", "ogb-molpcba"))


@pytest.mark.parametrize(
    ("domain", "columns", "expected"),
    [
        ("Caltech101", "CLSV", "C"),
        ("VOC2007", "CLSV", "V"),
        ("Real World", "ACPR", "R"),
        ("location_100", ["L100", "L38"], "L100"),
        ("quickdraw", ["clip", "info", "paint", "quick"], "quick"),
        ("sketch", "ACP", None),
    ],
)
def test_domains_are_matched_with_the_papers_columns(
    domain: str, columns: list[str] | str, expected: str | None
) -> None:
    assert matching_column(domain, columns) == expected


@pytest.mark.skipif(
    not PAPER.is_file(), reason="needs paper/qrm.tex beside the data root (EQRM_DATA)"
)
def test_the_numbers_are_those_of_the_papers_source() -> None:
    source = PAPER.read_text(encoding="utf-8")
    begin = source.index(r"\subsubsection{Model selection: training-domain validation set}")
    appendix = source[begin : source.index(r"\subsection{WILDS}%", begin)]
    compared = 0
    for rule, part in zip(RULES, appendix.split(r"\subsubsection{")[1:], strict=True):
        sections = re.split(r"\\paragraph\{(\w+)\}", part)[1:]
        for dataset, body in zip(sections[::2], sections[1::2], strict=True):
            table = ("averages", rule, "") if dataset == "Averages" else ("accuracy", rule, dataset)
            for line in re.findall(r"^ *([A-Z]\w+) +&(.+?)\\\\", body, re.MULTILINE):
                cells = [re.findall(r"[\d.]+", cell) for cell in line[1].split("&")]
                known = published_rows(*table)[line[0]].values()
                assert [str(cell.printed).split(" ± ") for cell in known] == cells
                compared += len(cells)
    assert compared == 984
