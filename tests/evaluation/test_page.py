"""docs/certificates.md says what the code prints."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "certificates.md"
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_the_examples_on_the_page_print_what_it_says() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, optionflags=OPTIONS)
    assert results.attempted > 20
    assert results.failed == 0


def test_the_plan_on_the_page_is_what_the_command_prints() -> None:
    program = "from eqrm.cli import main; main()"
    command = [sys.executable, "-c", program, "plan", "--alpha", ".9", "--confidence", ".95"]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "80"}
    )
    printed = "\n".join(line.rstrip() for line in run.stdout.rstrip().splitlines())
    assert printed in PAGE.read_text(encoding="utf-8")
