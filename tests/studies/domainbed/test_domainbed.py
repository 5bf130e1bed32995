"""DomainBed's protocol as a reproduction, on generated data in the layout of its datasets."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.__main__ import app
from studies.domainbed.run import METHODS, DomainBed
from typer.testing import CliRunner

from eqrm.errors import DataFileError
from eqrm.sweeps.planned_runs import planned_sweep
from eqrm.sweeps.tables.published import published_rows
from small_images import write_images

VLCS = ("Caltech101", "LabelMe")
"""Two of its four domains: enough to leave one out."""


@pytest.fixture
def vlcs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_images(tmp_path / "data" / "VLCS", VLCS, 60)
    monkeypatch.setenv("EQRM_DATA", str(tmp_path / "data"))
    return tmp_path


def test_its_methods_are_those_of_the_papers_tables() -> None:
    rows = published_rows("accuracy", "oracle", "pacs")
    assert set(METHODS) <= {label.lower() for label in rows}


@pytest.mark.slow
def test_the_plan_is_the_whole_protocol(vlcs: Path) -> None:
    study = DomainBed(dataset="VLCS", pretrained=False, device="cpu", objectives="erm, eqrm")
    planned = planned_sweep(study.plan("full", 0), "The plan")
    assert len(planned.runs) == 2 * 2 * 20 * 3
    # A reader is told that networks do not start from ImageNet.
    assert any("random weights" in note for note in planned.notes)
    assert study.given == {"dataset": "vlcs", "pretrained": "false", "objectives": "erm,eqrm"}


def test_what_is_missing_is_said_with_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQRM_DATA", str(tmp_path))
    result = CliRunner().invoke(app, ["domainbed", "--set", "dataset=officehome", "--check"])
    said = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "office_home or officehome or OfficeHomeDataset_10072016" in said
    assert "hemanthdv.org" in said
    assert "--set pretrained=FILE" in said
    with pytest.raises(DataFileError, match="lacks office_home"):
        DomainBed(dataset="officehome").run(tmp_path / "out")
    monkeypatch.delenv("EQRM_DATA")
    (said,) = DomainBed(dataset="officehome", pretrained=False).missing()
    assert said.startswith("No data root is set. The environment variable EQRM_DATA must name")
    assert "hemanthdv.org" in said


def test_nothing_is_missing_is_said(vlcs: Path) -> None:
    options = ["--check", "--set", "dataset=vlcs", "--set", "pretrained=false"]
    result = CliRunner().invoke(app, ["domainbed", *options])
    assert result.exit_code == 0
    assert "Nothing is missing: python -m studies domainbed can run." in result.output


@pytest.mark.full
def test_the_protocol_runs_from_end_to_end(vlcs: Path) -> None:
    settings = {"pretrained": False, "predictor": "resnet18", "objectives": "erm", "steps": 1}
    report = DomainBed(dataset="vlcs", device="cpu", **settings).run(vlcs / "out", "quick")  # type: ignore[arg-type]
    assert report.passed
    names = {table.name for table in report.outcome.tables}
    assert {"training-domain-accuracy", "oracle-accuracy"} <= names
    accuracies = next(t for t in report.outcome.tables if t.name == "oracle-accuracy")
    assert [row[0] for row in accuracies.rows] == ["erm", "ERM (paper)"]
    assert any("steps is 1, not 5001" in remark for remark in report.outcome.remarks)
