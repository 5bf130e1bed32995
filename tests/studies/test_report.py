"""What every reproduction leaves behind, whatever it computes."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
from studies.base import write_page
from studies.registry import new_study, study_names

from eqrm.errors import SettingError
from toy_study import Toy


def test_a_run_leaves_json_csv_and_vector_graphics(tmp_path: Path) -> None:
    report = Toy().run(tmp_path / "new" / "folder", seed=2)
    folder = tmp_path / "new" / "folder"
    names = {path.name for path in folder.iterdir()}
    assert names == {"results.json", "numbers.csv", "checks.csv", "line.svg", "line.pdf"}
    record = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert record["passed"] is report.passed is True
    assert record["tables"]["numbers"] == [{"name": "a", "value": 0.5}, {"name": "b", "value": 2.0}]
    assert record["settings"]["deepest"] == "-inf"
    assert record["cost"]["seconds"] == report.cost.seconds > 0
    with (folder / "numbers.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["name", "value"], ["a", "0.5"], ["b", "2.0"]]


def test_one_failed_check_fails_the_run(tmp_path: Path) -> None:
    report = Toy().run(tmp_path, seed=1)
    assert not report.passed
    assert report.verdict == "1 of 2 checks hold"
    assert str(report.outcome.checks[1]).startswith("FAIL  even | odd: 1")
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["passed"] is False


def test_the_same_seed_draws_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Toy().run(tmp_path / name)
    assert (tmp_path / "a" / "line.svg").read_bytes() == (tmp_path / "b" / "line.svg").read_bytes()


def test_the_page_shows_checks_tables_and_pictures(tmp_path: Path) -> None:
    report = Toy().run(tmp_path / "out", size="quick", seed=1)
    page = write_page(report, tmp_path / "docs" / "toy")
    text = page.read_text(encoding="utf-8")
    assert (page.parent / "line.svg").is_file()
    assert "![A line](line.svg)" in text
    assert "python -m studies toy --quick --seed 1 --write-docs" in text
    assert "| ✗ | even \\| odd | 1 | an even seed | arithmetic |" in text
    assert "thinking 0.25 s" in text
    assert "| b | 2 |" in text


def test_without_matplotlib_numbers_are_written_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    report = Toy().run(tmp_path)
    assert report.no_pictures is not None
    assert "eqrm[plots]" in report.no_pictures
    assert (tmp_path / "results.json").is_file()
    assert not list(tmp_path.glob("*.svg"))
    page = write_page(report, tmp_path / "page").read_text(encoding="utf-8")
    assert "![" not in page


def test_an_unknown_name_or_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="Did you mean 'linear-regression'"):
        new_study("linear-regresion")
    with pytest.raises(SettingError, match="Unknown size 'huge'"):
        Toy().run(tmp_path, size="huge")


@pytest.mark.parametrize("name", study_names())
def test_each_says_what_it_reproduces_and_where_its_values_come_from(name: str) -> None:
    found = new_study(name)
    assert found.name == name
    assert found.title
    assert found.reproduces
    assert len(found.sources) >= 2
