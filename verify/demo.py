"""``make demo``: what it prints is what README.md quotes, in the time that it may take."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

from verify.registry import (
    ROOT,
    Options,
    Result,
    check,
    package_environment,
    passed,
    spent_by_children,
)

DEMO = {
    "flights": ["train", "flights", "--weather", "--order", "day"],
    "coloured-digits": ["train", "coloured-digits"],
}
"""What ``make demo`` runs, by the folder of its output."""
SECONDS = 60.0
"""Bound on its time with installed packages, on 2 cores."""


def demo_by(
    commands: list[list[str]], folder: Path, environment: dict[str, str], output: Path
) -> Result:
    """Run the commands; PASS when they give both reports and what README.md quotes, in time."""
    start, before = time.perf_counter(), spent_by_children()
    done = [
        subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        for command in commands
    ]
    seconds, processors = time.perf_counter() - start, spent_by_children() - before
    printed = "".join(each.stdout + each.stderr * bool(each.returncode) for each in done)
    reports = sum((output / name / "report.html").is_file() for name in DEMO)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n(Use: .*?)\n```", readme, flags=re.DOTALL)
    quoted = sum(all(piece in printed for piece in block.split("\n…\n")) for block in blocks)
    holds = not any(each.returncode for each in done)
    holds = holds and reports == quoted == len(blocks) == len(DEMO)
    return passed(
        holds and seconds <= SECONDS,
        f"{seconds:.0f} s (bound {SECONDS:.0f}), {processors:.0f} s of processor time; {reports} "
        f"reports; {quoted} of {len(DEMO)} blocks of README.md as printed",
        printed=printed,
    )


@check(
    "tables.demo",
    "make demo: two tables, their reports, and what README.md quotes",
    alone=True,
)
def demo(options: Options) -> Result:
    """Its commands in this checkout; package.clean-clone runs ``make demo`` in a fresh one."""
    commands = [
        [sys.executable, "-m", "eqrm.cli", *each, "--output", str(options.output / name)]
        for name, each in DEMO.items()
    ]
    return demo_by(commands, ROOT, package_environment(), options.output)
