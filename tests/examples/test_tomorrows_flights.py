"""docs/tomorrows-flights.md: its commands print what it shows, and its prose has their numbers."""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

from eqrm import cli

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tomorrows-flights.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [
    (command, printed)
    for block in BLOCKS
    for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE)
]
ECHO = '; echo "exit code $?"'


def test_every_number_in_the_prose_is_in_what_was_printed() -> None:
    prose = re.sub(r"^```console\n.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    numbers = re.findall(r"\d+\.\d+(?:e\+\d+)?|\d+ of \d+|\d{2,}", prose.partition("## Jan")[2])
    assert len(numbers) > 15
    printed = "".join(BLOCKS)
    assert [number for number in numbers if number not in printed] == []


def run(command: str) -> int:
    """Run ``eqrm …`` or ``python examples/…`` in this process; returns the exit code."""
    words = shlex.split(command)
    with pytest.MonkeyPatch.context() as patch:
        if words[0] == "python":
            patch.setattr(sys, "argv", words[1:])
            runpy.run_path(str(ROOT / words[1]), run_name="__main__")
            return 0
        patch.setattr(sys, "argv", words)
        try:
            cli.main()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


@pytest.mark.full
def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    same = doctest.OutputChecker().check_output
    assert len(COMMANDS) > 15
    for command, expected in COMMANDS:
        code = run(command.removesuffix(ECHO))
        printed = capsys.readouterr().out
        if command.endswith(ECHO):
            printed += f"exit code {code}\n"
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert same(expected, printed, flags), f"{command}\n{printed}"
