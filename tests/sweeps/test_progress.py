"""Progress of a sweep: a line that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from eqrm.sweeps.status import sweep_shown
from eqrm.sweeps.sweep_folder import State

COUNTS: dict[State, int] = {"finished": 3, "failed": 1, "running": 2, "waiting": 5}


def test_a_terminal_has_a_line_that_changes_and_keeps_those_about_failures() -> None:
    stream = io.StringIO()
    with sweep_shown(print, Console(file=stream, force_terminal=True, width=120)) as shown:
        shown.show(COUNTS, 90.0)
        shown.tell("Run 0123 failed: [bold] is not markup.")
    text = stream.getvalue()
    assert "3 of 11 runs finished, 2 running, 1 failed, 5 waiting, about 2 minutes left" in text
    assert "Run 0123 failed: [bold] is not markup." in text


def test_files_and_pipes_have_plain_lines_and_not_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "eqrm.sweeps.status.time.monotonic", iter([0.0, 0.0, 2.0, 6.0, 6.0, 7.0, 7.0]).__next__
    )
    told: list[str] = []
    with sweep_shown(told.append, Console(file=io.StringIO())) as shown:
        shown.show(COUNTS, None)
        shown.show({**COUNTS, "finished": 4, "waiting": 4}, None)
        shown.show({**COUNTS, "finished": 5, "waiting": 3}, None)
        shown.show({**COUNTS, "finished": 10, "running": 0, "waiting": 0}, None)
    assert told == [
        "3 of 11 runs finished, 2 running, 1 failed, 5 waiting",
        "5 of 11 runs finished, 2 running, 1 failed, 3 waiting",
        "10 of 11 runs finished, 1 failed",
    ]
