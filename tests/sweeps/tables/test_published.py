"""The paper's numbers: as printed, and found under any spelling of a dataset and a domain."""

from __future__ import annotations

import re

import pytest

from data.real_data import ROOT
from eqrm.sweeps.tables.published import matching_column, published_rows

PAPER = ROOT.parent / "paper" / "qrm.tex"
RULES = ("training-domain", "oracle")
BASELINES = ("erm", "irm", "groupdro", "mixup", "mldg", "coral", "mmd", "dann", "cdann")
NAMES = (*BASELINES, "mtl", "sagnet", "arm", "vrex", "rsc", "eqrm")


def test_every_objective_of_the_paper_is_found() -> None:
    for rule in RULES:
        for dataset in ("vlcs", "pacs", "officehome", "terraincognita", "domainnet"):
            assert len(published_rows("accuracy", rule, dataset, NAMES)) == 15
    assert len(published_rows("averages", "oracle", "", NAMES)) == 15
    assert len(published_rows("averages", "training-domain", "", NAMES)) == 14  # without RSC
    assert published_rows("accuracy", "quantile", "pacs", NAMES) == {}


def test_averages_are_the_means_of_their_rows_up_to_rounding() -> None:
    """As printed: a slip of the pen when copying would show here."""
    for rule in RULES:
        for dataset in ("vlcs", "pacs", "officehome", "terraincognita", "domainnet"):
            for numbers in published_rows(
                "accuracy", rule, dataset, ["erm", "eqrm", "mmd"]
            ).values():
                values = [float(n.value) for name, n in numbers.items() if name != "average"]
                assert abs(sum(values) / len(values) - float(numbers["average"].value)) < 0.11


def test_quantiles_of_the_paper_are_by_level() -> None:
    rows = published_rows("quantiles", "oracle", "iwildcam", ["eqrm", "erm"])
    assert list(rows) == ["ERM", *(f"EQRM α={a}" for a in (0.25, 0.5, 0.75, 0.9, 0.99))]
    assert rows["EQRM α=0.9"]["0.9"].value == "1.81"
    assert list(rows["ERM"]) == ["mean", "0", "0.25", "0.5", "0.75", "0.9", "0.99", "1"]
    assert list(published_rows("quantiles", "", "ogb-molpcba", ["irm", "coral", "erm"])) == ["ERM"]


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
                known = published_rows(*table, [line[0]])[line[0]].values()
                assert [[n for n in number if n] for number in known] == cells
                compared += len(cells)
    assert compared == 984
