"""Tables at full size: the demo."""

from __future__ import annotations

import re
from dataclasses import asdict

from verify.demo import DEMO, demo_here, kept_demo
from verify.registry import ROOT, Options, Result, check, passed

SECONDS = 60.0
"""Bound on the time of ``make demo`` with installed packages, on 2 cores."""


@check(
    "tables.demo",
    "make demo in a fresh clone: two tables, their reports, and what README.md quotes",
    alone=True,
)
def demo(options: Options) -> Result:
    """What package.clean-clone has run in its clone; else the same commands in this checkout."""
    ran = kept_demo(options) or demo_here(options)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n(Trained on .*?)\n```", readme, flags=re.DOTALL)
    quoted = [block in ran.printed for block in blocks]
    holds = ran.code == 0 and ran.reports == quoted.count(True) == len(blocks) == len(DEMO)
    words = f"{ran.seconds:.0f} s (bound {SECONDS:.0f}), {ran.processor_seconds:.0f} s of processor"
    words += f" time; {ran.where}; {ran.reports} reports; {sum(quoted)} of {len(DEMO)} blocks of "
    return passed(holds and ran.seconds <= SECONDS, f"{words}README.md as printed", **asdict(ran))
