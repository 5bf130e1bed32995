"""``eqrm watch`` killed, damaged, and run twice at once: the state is the old or the new one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eqrm.errors import DataFileError
from eqrm.evaluation.watching.state_file import FORMAT, locked, previous_path, read_state
from eqrm.files.checked_json import write_checked_lines
from evaluation.watching.watch_worlds import (
    BAD,
    days,
    domains,
    killed_at,
    started,
    undisturbed,
    watch,
    written,
)


def test_a_damaged_state_is_refused_and_the_previous_one_named(
    going: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = ["--new", written(going.parent, days(72, 2), "b.csv")]
    before = going.read_bytes()
    assert watch(going, *new) == 0
    whole, kept = going.read_bytes(), previous_path(going)
    assert kept.read_bytes() == before
    rng = random.Random(0)
    damaged = [b"", whole[: len(whole) // 2], whole + b"\n", b"\n".join(whole.split(b"\n")[:-2])]
    damaged += [whole[:cut] for cut in rng.sample(range(len(whole)), 30)]
    for place in [*range(120), *rng.sample(range(len(whole)), 60)]:
        other = bytes([whole[place] ^ (1 << rng.randrange(8))])
        damaged.append(whole[:place] + other + whole[place + 1 :])
    for content in damaged:
        going.write_bytes(content)
        with pytest.raises(DataFileError, match=r"w\.state\.previous \(12 domains, the last"):
            read_state(going)
    assert watch(going, *new) == 2
    assert "copy it to" in capsys.readouterr().err
    assert going.read_bytes() == damaged[-1]
    shutil.copy(kept, going)
    assert watch(going, *new) == 0
    assert going.read_bytes() == whole
    going.write_bytes(b"x")
    kept.write_bytes(b"y")
    with pytest.raises(DataFileError, match="is damaged too"):
        read_state(going)


def test_two_processes_do_not_change_a_state_at_once(
    going: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(going), pytest.raises(DataFileError, match="Another process"), locked(going):
        pass
    new = going.with_name("new.state")
    with locked(new), pytest.raises(DataFileError, match="Another process"), locked(new):
        pass
    with locked(new):  # written meanwhile, as by a start: the next one waits for the file
        shutil.copy(going, new)
        with locked(new):
            pass
    monkeypatch.setattr(os.path, "samestat", lambda *files: False)
    with pytest.raises(DataFileError, match="replaced all the time"), locked(going):
        pass


def test_killed_at_every_step_of_writing_and_rerun_the_state_is_that_of_an_undisturbed_watch(
    fresh: Path,
) -> None:
    folder = fresh.parent
    files = [written(folder, days(60 + 4 * i, 4, BAD * i), f"{i}.csv") for i in range(2)]
    expected = undisturbed(folder, files)
    steps = [(os, "replace"), (os, "fsync"), (Path, "write_bytes")]
    moment = 1
    while killed_at(lambda: watch(fresh, "--new", files[0]), moment, steps):
        read_state(fresh)
        moment += 1
    assert moment == 9
    watch(fresh, "--new", files[1])
    assert fresh.read_bytes() == expected


KILLS = 10
"""Of the command itself, which starts Python each time; adversarial.kills forks 450 watches."""


def growing_worse(folder: Path, number: int) -> tuple[Path, list[str], bytes]:
    """A watch, files of three days each to feed it, and how its state ends undisturbed."""
    state = started(folder)
    shifts = [0.01 * i for i in range(number)]
    frames = [days(60 + 3 * i, 3, shift) for i, shift in enumerate(shifts)]
    files = [written(folder, frame, f"{i:03d}.csv") for i, frame in enumerate(frames)]
    return state, files, undisturbed(folder, files)


@pytest.mark.full
def test_a_command_killed_at_random_moments_leaves_the_state_of_an_undisturbed_watch(
    tmp_path: Path,
) -> None:
    state, files, expected = growing_worse(tmp_path, 8)
    rng, kills, place = random.Random(1), 0, 0
    began, longest = time.monotonic(), 0.0
    while place < len(files) or kills < KILLS:
        file = files[min(place, len(files) - 1)]
        command = [sys.executable, "-m", "eqrm.cli", "watch", str(state), "--new", file]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            first = place == 0 and longest == 0.0  # which says how long one takes
            given = None if first or kills >= KILLS else rng.uniform(0, longest)
            _, error = process.communicate(timeout=given)
            assert process.returncode in (0, 3, 4), error
            longest = longest or time.monotonic() - began
            place += 1
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        read_state(state)
    assert kills == KILLS
    assert state.read_bytes() == expected
    assert len(domains(state)) == 3 * len(files)


def test_a_whole_file_that_is_not_a_state_is_refused(tmp_path: Path) -> None:
    write_checked_lines(tmp_path / "w.state", FORMAT, [{"certificate": {}}, {"watch": {}}])
    with pytest.raises(DataFileError, match="is not the state of a watch"):
        read_state(tmp_path / "w.state")
    write_checked_lines(tmp_path / "w.state", "eqrm watch 9", [])
    with pytest.raises(DataFileError, match="its format is 'eqrm watch 9'"):
        read_state(tmp_path / "w.state")
