"""The paper's protocol for WILDS, on generated data in the official layouts."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.__main__ import app
from studies.outcome import Outcome
from studies.wilds.run import (
    BY_METRIC,
    BY_RISK,
    ERM,
    LEVELS,
    RATES,
    Wilds,
    wilds_tables,
)
from typer.testing import CliRunner

from data.wilds_layout import write_iwildcam, write_ogb_molpcba
from eqrm.errors import SettingError
from eqrm.sweeps.records import Checkpoint, RunRecord, SplitMetric


def test_the_plans_are_the_papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ogb_molpcba(tmp_path)
    monkeypatch.setenv("EQRM_DATA", str(tmp_path))
    study = Wilds(dataset="ogb-molpcba", device="cpu")
    plan = study.erm_plan(0)
    assert (plan["run"]["unit"], plan["run"]["steps"], plan["trials"]) == ("epochs", 100, 3)
    eqrm = study.eqrm_plan(0, Path("out/erm/runs/x"))
    assert eqrm["grid"]["learning_rate"] == list(RATES)
    assert eqrm["grid"]["batches.domains"] == [8, 16, 32, 64, 128, 256, 512]
    assert len(eqrm["objectives"]) == len(LEVELS)
    assert eqrm["run"]["predictor"]["start_from"] == "out/erm/runs/x"
    wildcam = Wilds(dataset="iwildcam", device="cpu", pretrained=False)
    assert wildcam.erm_plan(0)["run"]["steps"] == 12
    assert wildcam.eqrm_plan(0, Path("x"))["grid"]["batches.domains"] == [8]
    assert plan["run"]["training"]["metrics"] == ["average-precision"]
    assert wildcam.erm_plan(0)["run"]["training"]["metrics"] == ["macro-f1"]


def made(draw: int, risk: float, pooled: float, tested: float) -> RunRecord:
    """A run whose validation domain has this risk and whose examples have this macro-F1."""
    domains = {f"t{i}": tested + 0.01 * (i - 20) for i in range(41)}
    metrics = {
        "validation": {"macro-f1": SplitMetric(pooled, {"v": pooled})},
        "test": {"macro-f1": SplitMetric(tested / 2, domains)},
    }
    risks = {"validation": {"v": risk}, "test": {name: 1 - f1 for name, f1 in domains.items()}}
    checkpoint = Checkpoint(1, risks, {}, metrics)
    return RunRecord(f"{draw}", "iwildcam", ERM, tuple(domains), draw, 0, {}, (checkpoint,))


def test_the_metric_of_wilds_selects_beside_the_mean_risk() -> None:
    found = wilds_tables([made(0, 0.1, 0.2, 0.4), made(1, 0.3, 0.9, 0.6)], "macro-f1")
    cells = {
        (table.rule, table.kind): [cell.text for cell in table.rows[0].cells]
        for table in found.tables
    }
    assert cells[BY_RISK, "macro-f1-pooled"] == ["20.0", "20.0"]
    assert cells[BY_METRIC, "macro-f1-pooled"] == ["30.0", "30.0"]
    assert cells[BY_RISK, "macro-f1-over-domains"][:2] == ["41", "40.0"]
    number, mean, low, high = cells[BY_METRIC, "macro-f1-over-domains"]
    assert (number, mean) == ("41", "60.0")
    assert 0 < float(low) < 60 < float(high) <= 100
    assert {rule for rule, kind in cells if kind == "quantiles"} == {BY_RISK, BY_METRIC}
    assert not found.unjudged


def test_what_is_missing_is_said_with_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQRM_DATA", str(tmp_path))
    result = CliRunner().invoke(app, ["wilds", "--set", "dataset=iwildcam", "--check"])
    said = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "iwildcam_v2.0/metadata.csv" in said
    assert "wilds.stanford.edu" in said
    assert "--set pretrained=FILE" in said
    with pytest.raises(SettingError, match="Unknown dataset of WILDS 'camelyon'"):
        Wilds(dataset="camelyon")
    with pytest.raises(SettingError, match="wilds has no quick size"):
        Wilds(dataset="iwildcam").run(tmp_path / "out", "quick")


def assert_both_rules(outcome: Outcome, metric: str) -> None:
    """Both rules have a table of the metric of all test examples, with a value in every row."""
    tables = {table.name: table for table in outcome.tables}
    for rule in (BY_RISK, BY_METRIC):
        rows = tables[f"{rule}-{metric}-pooled"].rows
        assert [row[0] for row in rows] == ["ERM", *(f"EQRM α={level:g}" for level in LEVELS)]
        assert all(0.0 <= float(cell) <= 100.0 for row in rows for cell in row[1:])
    assert any(f"by the {metric} of all validation" in remark for remark in outcome.remarks)


SMALL = {"device": "cpu", "epochs": 1, "trials": 1, "rates": [1e-3]}


@pytest.mark.slow
def test_molecules_run_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ogb_molpcba(tmp_path / "data")
    monkeypatch.setenv("EQRM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("EQRM_CACHE", str(tmp_path / "cache"))
    gin = {"name": "gin", "settings": {"width": 8, "depth": 2}}
    study = Wilds(dataset="ogb-molpcba", predictor=gin, batches=[6], examples=2, **SMALL)  # type: ignore[arg-type]
    report = study.run(tmp_path / "out")
    assert report.verdict == "1 of 1 checks hold"
    table = next(each for each in report.outcome.tables if each.name == "validation-quantiles")
    own = [str(row[0]) for row in table.rows if "(paper)" not in str(row[0])]
    assert own == ["ERM", *(f"EQRM α={level:g}" for level in LEVELS)]
    assert_both_rules(report.outcome, "average-precision")
    assert any("(paper)" in str(row[0]) for row in table.rows)


@pytest.mark.slow
def test_camera_traps_run_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_iwildcam(tmp_path / "data", images_per_camera=4)
    monkeypatch.setenv("EQRM_DATA", str(tmp_path / "data"))
    cnn = {"name": "cnn"}
    study = Wilds(predictor=cnn, settings={"size": 28}, batches=[8], **SMALL)  # type: ignore[arg-type]
    report = study.run(tmp_path / "out")
    assert report.verdict == "1 of 1 checks hold"
    assert_both_rules(report.outcome, "macro-f1")
    again = Wilds(predictor=cnn, settings={"size": 28}, batches=[8], **SMALL)  # type: ignore[arg-type]
    repeated = again.run(tmp_path / "out")
    assert [t.rows for t in repeated.outcome.tables] == [t.rows for t in report.outcome.tables]
