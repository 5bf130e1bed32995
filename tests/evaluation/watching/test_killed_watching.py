"""``eqrm watch`` killed, damaged, and run twice at once: the state is the old or the new one."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from eqrm.errors import DataFileError
from eqrm.evaluation.watching.state_file import locked, previous_path, read_state
from evaluation.watching.watch_worlds import (
    BAD,
    days,
    killed_at,
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
