"""What a user meets before any command does its work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import eqrm
from eqrm import cli


def run_main(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``eqrm ARGUMENTS``."""
    monkeypatch.setattr(sys, "argv", ["eqrm", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


def test_version_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, capsys, "--version") == (0, f"eqrm {eqrm.__version__}\n", "")


def test_help_lists_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run_main(monkeypatch, capsys, "--help")
    assert code == 0
    assert "train" in out
    assert "figure" in out


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
def test_a_mistake_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    code, out, err = run_main(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("eqrm: ")
    assert err.count("\n") == 1
    assert complaint in err


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
