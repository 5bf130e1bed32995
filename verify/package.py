"""The package from outside: a fresh clone, and what an import costs."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from verify.demo import DEMO, demo_by
from verify.registry import (
    ROOT,
    Options,
    Result,
    check,
    passed,
    plain_environment,
    run_program,
    skipped,
)

FIRST_SECONDS = 2.0
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


FIRST_ANSWER, LIGHT_MB = 45.0, 700.0


@check(
    "package.light",
    "from a fresh clone to the first answer in 45 s, in an environment of 700 MB without torch",
    alone=True,
)
def light(options: Options) -> Result:
    """``make demo`` with packages that are in the cache of the installer."""
    with tempfile.TemporaryDirectory(prefix="eqrm-light-") as folder:
        clone = Path(folder) / "eqrm"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for _ in range(2):  # the first may have to download
            shutil.rmtree(clone / ".venv", ignore_errors=True)
            start, seconds, printed = time.perf_counter(), [], []
            demo = subprocess.Popen(
                ["make", "demo"],
                cwd=clone,
                env=plain_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for line in demo.stdout or ():
                printed.append(line)
                if line.startswith("Use: "):
                    seconds.append(time.perf_counter() - start)
            demo.wait()
        environment = clone / ".venv"
        files = (each for each in environment.rglob("*") if each.is_file())
        size = sum(each.stat().st_size for each in files if not each.is_symlink()) / 1e6
        found = list(environment.glob("lib/*/site-packages/torch"))
    (options.output / "light.log").write_text("".join(printed))
    answers = sum(line.startswith("Use: ") for line in printed)
    return passed(
        answers == 2 and seconds[0] <= FIRST_ANSWER and size <= LIGHT_MB and not found,
        f"{seconds[0] if seconds else -1:.0f} s to the first of {answers} answers (bound "
        f"{FIRST_ANSWER:.0f}), environment {size:.0f} MB (bound {LIGHT_MB:.0f}), torch: {found}",
    )


TABLE_SCENES = [
    "train",
    "predict",
    "evaluate",
    "compare",
    "recalibrate",
    "watch",
    "backtest",
    "plan",
    "figure",
]
NETWORK_SCENES = ["train-network", "sweep-and-table"]
RUN_SCENE = """
import sys
sys.path.insert(0, {scripts!r})
import eqrm
assert eqrm.__file__.startswith({environment!r}), eqrm.__file__
from running import made
made({scene!r})
"""
NO_TORCH = "from importlib.util import find_spec; assert find_spec('torch') is None"


@check("package.wheel", "the wheel alone, in an empty environment, runs every command")
def wheel(options: Options) -> Result:
    """The commands of tests/record; those of networks after torch was added, the others without."""
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
        failed = []

        def run(name: str, command: list[str]) -> None:
            done = run_program(options, f"wheel-{name}", command, plain_environment(), place)
            failed.extend([f"{name}: {done.last_lines()}"] if done.code else [])

        def run_scenes(names: list[str]) -> None:
            given = {"scripts": str(ROOT / "scripts" / "record"), "environment": str(environment)}
            for scene in names:
                run(scene, [python, "-c", RUN_SCENE.format(**given, scene=scene)])

        install = [python, *pip[1:], "install", *constraints]
        run("install", [*install, f"{built}[plots]"])
        run("no-torch", [python, "-c", NO_TORCH])
        for name, demo in DEMO.items():
            run(f"demo-{name}", [python, "-m", "eqrm.cli", *demo, "--output", name])
        run_scenes(TABLE_SCENES)
        run("install-torch", [*install, f"{built}[torch]"])
        run_scenes(NETWORK_SCENES)
        size = built.stat().st_size / 1e6
    return passed(
        not (failed or others),
        f"without torch both commands of the demo, {', '.join(TABLE_SCENES)}; with it "
        f"{', '.join(NETWORK_SCENES)}; failed: {failed}; files of the wheel ({size:.1f} MB) out"
        f"side of eqrm: {others}",
    )


FIRST_FIT = """
import numpy as np
from eqrm import QRMClassifier
rng = np.random.default_rng(0)
X, hospital = rng.normal(size=(400, 2)), np.arange(400) // 20
QRMClassifier(0.9).fit(X, X[:, 0] + 0.1 * hospital * X[:, 1] > 0, groups=hospital)
"""


@check(
    "package.import-time",
    "in new processes, a first fit of 400 rows and `eqrm evaluate` of a small file in 2 s each",
    alone=True,
)
def import_time(options: Options) -> Result:
    """By the clock, once the file cache is warm. (Up to 2026-11-18: eqrm beside torch.)"""
    table = options.output / "small.csv"
    rows = (f"h{i // 20},{i % 2},{0.3 + 0.4 * (i % 2)}" for i in range(800))
    table.write_text("\n".join(["hospital,ill,p", *rows]) + "\n", encoding="utf-8")
    given = ["--domain", "hospital", "--target", "ill", "--prediction", "p"]
    commands = {
        "fit": ["-c", FIRST_FIT],
        "evaluate": ["-m", "eqrm.cli", "evaluate", str(table), *given],
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(6):
        for name, command in commands.items():
            finished = run_program(options, f"first-{name}", [sys.executable, *command])
            if finished.code:
                return passed(False, f"{name}: {finished.last_lines()}")
            samples[name].append(finished.seconds)
    medians = {name: statistics.median(times[1:]) for name, times in samples.items()}
    return passed(
        max(medians.values()) <= FIRST_SECONDS,
        f"first fit {medians['fit']:.2f} s, evaluate {medians['evaluate']:.2f} s (bound "
        f"{FIRST_SECONDS:.0f})",
        **medians,
    )
