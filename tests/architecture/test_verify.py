"""The list of checks of ``make verify``: it loads, and pages name checks that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
COMMAND = re.compile(r"verify/run\.py --only ([a-z0-9. -]+)`")


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "verify" / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_every_check_that_a_page_names_is_listed() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = sorted({name for names in COMMAND.findall(text) for name in names.split()})
    assert len(named) > 3
    done = verify("--list", "--only", *named)
    assert done.returncode == 0, done.stderr
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert all(re.fullmatch(r"[a-z]+\.[a-z-]+", name) for name in listed)
    assert len(listed) >= len(named)


def test_an_unknown_check_is_refused_with_a_suggestion() -> None:
    done = verify("--only", "linear.sped", "data")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Unknown check 'linear.sped'. Did you mean 'linear.speed'?" in done.stderr
