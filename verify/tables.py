"""Tables at full size: the demo, and levels on unseen days."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from verify.registry import (
    ROOT,
    Options,
    Result,
    check,
    package_environment,
    passed,
    plain_environment,
    run_benchmark,
)

SECONDS = 60.0
"""Bound on the time of ``make demo`` with installed packages, on 2 cores."""


def run(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[str, float, float]:
    """What a command prints, its wall-clock time and its processor time; it must succeed."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


DEMO = {
    "flights": ["train", "flights", "--weather", "--test-last", ".5"],
    "coloured-digits": ["train", "coloured-digits"],
}
"""What ``make demo`` runs, by the folder of its output."""


@check(
    "tables.demo",
    "make demo in a fresh clone: two tables, their reports, and what README.md quotes",
    alone=True,
)
def demo(options: Options) -> Result:
    if not options.clean_clone:  # the same commands in this checkout, whose packages are there
        printed, seconds, cpu = "", 0.0, 0.0
        for name, arguments in DEMO.items():
            command = [sys.executable, "-m", "eqrm.cli", *arguments, "--output"]
            found = run([*command, str(options.output / name)], ROOT, package_environment())
            printed, seconds, cpu = printed + found[0], seconds + found[1], cpu + found[2]
        return demo_result(printed, seconds, cpu, options.output, "in this checkout")
    with tempfile.TemporaryDirectory(prefix="eqrm-clone-") as temporary:
        clone = Path(temporary) / "eqrm"
        run(["git", "clone", "--quiet", str(ROOT), str(clone)], ROOT, plain_environment())
        setting_up = run(["make", "setup"], clone, plain_environment())[1]
        found = run(["make", "demo"], clone, plain_environment())
        where = f"after a set-up of {setting_up:.0f} s"
        return demo_result(*found, clone / "demo-output", where)


def demo_result(printed: str, seconds: float, cpu: float, folder: Path, where: str) -> Result:
    reports = [(folder / name / "report.html").is_file() for name in DEMO]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```text\n(Trained on .*?)\n```", readme, flags=re.DOTALL)
    quoted = [block in printed for block in blocks]
    holds = all(reports) and quoted == [True] * len(DEMO) and seconds <= SECONDS
    words = f"{seconds:.0f} s (bound {SECONDS:.0f}), {cpu:.0f} s of processor time; {where}; "
    words += f"{sum(reports)} reports; {sum(quoted)} of {len(DEMO)} blocks of README.md as printed"
    return passed(holds, words, seconds=seconds, processor_seconds=cpu, printed=printed)


@check(
    "tables.levels",
    "each level best or tied in its own column on unseen days; .9-quantile against ERM",
)
def levels(options: Options) -> Result:
    finished, content = run_benchmark(options, "flights_levels")
    found: dict[str, Any] = content
    words = []
    for features, changes in found["changes"].items():
        tied = sum(gap <= error for gap, error in found["behind"][features])
        mean = sum(changes) / len(changes)
        splits = len(changes)
        words.append(f"{features}: {tied} of 5 levels, .9-quantile {mean:+.1%} ({splits} splits)")
    return passed(finished.code == 0 and all(found["holds"].values()), "; ".join(words), **found)
