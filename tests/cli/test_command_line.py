"""What a user meets before any command does its work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
import typer

import eqrm
from cli.commands import called, printed_by, refused
from eqrm import cli


def test_version_is_printed() -> None:
    assert called("--version") == (0, f"eqrm {eqrm.__version__}\n", "")


def test_help_groups_the_commands_and_says_each_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = printed_by("--help")
    panels: dict[str, list[str]] = {}
    for line in out.splitlines():
        if line.startswith("╭"):
            words = panels.setdefault(line.strip("╭─╮ "), [])
        elif line.startswith("│ "):
            words.append(line[2:].split(" ")[0])
    assert list(panels)[1:] == [
        "Start here",
        "Models you have",
        "Domains in time",
        "Networks and sweeps",
    ]
    assert panels["Start here"] == ["train", "predict", "evaluate"]
    named = [name for commands in list(panels.values())[1:] for name in commands]
    assert set(named) == {
        *(
            "train",
            "predict",
            "evaluate",
            "compare",
            "control",
            "recalibrate",
            "figure",
            "backtest",
        ),
        *("watch", "plan", "train-network", "sweep", "table", "data"),
    }
    assert len(named) == len(set(named))  # a line that continues would begin with ""


def _paths_of_commands() -> list[list[str]]:
    root: Any = typer.main.get_command(cli.app)
    names = [[name] for name in root.commands]
    for name, command in root.commands.items():
        names += [[name, inner] for inner in getattr(command, "commands", ())]
    return [[], *names]


@pytest.mark.parametrize("path", _paths_of_commands(), ids=" ".join)
def test_flags_take_no_value_and_lists_are_named_in_every_help(
    monkeypatch: pytest.MonkeyPatch, path: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    out = printed_by(*path, "--help")
    assert re.search(r"--help\s+Show this message and exit", out)
    assert "bool" not in out.lower()
    options = [line for line in out.splitlines() if re.match(r"│\s+\*?\s*--", line)]
    assert not [line for line in options if "list[" in line]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["figure", "risk-cdf", "--risks", "0.1 much"], "'much'"),
        (["figure", "risk-cdf", "--risks", "0.1 nan"], "nan"),
        (["figure", "risk-cdf", "--risks", ""], "numbers"),
        (["figure", "risk-cdf", "--alpha", "1.5"], "between 0 and 1"),
        (["figure", "risk-cdf", "--alpha", "high"], "Got 'high'."),
        (["figure", "risk-cdf", "--alpha", "1"], "--alpha must be strictly between 0 and 1"),
        (["figure", "risk-cdf", "--bandwidth", "silvermann"], "Did you mean 'silverman'"),
        (["figure", "risk-cdf", "--output", "risks.jpeg"], "risks.jpeg"),
        (["figure", "risk-cfd"], "Did you mean 'risk-cdf'"),
        (["train", "flights", "--alpha", "1"], "got 1. To minimise the largest"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], complaint: str) -> None:
    assert complaint in refused(*arguments)


@pytest.mark.unmeasured
def test_help_does_not_wait_for_torch() -> None:
    program = (
        "import sys; sys.argv = ['eqrm', '--help']\n"
        "import eqrm.cli\n"
        "try: eqrm.cli.main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("arguments", [["--help"], ["data", "list"]])
def test_streams_of_ascii_get_what_they_can_show(arguments: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "eqrm", *arguments],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout.isascii()
