"""docs/certificates.md says what the code prints."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from cli.commands import run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "certificates.md"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_the_examples_on_the_page_print_what_it_says() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, optionflags=OPTIONS)
    assert results.attempted > 20
    assert results.failed == 0


def test_the_plan_on_the_page_is_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "plan", "--alpha", ".9", "--confidence", ".95")
    printed = "\n".join(line.rstrip() for line in out.rstrip().splitlines())
    assert code == 0
    assert len(printed.splitlines()) == 4
    assert printed in PAGE.read_text(encoding="utf-8")
