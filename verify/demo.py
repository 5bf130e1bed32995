"""``make demo``, run by one check and judged by another: in a fresh clone, or in this checkout."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from verify.registry import ROOT, Options, package_environment, plain_environment

DEMO = {
    "flights": ["train", "flights", "--weather", "--order", "day"],
    "coloured-digits": ["train", "coloured-digits"],
}
"""What ``make demo`` runs, by the folder of its output."""


@dataclass(frozen=True)
class Demo:
    """What ``make demo`` printed and wrote, and what it took."""

    where: str
    code: int
    printed: str
    seconds: float
    processor_seconds: float
    reports: int


def _ran(
    where: str, command: list[str], folder: Path, environment: dict[str, str], output: Path
) -> Demo:
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processors = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    printed = done.stdout if done.returncode == 0 else done.stdout + done.stderr
    reports = sum((output / name / "report.html").is_file() for name in DEMO)
    return Demo(where, done.returncode, printed, seconds, processors, reports)


def demo_of_clone(options: Options, clone: Path, setting_up: float) -> None:
    """Run ``make demo`` in a clone that is set up, and keep what it did."""
    where = f"in a fresh clone, after a set-up of {setting_up:.0f} s"
    ran = _ran(where, ["make", "demo"], clone, plain_environment(), clone / "demo-output")
    _kept(options).write_text(json.dumps({"commit": _commit(), **asdict(ran)}), encoding="utf-8")


def kept_demo(options: Options) -> Demo | None:
    """What was kept, once, if it is of this commit."""
    path = _kept(options)
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    return Demo(**found) if found.pop("commit") == _commit() else None


def demo_here(options: Options) -> Demo:
    """The same commands in this checkout, whose packages are there."""
    parts = [
        _ran(
            "in this checkout",
            [sys.executable, "-m", "eqrm.cli", *each, "--output", str(options.output / name)],
            ROOT,
            package_environment(),
            options.output,
        )
        for name, each in DEMO.items()
    ]
    return Demo(
        parts[0].where,
        max(part.code for part in parts),
        "".join(part.printed for part in parts),
        sum(part.seconds for part in parts),
        sum(part.processor_seconds for part in parts),
        parts[-1].reports,
    )


def _kept(options: Options) -> Path:
    return options.output / "demo-of-clone.json"


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
