"""The reproduction of PACS: its table from records, and its plan."""

from __future__ import annotations

import math
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from studies.pacs.findings import AccuracyGain, PacsFindings
from studies.pacs.run import Pacs, _answer, _checks, _tables
from studies.pacs.settings import ERM, EXACT, PacsSettings
from studies.registry import new_study
from studies.swept import FinishedSweep

from eqrm.errors import DataFileError
from eqrm.sweeps.records import Checkpoint, RunRecord
from eqrm.sweeps.sweep_folder import SweepFolder
from small_images import write_images

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reproductions"

SETTINGS = PacsSettings()
DRAW = np.random.default_rng(0)
VALUES = {
    (method, domain, trial): float(DRAW.uniform(0.6, 0.9))
    for method in (ERM, EXACT)
    for domain in SETTINGS.held_out
    for trial in range(SETTINGS.trials)
}


def record(method: str, domain: str, trial: int, accuracy: float) -> RunRecord:
    """Two checkpoints; by the training domains the first is better, by the last step the second."""
    others = [each for each in SETTINGS.held_out if each != domain]

    def at(step: int, seen: float, test: float) -> Checkpoint:
        validation = {**dict.fromkeys(others, seen), domain: seen}
        risks = {"validation": dict.fromkeys(validation, 1.0 - seen), "test": {domain: 0.5}}
        return Checkpoint(step, risks, {"validation": validation, "test": {domain: test}})

    checkpoints = (at(300, 0.9, accuracy), at(600, 0.8, accuracy - 0.1))
    name = f"{method}-{domain}-{trial}"
    return RunRecord(name, "pacs", method, (domain,), 0, trial, {}, checkpoints)


def findings(left_out: tuple[str, str, int] | None = None) -> PacsFindings:
    records = [record(*key, value) for key, value in VALUES.items() if key != left_out]
    return PacsFindings(SETTINGS, records)


def test_means_errors_and_paired_differences_are_those_of_scipy() -> None:
    found = findings()
    erm, own = (
        np.array([[VALUES[m, d, t] for t in range(SETTINGS.trials)] for d in SETTINGS.held_out])
        for m in (ERM, EXACT)
    )
    assert found.mean(ERM) == pytest.approx(100.0 * erm.mean())
    pairs = 100.0 * (own - erm)
    error = math.sqrt((pairs.var(axis=1, ddof=1) / SETTINGS.trials).sum()) / len(pairs)
    gain = found.difference(EXACT)
    assert gain is not None
    assert gain.mean == pytest.approx(pairs.mean())
    assert gain.half_width == pytest.approx(stats.t.ppf(0.975, 8) * error)
    assert found.mean(ERM, "last checkpoint (oracle)") == pytest.approx(found.mean(ERM) - 10.0)
    table = _tables(found)[0]
    assert [row[0] for row in table.rows] == [ERM, EXACT]
    assert gain.verdict in ("above", "below", "not distinguishable")
    assert str(gain) in _answer(found)


def test_a_difference_within_its_interval_is_not_a_gain() -> None:
    verdicts = [AccuracyGain(mean, 1.0).verdict for mean in (0.9, 1.1, -1.1)]
    assert verdicts == ["not distinguishable", "above", "below"]


def test_a_method_with_a_missing_run_is_not_in_the_table() -> None:
    found = findings(left_out=(EXACT, "photo", 2))
    assert [row[0] for row in _tables(found)[0].rows] == [ERM]
    assert _answer(found) == ""
    assert [check.claim for check in _checks(found)] == [
        "ERM's accuracy, averaged over the domains"
    ]
    assert not FinishedSweep([record("ERM", "photo", 0, 0.5)], 2, [], []).check().holds


def test_runs_go_on_on_the_kind_of_device_that_they_were_planned_for(tmp_path: Path) -> None:
    study = Pacs(device="auto")
    study.output = tmp_path
    plan = SETTINGS.plan(0, "cuda", False)
    SweepFolder(tmp_path / "sweep").begin(plan, [])
    assert study.device_of_runs() == "cuda"
    study.device = "cpu"
    assert study.device_of_runs() == "cpu"


@pytest.fixture
def small_pacs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six tiny images per domain, in two classes, in the layout of the dataset."""
    write_images(tmp_path / "data" / "PACS", SETTINGS.held_out, 6)
    monkeypatch.setenv("EQRM_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.mark.slow
def test_the_study_runs_and_is_not_run_again(
    small_pacs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = new_study("pacs", device="cpu", pretrained=False)
    report = study.run(small_pacs / "out", "quick")
    assert report.passed
    assert report.verdict == "1 of 1 checks hold"
    before = sorted((small_pacs / "out").rglob("record.json"))
    times = [each.stat().st_mtime_ns for each in before]
    monkeypatch.delenv("EQRM_DATA")  # what is finished needs no data
    again = new_study("pacs", pretrained=False).run(small_pacs / "out", "quick")
    assert [table.rows for table in again.outcome.tables] == [
        table.rows for table in report.outcome.tables
    ]
    assert [each.stat().st_mtime_ns for each in before] == times


def test_the_committed_runs_give_the_committed_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EQRM_DATA", raising=False)  # finished runs need neither data nor a GPU
    with tarfile.open(DOCS / "pacs" / "runs.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    report = new_study("pacs").run(tmp_path)
    runs = len(SweepFolder(tmp_path / "sweep").runs())
    assert f"has {runs} of its {runs} runs" in (DOCS / "README.md").read_text(encoding="utf-8")
    page = (DOCS / "pacs" / "README.md").read_text(encoding="utf-8")
    assert [check.holds for check in report.outcome.checks] == [True, True]
    assert f"\n{report.outcome.answer}\n" in page
    assert report.outcome.answer.startswith("EQRM is ")
    rows = [row for table in report.outcome.tables for row in table.rows]
    assert len(rows) == 3 * 8  # rules and methods
    for row in rows:
        assert f"| {' | '.join(row)} |" in page
    assert "time in which runs were trained: " in page


def test_missing_images_and_weights_are_said_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQRM_DATA", str(tmp_path))
    study = new_study("pacs", pretrained=str(tmp_path / "none.pth"))
    images, weights = study.missing()
    assert "lacks PACS or pacs/kfold" in images
    assert "none.pth' does not exist" in weights
    with pytest.raises(DataFileError, match=r"lacks PACS.*does not exist"):
        study.run(tmp_path / "out", "quick")
