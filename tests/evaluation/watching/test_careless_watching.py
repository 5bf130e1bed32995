"""A watch with files, options and states as people have them: nothing counts twice, or silently."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import eqrm
from eqrm.evaluation.watching.state_file import FORMAT
from evaluation.watching.watch_worlds import COLUMNS, days, evaluation, started, watch, written


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return started(tmp_path)


def refused(state: Path, *arguments: str) -> None:
    before = state.read_bytes()
    assert watch(state, *arguments) == 2
    assert state.read_bytes() == before


def test_a_day_under_two_names_in_one_command_is_not_two_domains(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = days(60, 2)
    twice = frame.assign(day=frame["day"] + " 00:00:00")
    files = written(tmp_path, frame, "a.csv"), written(tmp_path, twice, "b.csv")
    refused(state, "--new", files[0], "--new", files[1])
    assert "is at the same time as '2020-03-01', 2020-03-01, under" in capsys.readouterr().err
    refused(state, "--new", written(tmp_path, pd.concat([frame, twice]), "both.csv"))


def test_evidence_is_not_reset_by_watching_the_same_with_other_options(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = str(tmp_path / "ev.json")
    assert watch(state, "--restart", same, "--delta", "0.1") == 0  # nothing has come yet
    assert watch(state, "--new", written(tmp_path, days(60, 5, 1.0), "a.csv")) == 4
    refused(state, "--restart", same, "--delta", "0.04")
    assert "cannot be reset" in capsys.readouterr().err
    other = evaluation(tmp_path, days(65, 60, 1.0), "later.json")
    assert watch(state, "--restart", other) == 0
    assert watch(state, "--new", written(tmp_path, days(125, 2), "b.csv")) == 0
    refused(state, "--restart", same)  # by way of another certificate


def test_probabilities_are_clipped_as_in_the_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    frame = days(0, 62).assign(y=rng.integers(0, 2, 248), p=rng.choice([0, 0.2, 1.0], 248))
    measured: dict[str, Any] = {"domains": "day", "target": "y", "predictions": {"model": "p"}}
    found = eqrm.evaluate(frame[: 60 * 4], **measured, clip=0.01)
    (tmp_path / "ev.json").write_text(found.to_json())
    state, new = tmp_path / "w.state", written(tmp_path, frame[60 * 4 :], "new.csv")
    start = ["--start", str(tmp_path / "ev.json"), "--domain", "day"]
    start += ["--target", "y", "--prediction", "p"]
    assert watch(state, *start, "--clip", "0.1") == 2
    assert "clipped to [0.01, 1 - 0.01], and --clip is 0.1" in capsys.readouterr().err
    assert watch(state, *start, "--new", new) in (0, 3, 4)
    lines = [json.loads(line) for line in state.read_text().splitlines()]
    expected = eqrm.evaluate(frame, **measured, clip=0.01)["model"].risks[-2:]
    np.testing.assert_allclose([line["risk"] for line in lines if "domain" in line], expected)


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: content.update(summary=None),
        lambda content: content.update(order={"column": "t", "times": [1, 2]}),
    ],
)
def test_an_evaluation_that_was_edited_is_refused_without_a_traceback(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(evaluation(tmp_path))
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    assert watch(tmp_path / "w", "--start", str(path), *COLUMNS) == 2
    assert "was damaged" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("place", ["domains", "misses", "alarm", "line", "verdict", "json"])
def test_a_state_that_was_edited_with_its_digest_is_refused(
    state: Path, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watch(state, "--new", written(tmp_path, days(60, 3), "a.csv")) == 0
    lines = state.read_text().splitlines()[1:]
    if place in ("domains", "misses", "alarm"):
        last = json.loads(lines[-1])
        last["watch"][place] = {"domains": 9, "misses": [], "alarm": 9}[place]
        lines[-1] = json.dumps(last)
    elif place == "line":
        del lines[2]
    else:
        lines[2] = "{" if place == "json" else lines[2].replace('"verdict"', '"verdikt"')
    text = "".join(f"{line}\n" for line in lines)
    digest = hashlib.sha256(text.encode()).hexdigest()
    state.write_text(f'{{"format": "{FORMAT}", "sha256": "{digest}"}}\n{text}')
    refused(state)
    assert "is not the state of a watch" in capsys.readouterr().err


def test_the_verdict_is_printed_even_if_the_page_cannot_be_written(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "w.state.html")

    monkeypatch.setattr("eqrm.evaluation.watching.job.write_watch_page", full)
    assert watch(state, "--new", written(tmp_path, days(60, 5, 1.0), "a.csv")) == 2
    told = capsys.readouterr()
    assert "Broken: 5 of 5" in told.out
    assert "disk is full" in told.err


def test_a_cross_fitted_bound_is_not_called_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(Path(evaluation(tmp_path, days(0, 60), "ev.json")).read_text())
    path = tmp_path / "cross.json"
    path.write_text(json.dumps({**content, "cross_fitted": True}))
    assert watch(tmp_path / "s", "--start", str(path), *COLUMNS) == 0
    assert "Cross-fitted bound, checked by simulation and not proven" in capsys.readouterr().out
