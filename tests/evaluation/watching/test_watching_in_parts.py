"""``eqrm watch``: domains whose rows lie in several files, and restarts."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

from eqrm.errors import DomainDataError
from eqrm.evaluation.watching.claim import Arrival
from eqrm.evaluation.watching.state_file import read_state
from evaluation.watching.watch_worlds import BAD, days, domains, evaluation, watch, written


def test_a_domain_in_several_files_is_judged_once_all_its_rows_have_come(
    fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, whole = fresh.parent, Path(shutil.copy(fresh, fresh.with_name("whole.state")))
    frame, incoming = days(60, 3), folder / "incoming"
    incoming.mkdir()
    assert watch(whole, "--new", written(folder, frame, "all.csv")) == 0
    written(incoming, frame.iloc[:10], "1.csv")  # the third day is in both
    growing = ["--new", str(incoming), "--complete", "earlier"]
    assert watch(fresh, *growing) == 0
    assert [record["domain"] for record in domains(fresh)] == ["2020-03-01", "2020-03-02"]
    assert "Not judged, because more rows may come: '2020-03-03'." in _told(capsys)
    kept = fresh.read_bytes()
    assert watch(fresh, *growing) == 0
    assert fresh.read_bytes() == kept, "the same rows are not counted twice"
    written(incoming, frame.iloc[10:], "2.csv")
    shutil.copy(incoming / "2.csv", incoming / "copy.csv")
    assert watch(fresh, "--new", str(incoming / "2.csv")) == 2, "the rest alone is not the day"
    assert "was left for later with 2 examples" in " ".join(capsys.readouterr().err.split())
    assert watch(fresh, "--new", written(folder, days(63, 1), "next.csv")) == 2
    assert "the files have no row of it" in " ".join(capsys.readouterr().err.split())
    assert watch(fresh, "--new", str(incoming)) == 0
    assert "4 examples, which must include 2 that were left for later" in _told(capsys)
    for ours, theirs in zip(domains(fresh), domains(whole), strict=True):
        assert ours["examples"] == theirs["examples"]
        assert ours["risk"] == pytest.approx(theirs["risk"], rel=1e-14)
    kept = fresh.read_bytes()
    for again in (incoming, incoming / "2.csv", folder / "all.csv"):
        assert watch(fresh, "--new", str(again)) == 0
        assert fresh.read_bytes() == kept


def test_a_day_is_in_the_future_once_it_has_begun_nowhere_on_earth(going: Path) -> None:
    state = read_state(going)
    day = [Arrival("2020-04-01", "2020-04-01T00:00:00.000000", 4, 0.5, "a", "a.csv")]
    with pytest.raises(DomainDataError, match="begins in the future"):
        state.with_rows(day, now=datetime(2020, 3, 31, 9, tzinfo=timezone.utc))
    assert state.with_rows(day, now=datetime(2020, 3, 31, 11, tzinfo=timezone.utc))


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


def test_a_restart_without_an_alarm_is_said_to_hide_one(
    going: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = evaluation(going.parent, days(20, 50), "later.json")
    assert watch(going, "--restart", later) == 0
    assert "restarted without an alarm" in _told(capsys)
