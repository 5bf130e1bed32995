"""The package from outside: a fresh clone, and what an import costs."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from verify.demo import demo_of_clone
from verify.registry import (
    ROOT,
    Options,
    Result,
    check,
    package_environment,
    passed,
    plain_environment,
    run_program,
    skipped,
)

IMPORT_RATIO = 1.3
RECORD_SECONDS = 240.0


@check("package.clean-clone", "a fresh clone sets itself up and passes `make test`", alone=True)
def clean_clone(options: Options) -> Result:
    """Also ``make demo`` there, which tables.demo judges."""
    if not options.clean_clone:
        return skipped("takes many minutes; pass --clean-clone (make verify does)")
    with tempfile.TemporaryDirectory(prefix="eqrm-clone-") as folder:
        clone = Path(folder) / "eqrm"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        finished = [
            run_program(
                options, f"clean-clone-{target}", ["make", target], plain_environment(), clone
            )
            for target in ("setup", "test")
        ]
        demo_of_clone(options, clone, finished[0].seconds)
    setting_up, tests = (each.seconds / 60.0 for each in finished)
    return passed(
        not any(each.code for each in finished),
        f"exit codes {[each.code for each in finished]}; set-up {setting_up:.1f} minutes, `make "
        f"test` {tests:.1f}; log in {finished[1].log}",
        minutes=setting_up + tests,
    )


@check("package.record", "commands, studies and names give what tests/record holds", alone=True)
def record(options: Options) -> Result:
    """In the time that CONTRIBUTING.md says."""
    finished = run_program(
        options, "record", [sys.executable, "scripts/record/recording.py", "--check"]
    )
    return passed(
        finished.code == 0 and finished.seconds <= RECORD_SECONDS,
        f"{finished.last_lines()} Bound {RECORD_SECONDS:.0f} s.",
        seconds=finished.seconds,
    )


@check(
    "package.import-time",
    "`import eqrm; eqrm.KDE` takes at most 1.3 times the processor time of `import torch`",
)
def import_time(options: Options) -> Result:
    """Processor time, which other checks change little. (Up to 2026-11-18 by the clock, alone.)"""
    statements = {"eqrm": "import eqrm; eqrm.KDE", "torch": "import torch"}
    samples: dict[str, list[float]] = {name: [] for name in statements}
    for turn in range(6):
        for name, statement in statements.items():
            before = _spent_by_children()
            subprocess.run([sys.executable, "-c", statement], env=package_environment(), check=True)
            if turn:  # the first turn fills the file cache
                samples[name].append(_spent_by_children() - before)
    medians = {name: statistics.median(times) for name, times in samples.items()}
    ratio = medians["eqrm"] / medians["torch"]
    return passed(
        ratio <= IMPORT_RATIO,
        f"ratio {ratio:.2f} (eqrm {medians['eqrm']:.2f} s, torch {medians['torch']:.2f} s)",
        **medians,
    )


def _spent_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
