"""DomainBed's own records: what its scripts print for them, and files that are damaged."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from data.real_data import ROOT, needs
from eqrm.errors import DataFileError
from eqrm.sweeps import sweep_tables
from eqrm.sweeps.records import read_domainbed_records, sweep_records


@needs("domainbed_sweep/records.jsonl.gz")
def test_the_published_records_give_the_numbers_that_domainbed_prints() -> None:
    folder = ROOT / "domainbed_sweep"
    found = sweep_tables(sweep_records(folder))
    assert found.missing == ()
    tables = {table.rule_title.rpartition(",")[0]: table for table in found.tables}
    with (folder / "expected.csv").open(encoding="utf-8") as file:
        expected = list(csv.DictReader(file))
    assert len(expected) == 3
    for line in expected:
        table = tables[line["selection"]]
        assert [row.label for row in table.rows if row.source == "sweep"] == ["ERM"]
        shown = dict(zip(table.columns, (cell.text for cell in table.rows[0].cells), strict=True))
        assert shown == {
            domain: f"{line[domain]} ± {line[f'{domain}_se']}"
            for domain in ("C", "L", "S", "V", "average")
        }


def row(step: int, run: str = "r", **changes: Any) -> dict[str, Any]:
    """A line of DomainBed's for a run on PACS that holds out C."""
    settings = {"algorithm": "ERM", "dataset": "PACS", "hparams_seed": 2, "trial_seed": 1}
    measured = {
        f"env{n}_{part}_acc": n / 10 + (part == "out") / 2
        for n in range(4)
        for part in ("in", "out")
    }
    place = {"args": {**settings, "test_envs": [1]}, "hparams": {"lr": 0.1}, "step": step}
    return {**place, "run": run, **measured, **changes}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return path


def test_in_and_out_accuracies_become_splits_by_domain(tmp_path: Path) -> None:
    (run,) = read_domainbed_records(written(tmp_path / "records.jsonl", row(300), row(0)))
    assert (run.run, run.dataset, run.objective, run.held_out) == ("r", "PACS", "ERM", ("C",))
    assert (run.draw, run.trial, run.settings) == (2, 1, {"lr": 0.1})
    assert [each.step for each in run.checkpoints] == [0, 300]
    assert run.checkpoints[0].accuracies == {
        "train": {"A": 0.0, "P": 0.2, "S": 0.3},
        "validation": {"A": 0.5, "C": 0.6, "P": 0.7, "S": 0.8},
        "test": {"C": 0.1},
    }


def test_a_folder_of_domainbed_counts_finished_runs_only(tmp_path: Path) -> None:
    written(tmp_path / "one" / "results.jsonl", row(0))
    written(tmp_path / "two" / "results.jsonl", row(0, args=row(0)["args"] | {"hparams_seed": 3}))
    (tmp_path / "two" / "done").write_text("done")
    assert [run.run for run in sweep_records(tmp_path)] == ["two"]
    written(tmp_path / "records.jsonl", row(0, run="a", done=False), row(0, run="b", done=True))
    assert [run.run for run in sweep_records(tmp_path)] == ["b"]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"step": "no"}, "step must be an integer of at least 0, got 'no'"),
        ({"env0_out_acc": 1e308}, "env0_out_acc must be .* from 0 to 1, got 1e.308"),
        ({"args": {"algorithm": ["ERM"]}}, "algorithm must be a name, got .'ERM'."),
        ({"args": {"test_envs": "0"}}, "test_envs must be a list of different numbers, got '0'"),
    ],
)
def test_records_with_values_of_another_kind_are_refused(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    whole = row(0, run="a")
    changed = {**whole, **changes, "args": {**whole["args"], **changes.get("args", {})}}
    with pytest.raises(DataFileError, match=f"'a' is not one of DomainBed's: {complaint}"):
        sweep_records(written(tmp_path / "records.jsonl", changed))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"run": "a", "step"\n', "Line 1 of .* is not JSON: was it cut"),
        ("[1]\n", "Line 1 of .* is not a record of a run"),
        ('{"run": "a", "step": 0}\n', "'a' is not one of DomainBed's: it has no key 'args'"),
        ("[" * 100_000 + "\n", "Line 1 of .* is not JSON"),
    ],
)
def test_damaged_records_are_refused_by_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "records.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(DataFileError, match=message):
        sweep_records(tmp_path)


def test_folders_without_records_say_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="holds no finished run"):
        sweep_records(tmp_path)
    with pytest.raises(DataFileError, match="does not exist"):
        sweep_records(tmp_path / "nowhere")
