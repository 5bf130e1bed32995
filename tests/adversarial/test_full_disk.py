"""A disk that is full at any byte: the old outputs stay, and a line says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from adversarial.full_disk import COMMANDS, Disk, commands, judge, no_file_beyond, snapshot
from eqrm.evaluation.watching.state_file import read_state

SIZES = (0, 700, 4_000, 9_000, 20_000, 60_000, 150_000, 400_000, 2_000_000)


def fill(disk: Disk, name: str, sizes: tuple[int, ...]) -> list[int]:
    """Run a command again and again with files of limited size; the exit codes."""
    before, command = commands(name, disk)
    disk.prepare(*before)
    disk.run(*command)
    expected, codes = snapshot(disk.folder), []
    for size in sizes:
        disk.refill()
        with no_file_beyond(size):
            code, err = disk.run(*command)
        judge(disk, code, err, expected)
        codes.append(code)
        if name == "watch":
            read_state(disk.folder / "w.state")
    return codes


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("evaluate", (20_000,)),
        *(pytest.param(name, SIZES, marks=pytest.mark.full) for name in COMMANDS),
    ],
)
def test_a_command_that_cannot_write_changes_nothing(
    name: str, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    codes = fill(Disk(tmp_path), name, sizes)
    assert codes[0] == 2
    assert sizes is not SIZES or codes[-1] != 2
