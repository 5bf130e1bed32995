"""The package from outside: a fresh clone, and what an import costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from verify.demo import demo_by
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
    spent_by_children,
)

IMPORT_RATIO = 1.3
RECORD_SECONDS = 240.0


@check(
    "package.clean-clone",
    "a fresh clone sets itself up, passes `make test` and prints with `make demo` what README says",
    alone=True,
)
def clean_clone(options: Options) -> Result:
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
        demo = demo_by([["make", "demo"]], clone, plain_environment(), clone / "demo-output")
    setting_up, tests = (each.seconds / 60.0 for each in finished)
    return passed(
        not any(each.code for each in finished) and demo.status == "PASS",
        f"exit codes {[each.code for each in finished]}; set-up {setting_up:.1f} minutes, `make "
        f"test` {tests:.1f}; log in {finished[1].log}; `make demo`: {demo.summary}",
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


WHEEL_SCENES = [
    "train",
    "predict",
    "evaluate",
    "recalibrate",
    "watch",
    "backtest",
    "train-network",
    "sweep-and-table",
]
RUN_SCENE = """
import sys
sys.path.insert(0, {scripts!r})
import eqrm
assert eqrm.__file__.startswith({environment!r}), eqrm.__file__
from running import made
made({scene!r})
"""


@check("package.wheel", "the wheel alone, in an empty environment, runs every command")
def wheel(options: Options) -> Result:
    """The commands of tests/record, with what ``pip install`` of the wheel brings and no more."""
    with tempfile.TemporaryDirectory(prefix="eqrm-wheel-") as folder:
        place, environment = Path(folder), Path(folder).resolve() / "environment"
        python = str(environment / "bin" / "python")
        constraints = ["-c", str(ROOT / "constraints.txt")]
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        steps = [
            ("build", [*pip, "wheel", "--no-deps", "-w", folder, str(ROOT)]),
            ("environment", [sys.executable, "-m", "venv", str(environment)]),
        ]
        for name, command in steps:
            finished = run_program(options, f"wheel-{name}", command, plain_environment(), place)
            if finished.code:
                return passed(False, f"{name}: {finished.last_lines()}")
        (built,) = place.glob("*.whl")
        with zipfile.ZipFile(built) as archive:
            others = [n for n in archive.namelist() if not n.startswith(("eqrm/", "eqrm-"))]
        install = [python, *pip[1:], "install", *constraints, str(built)]
        finished = run_program(options, "wheel-install", install, plain_environment(), place)
        failed = [f"install: {finished.last_lines()}"] if finished.code else []
        for scene in () if failed else WHEEL_SCENES:
            program = RUN_SCENE.format(
                scripts=str(ROOT / "scripts" / "record"), environment=str(environment), scene=scene
            )
            finished = run_program(
                options, f"wheel-{scene}", [python, "-c", program], plain_environment(), place
            )
            failed += [f"{scene}: {finished.last_lines()}"] if finished.code else []
        size = built.stat().st_size / 1e6
    return passed(
        not (failed or others),
        f"{len(WHEEL_SCENES)} groups of commands: {', '.join(WHEEL_SCENES)}; failed: {failed}; "
        f"files of the wheel ({size:.1f} MB) outside of eqrm: {others}",
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
            before = spent_by_children()
            subprocess.run([sys.executable, "-c", statement], env=package_environment(), check=True)
            if turn:  # the first turn fills the file cache
                samples[name].append(spent_by_children() - before)
    medians = {name: statistics.median(times) for name, times in samples.items()}
    ratio = medians["eqrm"] / medians["torch"]
    return passed(
        ratio <= IMPORT_RATIO,
        f"ratio {ratio:.2f} (eqrm {medians['eqrm']:.2f} s, torch {medians['torch']:.2f} s)",
        **medians,
    )
