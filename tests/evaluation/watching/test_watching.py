"""``eqrm watch``: what it judges, what it keeps, and what it refuses."""

from __future__ import annotations

import json
import shutil
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm.evaluation.watching.state_file import FORMAT, previous_path, read_state
from evaluation.watching.watch_worlds import (
    BAD,
    CERTIFIED,
    COLUMNS,
    GOOD,
    ROWS,
    days,
    domains,
    evaluation,
    judged_directly,
    lines,
    watch,
    written,
)


def test_every_domain_is_a_line_with_the_evidence_of_the_watch(going: Path) -> None:
    first, *records, last = lines(going)
    frame = days(60, 12)
    risks = frame.groupby("day")["loss"].mean()
    assert [record["domain"] for record in records] == list(risks.index)
    assert [record["risk"] for record in records] == pytest.approx(risks.tolist(), rel=1e-14)
    assert {record["examples"] for record in records} == {ROWS}
    evidence = judged_directly(read_state(going).claim, [record["risk"] for record in records])
    assert [record["evidence"] for record in records] == evidence
    assert {record["verdict"] for record in records} == {"still holds"}
    assert (list(first), list(last)) == (["certificate"], ["watch", "waiting"])


def test_verdicts_have_exit_codes_and_say_the_evidence(
    fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fresh.parent
    assert watch(fresh, "--new", written(folder, days(60, 10, GOOD), "a.csv")) == 0
    assert "Still holds: " in capsys.readouterr().out
    assert watch(fresh, "--new", written(folder, days(70, 4, BAD), "b.csv")) == 3
    assert "Suspicious: 4 of 14 domains missed" in capsys.readouterr().out
    assert watch(fresh, "--new", written(folder, days(74, 20, BAD), "c.csv")) == 4
    told = " ".join(capsys.readouterr().out.split())
    assert "Broken: 24 of 34 domains missed the bound" in told
    assert "The alarm rang at '2020-03-15', domain number 15 of the watch." in told
    assert "The distribution of the risk has changed" in told
    assert "evidence" in told
    assert watch(fresh) == 4
    page = (folder / "w.state.html").read_text(encoding="utf-8")
    assert '"name":"2020-03-15"' in page
    assert len(page.encode()) < 1_000_000
    verdicts = [record["verdict"] for record in domains(fresh)]
    assert verdicts == ["still holds"] * 13 + ["suspicious"] + ["broken"] * 20


def test_files_at_once_one_by_one_and_again_give_the_same_bytes(
    fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fresh.parent
    other = Path(shutil.copy(fresh, folder / "o.state"))
    files = [written(folder, days(60 + 5 * i, 5), f"{i}.csv") for i in range(3)]
    for file in files:
        assert watch(fresh, "--new", file) == 0
    assert watch(other, *(text for file in files for text in ("--new", file))) == 0
    assert other.read_bytes() == fresh.read_bytes()
    times = fresh.stat().st_mtime_ns
    assert watch(fresh, "--new", str(folder / "[0-9].csv")) == 0
    assert "5 domains watched before, with the same risk: skipped." in capsys.readouterr().out
    assert (fresh.read_bytes(), fresh.stat().st_mtime_ns) == (other.read_bytes(), times)


def with_nan(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(loss=frame["loss"].where(frame.index != 2))


FUTURE = (date.today() + timedelta(days=3)).toordinal() - date(2020, 1, 1).toordinal()
REFUSED = {
    "earlier": (days(61, 1).assign(day="2019-12-31"), "'2019-12-31' is earlier than 2020-03-12"),
    "again": (days(71, 2, seed=1), "'2020-03-12' was watched before: 4 examples with a risk of"),
    "certified": (days(3, 2), "'2020-01-04' is one of those that the certificate was computed on"),
    "future": (days(FUTURE, 1), "begins in the future"),
    "number": (days(80, 1).assign(day=7), "domain 7 has a number as its time (7), where others"),
    "name": (days(80, 1).assign(day="x"), "must be dates such as 2013-01-31 or numbers, got 'x'"),
    "renamed": (days(71, 1).assign(day="2020-03-12T00:00Z"), "same time as the last domain"),
    "seen": (days(80, 1).assign(seen=True), "'2020-03-21' was seen in training"),
    "empty": (days(80, 0), "At least two domains are needed"),
    "nan": (with_nan(days(80, 2)), "loss"),
    "columns": (days(80, 1).rename(columns={"day": "dy", "loss": "l"}), "has no column 'loss'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_rows_are_refused_and_the_state_stays(
    case: str, going: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, words = REFUSED[case]
    before = going.read_bytes()
    assert watch(going, "--new", written(going.parent, frame, "bad.csv")) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "bad.csv" in error
    assert len(error.strip().splitlines()) == 1
    assert going.read_bytes() == before
    assert not previous_path(going).exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metric", "brier"], "--metric is 'brier', but the watch was started with 'loss'"),
        (["--loss", "l2"], "--loss is 'l2', but the watch was started with 'loss'"),
        (
            ["--model", "other"],
            "'other', but the watch was started with 'model'",
        ),
        (
            ["--alpha", ".95", "--delta", ".1"],
            "--delta is 0.1, but the watch was",
        ),
        (["--complete", "tomorrow"], "Choose from: all, earlier"),
        (["--start", "ev.json", *COLUMNS, "--delta", ".01"], "watches another certificate"),
        (["--start", "ev.json", "--restart", "ev.json"], "cannot be combined"),
        (["--page", "w.state"], "--page must be a file of its own that ends in .html"),
    ],
)
def test_another_question_than_the_certified_one_is_refused(
    options: list[str],
    words: str,
    going: Path,
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(world / "ev.json", going.parent)
    monkeypatch.chdir(going.parent)
    before = going.read_bytes()
    new = written(going.parent, days(72, 1), "new.csv")
    assert watch(Path("w.state"), "--new", new, *options) == 2
    assert words in capsys.readouterr().err
    assert going.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--loss", "loss"], "--domain COLUMN is required"),
        (["--target", "y", "--prediction", "p"], "so new files need --loss COLUMN, and nothing"),
        (["--metric", "brier"], "The certificate is about the loss, and --metric is 'brier'."),
        ([*COLUMNS, "--model", "modle"], "Did you mean 'model'?"),
        ([*COLUMNS, "--alpha", ".99"], "60 domains are too few to bound the 0.99-quantile"),
        ([*COLUMNS, "--dependence", "1"], "at least 71 are needed"),
        ([*COLUMNS, "--delta", "2"], "--delta must be"),
    ],
)
def test_a_watch_that_cannot_start_says_why(
    options: list[str], words: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watch(tmp_path / "n.state", "--start", str(world / "ev.json"), *options) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_domains_that_depend_on_the_certificate_are_left_out(tmp_path: Path) -> None:
    state = tmp_path / "w.state"
    file = evaluation(tmp_path, days(0, 120))
    assert watch(state, "--start", file, *COLUMNS, "--dependence", "2", "--delta", "0.1") == 0
    assert watch(state, "--new", written(tmp_path, days(120, 1), "a.csv")) == 0
    assert watch(state, "--new", written(tmp_path, days(121, 5), "b.csv")) == 0
    found = domains(state)
    assert [record["verdict"] for record in found[:3]] == ["left out", "left out", "still holds"]
    assert found[1]["evidence"] is None
    assert read_state(state).report.domains == 4
    assert read_state(state).report.alarm_at == pytest.approx(10)


def test_predictions_are_measured_by_the_metric_of_the_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = days(0, 80).rename(columns={"loss": "p"}).assign(y=[0, 1] * (40 * ROWS))
    frame["p"] = frame["p"].clip(0.1, 0.9)
    old, new = frame[: 60 * ROWS], frame[60 * ROWS :]
    found = eqrm.evaluate(
        old, domains="day", target="y", predictions={"a": "p", "b": "p"}, metric="brier"
    )
    (tmp_path / "ev.json").write_text(found.to_json())
    columns = ["--domain", "day", "--target", "y", "--prediction", "p"]
    start = ["--start", str(tmp_path / "ev.json"), *columns]
    state = tmp_path / "w.state"
    assert watch(state, *start) == 2
    assert "holds 2 models" in capsys.readouterr().err
    assert watch(state, *start, "--model", "b", "--metric", "log-loss") == 2
    assert "about the Brier score" in capsys.readouterr().err
    assert watch(state, *start, "--model", "b") == 0
    assert watch(state, "--new", written(tmp_path, new, "new.csv")) == 0
    expected = ((new["p"] - new["y"]) ** 2).groupby(new["day"]).mean()
    assert [r["risk"] for r in domains(state)] == pytest.approx(expected.tolist(), rel=1e-12)


def test_domains_without_times_are_ordered_by_a_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = days(0, 60).assign(day=lambda f: "batch " + f["day"])
    state = tmp_path / "w.state"
    start = ["--start", evaluation(tmp_path, old), *COLUMNS]
    assert watch(state, *start) == 2, "it could not be fed"
    assert "such as 'batch 2020-01-01'. Name the column with the time" in capsys.readouterr().err
    assert not state.exists()
    other = tmp_path / "o.state"
    assert watch(other, *start, "--order", "week", "--dependence", "1") == 2
    assert watch(other, *start, "--order", "week") == 0
    assert "are not tested: name them by dates" in " ".join(capsys.readouterr().out.split())
    frame = days(60, 3).assign(
        day=["c"] * ROWS + ["a"] * ROWS + ["b"] * ROWS, week=[9] * ROWS + [10] * ROWS + [11] * ROWS
    )
    assert watch(other, "--new", written(tmp_path, frame, "b.csv")) == 0
    assert [(r["domain"], r["time"]) for r in domains(other)] == [("c", 9), ("a", 10), ("b", 11)]


def test_names_of_domains_cannot_add_an_element_to_the_page(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    old = days(0, 60)
    state = tmp_path / "w.state"
    columns = [*COLUMNS, "--order", "time"]
    assert watch(state, "--start", evaluation(tmp_path, old), *columns) == 0
    frame = days(60, 1).assign(day=hostile, time=5)
    assert watch(state, "--new", written(tmp_path, frame, "a.csv")) == 0
    page = (tmp_path / "w.state.html").read_text(encoding="utf-8")
    assert hostile not in page
    assert page.count("<script") == 2


def test_a_start_with_new_rows_can_be_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, new = tmp_path / "w.state", written(tmp_path, days(60, 3).iloc[3:], "a.csv")
    both = ["--start", evaluation(tmp_path), *COLUMNS, "--new", new]
    assert watch(state, *both) == 0
    assert "fewer than half the examples" in " ".join(capsys.readouterr().out.split())
    kept = state.read_bytes()
    assert json.loads(kept.splitlines()[0])["format"] == FORMAT
    assert len(read_state(state).claim.domains) == CERTIFIED
    assert watch(state, *both) == 0
    assert state.read_bytes() == kept
    assert len(domains(state)) == 3


def test_doubts_about_the_certificate_are_said_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    steps = np.convolve(rng.normal(size=69), np.ones(10), mode="valid")
    similar = steps[:60] - np.linspace(0, steps[59], 60)
    for risks, doubt in (
        (similar, "Warning: Consecutive domains have similar risks"),
        (np.arange(60.0), "Warning: Risk grows over time"),
        (rng.normal(size=60), None),
    ):
        old = days(0, 60).assign(loss=risks.repeat(ROWS))
        state = tmp_path / f"{len(list(tmp_path.iterdir()))}.state"
        assert watch(state, "--start", evaluation(tmp_path, old), *COLUMNS) == 0
        told = capsys.readouterr().out
        assert doubt in told if doubt else "Warning" not in told


def test_level_confidence_and_order_are_those_of_the_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"batch {i:02d}" for i in range(60)]
    frame = days(0, 60).assign(day=np.repeat(names, ROWS), week=np.repeat(range(60), ROWS))
    found = eqrm.evaluate(frame, domains="day", losses={"model": "loss"}, order="week")
    asked = {"summary": {"alpha": "0.8"}, "risk_table": {"confidence": 0.9}}
    (tmp_path / "ev.json").write_text(json.dumps({**found.to_dict(), **asked}))
    state = tmp_path / "w.state"
    assert watch(state, "--start", str(tmp_path / "ev.json"), *COLUMNS) == 0
    claim = read_state(state).claim
    assert (claim.certificate.alpha, claim.certificate.confidence) == (0.8, 0.9)
    assert (claim.settings.order, claim.through) == ("week", 59)
    new = days(60, 2).assign(day=["x"] * ROWS + ["y"] * ROWS, week=[58] * ROWS + [61] * ROWS)
    assert watch(state, "--new", written(tmp_path, new, "a.csv")) == 2
    assert "domain 'x' is earlier than 59" in capsys.readouterr().err
    grouped = {**found.to_dict(), "nesting": {"groups": ["a"], "members": ["b"]}}
    (tmp_path / "ev.json").write_text(json.dumps(grouped))
    assert watch(tmp_path / "o.state", "--start", str(tmp_path / "ev.json"), *COLUMNS) == 2
    assert "Evaluate without --within" in capsys.readouterr().err
