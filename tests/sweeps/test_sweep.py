"""Sweeps: every run once, failures listed and retried, runs of dead processes taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from eqrm.errors import DataFileError, SettingError
from eqrm.sweeps import read_records, sweep_status
from eqrm.sweeps.engines.base import RunOutcome
from eqrm.sweeps.execution import checkpoints_of, execute_run
from eqrm.sweeps.planned_runs import PlannedSweep
from eqrm.sweeps.records import record_path
from eqrm.sweeps.status import SweepLines
from eqrm.sweeps.sweep import MOST_LOSSES, SweepResult, run_sweep
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.training.runs.run_folder import RunFolder
from sweeps.small_plans import SMALL, HereEngine, changed, planned, records_of


@pytest.fixture(scope="module")
def small() -> PlannedSweep:
    return planned(SMALL)


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    return SweepFolder(tmp_path / "sweep")


def swept(
    plan: PlannedSweep,
    folder: SweepFolder,
    first: dict[str, list[RunOutcome]] | None = None,
    **options: bool,
) -> tuple[SweepResult, HereEngine, list[str]]:
    told: list[str] = []
    engine = HereEngine(folder, first)
    return run_sweep(plan, folder, engine, shown=SweepLines(told.append), **options), engine, told


def test_records_hold_what_the_runs_measured(small: PlannedSweep, folder: SweepFolder) -> None:
    result, _, told = swept(small, folder)
    assert (result.finished, result.trained, result.failures) == (4, 4, ())
    assert told[-1] == "4 of 4 runs finished"
    by_hash = {record.run: record for record in read_records(folder.path)}
    for run in small.runs:
        record = by_hash[run.run]
        assert (record.draw, record.trial, record.held_out) == (run.draw, 0, run.held_out)
        assert record.settings == run.settings
        assert [checkpoint.step for checkpoint in record.checkpoints] == [4, 8]
        last = record.checkpoints[-1]
        rows = RunFolder(folder.of_run(run.run)).read_risks()
        assert len(rows) == 58 + 60 + 2
        for row in rows:
            assert last.risks[row["split"]][row["domain"]] == row["risk"]
            assert last.accuracies[row["split"]][row["domain"]] == row["accuracy"]


def test_a_finished_run_is_never_repeated(small: PlannedSweep, folder: SweepFolder) -> None:
    swept(small, folder)
    before = records_of(folder.path, small)
    times = [record_path(folder.path, run.run).stat().st_mtime_ns for run in small.runs]
    result, engine, _ = swept(small, folder)
    assert (result.finished, result.trained, engine.submitted) == (4, 0, [])
    assert execute_run(folder, small.runs[0].run).ending == "finished"
    assert records_of(folder.path, small) == before
    assert times == [record_path(folder.path, run.run).stat().st_mtime_ns for run in small.runs]


def test_a_run_whose_record_is_damaged_or_was_not_written_gets_the_same_record(
    small: PlannedSweep, folder: SweepFolder
) -> None:
    swept(small, folder)
    before = records_of(folder.path, small)
    damaged = record_path(folder.path, small.runs[1].run)
    damaged.write_bytes(damaged.read_bytes()[:100])
    record_path(folder.path, small.runs[2].run).unlink()
    (folder.of_run(small.runs[2].run) / ".0123456789abcdef.json").write_text("{")
    result, engine, _ = swept(small, folder)
    assert engine.submitted == [small.runs[1].run, small.runs[2].run]
    assert result.finished == 4
    assert records_of(folder.path, small) == before
    assert not list(folder.of_run(small.runs[2].run).glob(".*"))


def test_failed_runs_are_listed_and_tried_again_on_request(folder: SweepFolder) -> None:
    grid = {"learning_rate": [1e-2, 1e30]}
    plan = planned(changed(draws=None, search=None, grid=grid, objectives=["erm"]))
    bad = plan.runs[1].run
    result, _, told = swept(plan, folder)
    assert result.finished == 1
    assert [(each.run, "must be finite" in each.error) for each in result.failures] == [(bad, True)]
    assert any(bad in line for line in told)
    text = sweep_status(folder.path).to_text()
    assert "1 of 2 runs finished, 1 failed" in text
    assert bad in text
    assert "retry_failed=True" in text
    _, engine, _ = swept(plan, folder)
    assert engine.submitted == []
    result, engine, _ = swept(plan, folder, retry_failed=True)
    assert engine.submitted == [bad]
    assert len(result.failures) == 1


def test_a_defect_fails_its_run_with_a_traceback_and_the_sweep_goes_on(
    small: PlannedSweep, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eqrm.sweeps import execution

    train = execution.train_run

    def broken(config, *arguments, **rest):  # type: ignore[no-untyped-def]
        if config.run_name == small.runs[0].run:
            raise ZeroDivisionError("oops")
        return train(config, *arguments, **rest)

    monkeypatch.setattr(execution, "train_run", broken)
    result, _, _ = swept(small, folder)
    assert result.finished == 3
    failure = folder.failure(small.runs[0].run)
    assert failure is not None
    assert failure.error == "ZeroDivisionError: oops"
    assert "broken" in failure.traceback


def test_a_run_whose_process_died_is_tried_again_but_not_for_ever(
    small: PlannedSweep, folder: SweepFolder
) -> None:
    often, once = small.runs[0].run, small.runs[1].run
    first = {
        often: [RunOutcome(often, "lost", "The worker process ended by signal 9.")] * MOST_LOSSES,
        once: [RunOutcome(once, "lost", "The worker process ended by signal 9.")],
    }
    result, engine, _ = swept(small, folder, first)
    assert (engine.submitted.count(often), engine.submitted.count(once)) == (MOST_LOSSES, 2)
    assert [each.run for each in result.failures] == [often]
    assert "signal 9" in result.failures[0].error
    assert folder.state(often) == "failed"


def test_a_claimed_run_is_left_to_its_process_and_taken_over_when_that_is_gone(
    small: PlannedSweep, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eqrm.sweeps.sweep.LOOK_EVERY", 0.0)
    folder.begin(small.content, small.runs_listed())
    run = small.runs[0]
    folder.prepare(run.run, run.place(), run.config.plain())
    with folder.claimed(run.run) as own:
        assert own
        assert folder.state(run.run) == "running"
        assert execute_run(folder, run.run).ending == "elsewhere"
    assert folder.state(run.run) == "waiting"
    first = {run.run: [RunOutcome(run.run, "elsewhere")]}
    result, engine, _ = swept(small, folder, first)
    assert engine.submitted.count(run.run) == 2
    assert (result.finished, result.trained) == (4, 4)


def test_a_folder_of_another_plan_or_of_something_else_is_refused(
    small: PlannedSweep, folder: SweepFolder, tmp_path: Path
) -> None:
    folder.begin(small.content, small.runs_listed())
    other = planned(changed(seed=9))
    with pytest.raises(SettingError, match="belongs to another plan"):
        folder.begin(other.content, other.runs_listed())
    with pytest.raises(SettingError, match="the data or the version of eqrm has changed"):
        folder.begin(small.content, other.runs_listed())
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "letter.txt").write_text("Dear")
    with pytest.raises(SettingError, match=r"it holds 'letter\.txt'"):
        SweepFolder(tmp_path / "notes").begin(small.content, small.runs_listed())
    with pytest.raises(DataFileError, match="is not the folder of a sweep"):
        sweep_status(tmp_path / "notes")


def test_the_status_counts_by_dataset_and_objective(
    small: PlannedSweep, folder: SweepFolder
) -> None:
    swept(small, folder)
    for run in small.runs[1:]:
        record_path(folder.path, run.run).unlink()
    with folder.claimed(small.runs[1].run):
        status = sweep_status(folder.path)
        assert status.line() == "1 of 4 runs finished, 1 running, 2 waiting"
    lines = status.to_text().splitlines()
    assert lines[2].split() == ["dataset,", "objective", "finished", "failed", "running", "waiting"]
    assert lines[3].split() == ["coloured-digits,", "erm", "1", "0", "1", "0"]


def test_the_final_evaluation_takes_the_place_of_one_after_the_same_step() -> None:
    lines = [
        {"step": 2, "split": "test", "risks": {"a": 1.0}, "accuracies": {"a": 0.5}},
        {"step": 2, "split": "other", "risks": {"a": 7.0}},
        {"step": 2, "final": True, "split": "test", "risks": {"a": 3.0}, "accuracies": {"a": 1.0}},
    ]
    expected = {"step": 2, "risks": {"test": {"a": 3.0}}, "accuracies": {"test": {"a": 1.0}}}
    assert checkpoints_of(lines) == [expected]
