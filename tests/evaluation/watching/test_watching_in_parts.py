"""``eqrm watch``: domains that arrive in parts, and restarts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pandas as pd
import pytest

from eqrm.errors import DomainDataError
from eqrm.evaluation.watching.claim import Arrival
from eqrm.evaluation.watching.state_file import read_state
from evaluation.watching.watch_worlds import (
    BAD,
    days,
    domains,
    evaluation,
    watch,
    written,
)


def test_a_domain_in_parts_is_judged_once_it_is_complete(fresh: Path) -> None:
    folder, whole = fresh.parent, Path(shutil.copy(fresh, fresh.with_name("whole.state")))
    frame = days(60, 3)
    first, second = frame.iloc[:10], frame.iloc[10:]  # the third day is in both
    assert watch(whole, "--new", written(folder, frame, "all.csv")) == 0
    one = ["--new", written(folder, first, "1.csv")]
    assert watch(fresh, *one, "--complete", "earlier") == 0
    assert [record["domain"] for record in domains(fresh)] == ["2020-03-01", "2020-03-02"]
    kept = fresh.read_bytes()
    assert watch(fresh, *one, "--complete", "earlier") == 0
    assert fresh.read_bytes() == kept, "the same rows are not counted twice"
    two = ["--new", written(folder, second, "2.csv")]
    assert watch(fresh, *two, "--complete", "none") == 0
    assert len(domains(fresh)) == 2
    assert watch(fresh, "--complete", "2020-03-03") == 0
    for ours, theirs in zip(domains(fresh), domains(whole), strict=True):
        assert ours["examples"] == theirs["examples"]
        assert ours["risk"] == pytest.approx(theirs["risk"], rel=1e-14)
    kept = fresh.read_bytes()
    assert watch(fresh, *one) == 0
    assert watch(fresh, *two) == 0
    assert fresh.read_bytes() == kept


def test_a_complete_domain_waits_for_an_earlier_open_one_and_takes_no_more_rows(
    fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fresh.parent
    new = ["--new", written(folder, days(60, 2), "a.csv")]
    assert watch(fresh, *new, "--complete", "2020-03-02") == 0
    told = capsys.readouterr().out
    assert "waiting for an earlier domain that is open: '2020-03-02'" in told
    assert domains(fresh) == []
    kept = fresh.read_bytes()
    more = ["--new", written(folder, days(61, 1, seed=3), "b.csv")]
    assert watch(fresh, *more, "--complete", "none") == 2
    assert "is complete, and has more rows" in capsys.readouterr().err
    again = written(folder, days(60, 2).iloc[:-1], "a.csv")
    assert watch(fresh, "--restart", str(folder / "x"), "--new", again) == 2
    assert fresh.read_bytes() == kept
    assert watch(fresh, "--complete", "all") == 0
    assert [record["domain"] for record in domains(fresh)] == ["2020-03-01", "2020-03-02"]


def test_rows_that_may_be_repeated_are_not_added_to_an_open_domain(
    going: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = going.parent
    assert watch(going, "--new", written(folder, days(72, 1), "b.csv"), "--complete", "none") == 0
    everything = pd.concat([days(60, 12), days(72, 1)])
    kept = going.read_bytes()
    assert watch(going, "--new", written(folder, everything, "all.csv")) == 2
    assert "so these may be repeated too" in capsys.readouterr().err
    assert going.read_bytes() == kept


def test_a_file_that_has_grown_does_not_count_its_first_rows_twice(
    going: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, day = going.parent, days(72, 1)
    new = ["--new", written(folder, day.iloc[:2], "day.csv"), "--complete", "none"]
    assert watch(going, *new) == 0
    assert "open, not judged yet: '2020-03-13' with 2 rows." in _told(capsys)
    kept = going.read_bytes()
    written(folder, day, "day.csv")
    assert watch(going, *new) == 2
    assert "read from the same file when that was shorter" in capsys.readouterr().err
    assert going.read_bytes() == kept
    rest = written(folder, day.iloc[2:], "rest.csv")
    assert watch(going, "--new", rest) == 0
    assert domains(going)[-1]["examples"] == 4


def test_files_of_certified_days_are_skipped_after_a_restart(
    going: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    incoming = going.parent / "incoming"
    incoming.mkdir()
    later = days(72, 40, BAD)
    written(incoming, later, "certified.csv")
    assert watch(going, "--new", str(incoming / "certified.csv")) == 4
    assert watch(going, "--restart", evaluation(going.parent, days(112, 40, BAD), "l.json")) == 0
    written(incoming, days(112, 40, BAD), "since.csv")
    written(incoming, days(152, 3, BAD), "new.csv")
    capsys.readouterr()
    assert watch(going, "--new", str(incoming)) == 0
    told = _told(capsys)
    assert "since.csv: 40 domains that the certificate was computed on, with the same" in told
    assert "certified.csv: 40 domains watched before" in told
    assert read_state(going).report.domains == 3
    kept = going.read_bytes()
    other = written(incoming, days(112, 40, BAD, seed=3), "since.csv")
    assert watch(going, "--new", other) == 2, "other rows are not those of the certificate"
    assert going.read_bytes() == kept


def _told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_rows_that_changed_inside_a_file_of_the_same_size_and_ends_are_refused(
    going: Path,
) -> None:
    state, day = read_state(going), "2020-04-01"
    first = Arrival(day, "2020-04-01T00:00:00.000000", 4, 0.5, "same", "a.csv")
    opened = state.with_rows([first], ["none"])
    assert opened.with_rows([first], ["none"]).entries() == opened.entries()
    with pytest.raises(DomainDataError, match="other rows than when the same file was read"):
        opened.with_rows([replace(first, risk=0.6)], ["none"])
    with pytest.raises(DomainDataError, match="begins in the future"):
        state.with_rows([first], ["all"], now=datetime(2020, 3, 31, 9, tzinfo=timezone.utc))
    assert state.with_rows([first], ["all"], now=datetime(2020, 3, 31, 11, tzinfo=timezone.utc))


def test_a_restart_keeps_the_history_and_needs_a_new_certificate(
    going: Path, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = going.parent
    assert watch(going, "--new", written(folder, days(72, 30, BAD), "b.csv")) == 4
    broken = going.read_bytes()
    assert watch(going, "--restart", str(world / "ev.json")) == 4
    assert "watches this certificate already" in " ".join(capsys.readouterr().out.split())
    assert going.read_bytes() == broken
    later = evaluation(folder, days(72, 40, BAD), "later.json")
    assert watch(going, "--restart", later) == 0
    assert going.read_bytes().splitlines()[1:40] == broken.splitlines()[1:40]
    assert watch(going, "--new", written(folder, days(110, 1, BAD), "c.csv")) == 2
    assert "2020-04-20' is one of those that the certificate" in capsys.readouterr().err
    assert watch(going, "--new", written(folder, days(112, 10, BAD), "d.csv")) == 0
    assert read_state(going).report.domains == 10
    assert len(domains(going)) == 52
    assert "Earlier watches" in (page := (folder / "w.state.html").read_text(encoding="utf-8"))
    assert "42 domains, broken." in page


def test_a_watch_is_not_restarted_while_domains_are_open(
    going: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = going.parent
    new = ["--new", written(folder, days(72, 1), "b.csv")]
    assert watch(going, *new, "--complete", "none") == 0
    kept = going.read_bytes()
    later = evaluation(folder, days(20, 50), "later.json")
    assert watch(going, "--restart", later) == 2
    assert "while domains are open: '2020-03-13'" in capsys.readouterr().err
    assert going.read_bytes() == kept
    assert watch(going, "--complete", "all") == 0
    assert watch(going, "--restart", later) == 0
    assert "restarted without an alarm" in " ".join(capsys.readouterr().out.split())
