"""Records of finished runs: what is written is read, and nothing half written counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eqrm.errors import DataFileError
from eqrm.files.checked_json import write_checked_json
from eqrm.sweeps import read_records
from eqrm.sweeps.records import Checkpoint, RunRecord, read_record, record_path, write_record
from eqrm.sweeps.sweep_folder import SweepFolder

RUN = "0123456789abcdef"


def record(run: str = RUN, draw: int = 0, trial: int = 0) -> RunRecord:
    risks = {"train": {"a": 0.1 + 0.2}, "validation": {"a": 0.5, "é": 1e-300}, "test": {"é": 2.0}}
    return RunRecord(
        run=run,
        dataset="toy",
        objective="erm",
        held_out=("é",),
        draw=draw,
        trial=trial,
        settings={"learning_rate": 1e-3, "predictor.settings.hidden": [8, 8]},
        checkpoints=(Checkpoint(10, risks, {}), Checkpoint(20, risks, {"test": {"é": 0.5}})),
    )


def written(folder: Path, found: RunRecord) -> Path:
    path = record_path(folder, found.run)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_record(folder, found)
    return path


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    written(tmp_path, record())
    assert read_record(tmp_path, RUN) == record()


def test_records_are_in_the_order_of_the_plan_and_drafts_are_not_records(tmp_path: Path) -> None:
    for number, (draw, trial) in enumerate([(1, 0), (0, 1), (0, 0)]):
        written(tmp_path, record(f"{number:016x}", draw, trial))
    unfinished = tmp_path / "runs" / ("f" * 16)
    unfinished.mkdir(parents=True)
    (unfinished / ".0123.json").write_text("{")
    assert [(r.draw, r.trial) for r in read_records(tmp_path)] == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[: len(text) // 2], "is damaged"),
        (lambda text: text.replace("0.5", "0.6"), "does not match its checksum"),
        (lambda text: text.replace("eqrm run record 1", "eqrm run record 9"), "its format is"),
        (lambda text: "[]", "is not the record of a run"),
    ],
)
def test_a_damaged_record_is_refused(tmp_path: Path, change, words: str) -> None:
    path = written(tmp_path, record())
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(DataFileError, match=words):
        read_records(tmp_path)


def test_all_damaged_records_are_named_at_once_with_what_to_do(tmp_path: Path) -> None:
    for run in ("0" * 16, "1" * 16, "2" * 16):
        path = written(tmp_path, record(run))
        if run != "1" * 16:
            path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataFileError) as refused:
        read_records(tmp_path)
    assert [run * 16 in str(refused.value) for run in "012"] == [True, False, True]
    assert "Run the sweep again with the same command" in str(refused.value)


def test_a_damaged_record_is_not_counted_and_one_in_another_layout_is(tmp_path: Path) -> None:
    path, folder = written(tmp_path, record()), SweepFolder(tmp_path)
    assert folder.state(RUN) == "finished"
    whole = path.read_text(encoding="utf-8")
    path.write_text(json.dumps(json.loads(whole), indent=3), encoding="utf-8")
    assert folder.state(RUN) == "finished"
    for damaged in (whole[:-40], whole[:-3], whole.replace("0.5", "0.6"), "", "[]"):
        path.write_text(damaged, encoding="utf-8")
        assert folder.state(RUN) == "waiting"


def test_a_record_of_another_run_or_without_a_field_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, record())
    other = record_path(tmp_path, "f" * 16)
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    with pytest.raises(DataFileError, match="another run"):
        read_record(tmp_path, "f" * 16)
    content = {key: value for key, value in record().to_dict().items() if key != "trial"}
    write_checked_json(path, "eqrm run record 1", content)
    with pytest.raises(DataFileError, match="trial"):
        read_record(tmp_path, RUN)


def test_a_risk_that_is_not_a_number_cannot_be_written(tmp_path: Path) -> None:
    bad = replace(record(), checkpoints=(Checkpoint(1, {"test": {"a": float("nan")}}, {}),))
    with pytest.raises(ValueError, match="JSON"):
        written(tmp_path, bad)
    with pytest.raises(TypeError, match="not a number"):
        RunRecord.from_dict(bad.to_dict())
    assert not record_path(tmp_path, RUN).exists()
    huge = replace(record(), checkpoints=(Checkpoint(1, {"test": {"a": 10**400}}, {}),))
    written(tmp_path, huge)
    with pytest.raises(DataFileError, match="not a number"):
        read_record(tmp_path, RUN)
