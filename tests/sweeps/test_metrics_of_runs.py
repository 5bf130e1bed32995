"""Metrics that are not means of losses: recorded by runs, selected by, and tabulated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import eqrm
from eqrm.errors import DataFileError
from eqrm.files.checked_json import write_checked_json
from eqrm.sweeps import read_records, sweep_tables
from eqrm.sweeps.records import (
    FORMAT,
    Checkpoint,
    RunRecord,
    SplitMetric,
    read_record,
    record_path,
    write_record,
)
from eqrm.sweeps.selection import (
    Candidates,
    LeaveOneDomainOut,
    OracleSelection,
    QuantileSelection,
    SelectionRule,
    TrainingDomainValidation,
)
from eqrm.sweeps.sweep import run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.tables.cells import SweepTables
from eqrm.sweeps.tables.tabulating import TableSettings
from eqrm.training.runs.run_folder import RunFolder
from sweeps.made_records import record
from sweeps.small_plans import HereEngine, changed, planned

RUN = "0123456789abcdef"
F1, PRECISION = "macro-f1", "average-precision"


def measured(
    step: int = 5,
    validation: dict[str, float] | None = None,
    test: dict[str, float] | None = None,
    pooled: tuple[float | None, float | None] = (0.5, 0.5),
    metric: str = F1,
    without: tuple[str, ...] = (),
) -> Checkpoint:
    """A checkpoint with a metric of each domain; those ``without`` have risks only."""
    given = {"validation": validation or {"a": 0.5, "b": 0.5}, "test": test or {"c": 0.5}}
    risks = {split: dict.fromkeys((*values, *without), 1.0) for split, values in given.items()}
    metrics = {
        split: {metric: SplitMetric(value, given[split])}
        for split, value in zip(given, pooled, strict=True)
    }
    return Checkpoint(step, risks, {}, metrics)


def only_choice(rule: SelectionRule, *runs: RunRecord) -> tuple[int, float] | str:
    """Draw and score of what is selected; or why nothing is."""
    choice = rule.select(Candidates(frozenset(runs[0].held_out), {r.draw: r for r in runs}))
    if choice.selected is None:
        return " ".join(choice.unjudged.values())
    return choice.selected.run.draw, choice.selected.score


def cells(found: SweepTables, kind: str) -> list[str]:
    (table,) = [table for table in found.tables if table.kind == kind]
    return [cell.text for cell in table.rows[0].cells]


def test_metrics_are_read_as_they_were_written_and_checked(tmp_path: Path) -> None:
    given = replace(record(measured(pooled=(None, 0.25), without=("d",))), run=RUN)
    path = record_path(tmp_path, RUN)
    path.parent.mkdir(parents=True)
    write_record(tmp_path, given)
    assert read_record(tmp_path, RUN) == given
    content = given.to_dict()
    content["checkpoints"][0]["metrics"]["test"][F1]["pooled"] = "high"
    write_checked_json(path, FORMAT, content)
    with pytest.raises(DataFileError, match="a metric that is not a number"):
        read_record(tmp_path, RUN)


def test_a_sweep_records_the_metrics_that_its_runs_wrote(tmp_path: Path) -> None:
    training = {"device": "cpu", "evaluate_every": 4, "metrics": [F1, "roc-auc"]}
    plan = planned(changed(run={"training": training}, objectives=["erm"], draws=1, search=None))
    folder = SweepFolder(tmp_path)
    assert run_sweep(plan, folder, HereEngine(folder)).finished == 1
    (found,) = read_records(tmp_path)
    lines = [line for line in RunFolder(folder.of_run(found.run)).metrics() if "final" in line]
    assert [each.step for each in found.checkpoints] == [4, 8]
    for line in lines:
        for name in (F1, "roc-auc"):
            own, known = line["metrics"][name], found.checkpoints[-1].metrics[line["split"]][name]
            assert known.pooled == own["pooled"]
            assert len(known.domains) == own["defined"]
            assert {d: v for d, v in own["domains"].items() if v is not None} == known.domains
    assert set(found.checkpoints[-1].metrics) == {"train", "validation", "test"}


def test_rules_take_the_highest_mean_over_domains_that_have_the_metric() -> None:
    low = record(measured(validation={"a": 0.25, "b": 0.5}, without=("d",)), draw=0)
    high = record(measured(validation={"a": 0.75, "b": 0.25}, without=("d",)), draw=1)
    assert only_choice(TrainingDomainValidation(metric=F1), low, high) == (1, 0.5)
    # 1 − metric: quantiles .75 and .75 at .9, the lower median .5 and .25
    assert only_choice(QuantileSelection(metric=F1, alpha=0.5), low, high) == (1, -0.25)


def test_the_pooled_metric_selects_as_wilds_does() -> None:
    low = record(measured(validation={"a": 0.9}, pooled=(0.25, 0.5)), draw=0)
    high = record(measured(validation={"a": 0.1}, pooled=(0.75, 0.5)), draw=1)
    assert only_choice(TrainingDomainValidation(metric=F1, pooled=True), low, high) == (1, 0.75)
    assert only_choice(TrainingDomainValidation(metric=F1), low, high) == (0, 0.9)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (TrainingDomainValidation(metric=F1, pooled=True), "macro-f1 is not defined"),
        (TrainingDomainValidation(metric=PRECISION, pooled=True), "was not recorded"),
        (TrainingDomainValidation(metric=PRECISION), "no validation average-precision"),
        (OracleSelection(metric=F1), "no validation macro-f1 of the held-out domain 'c'"),
        (LeaveOneDomainOut(metric=F1), "no run with its draw and trial"),
    ],
)
def test_what_is_not_defined_or_not_recorded_is_named(rule: SelectionRule, reason: str) -> None:
    assert reason in str(only_choice(rule, record(measured(pooled=(None, None)))))


def test_tables_report_the_metric_per_domain_and_pooled() -> None:
    values = {"c": 0.25, "d": 0.75}
    held_out = ("c", "d", "e")
    runs = [
        record(measured(test=values, pooled=(0.5, p), without=("e",)), held_out=held_out, trial=t)
        for t, p in enumerate((0.2, 0.4))
    ]
    rules = {"training-domain": TrainingDomainValidation(metric=F1)}
    found = sweep_tables(runs, rules, TableSettings(metric=F1))
    assert cells(found, F1) == ["50.0 ± 0.0", "50.0 ± 0.0"]
    assert cells(found, f"{F1}-over-domains") == ["2", "50.0", "–", "–"]  # too few for an interval
    assert found.tables[0].title == (
        "toy: macro-f1 (%) on held-out domains. Selection: training-domain validation by "
        "macro-f1, best checkpoint"
    )
    assert not found.unjudged
    pooled = sweep_tables(runs, rules, TableSettings(metric=F1, pooled=True))
    assert cells(pooled, f"{F1}-pooled") == ["30.0 ± 7.1", "30.0 ± 7.1"]


def test_intervals_over_domains_are_those_of_the_evaluation() -> None:
    generator = np.random.default_rng(0)
    names = np.repeat([f"d{i:02d}" for i in range(50)], 20)
    labels, scores = generator.integers(0, 2, 1000), generator.random(1000)
    wanted = eqrm.evaluate(metric="roc-auc", domains=names, target=labels, predictions=scores)
    own = wanted.metrics["model"]
    values = {str(d): each.value for d, each in zip(own.domains, own.values, strict=True)}
    test = {d: value for d, value in values.items() if value is not None}
    found = record(measured(test=test, metric="roc-auc"), held_out=tuple(test))
    rules = {"training-domain": TrainingDomainValidation(metric="roc-auc")}
    tables = sweep_tables([found], rules, TableSettings(metric="roc-auc")).tables
    (table,) = [table for table in tables if table.kind == "roc-auc-over-domains"]
    expected = wanted.means()["model"]
    shown = [cell.value for cell in table.rows[0].cells]
    assert shown[0] == len(test)
    assert shown[1:] == pytest.approx([expected.value, expected.low, expected.high], rel=1e-12)
