"""The trainer at full size: kills, processes, checkpoints, configurations, speed."""

from __future__ import annotations

import subprocess
import sys

from verify.objectives import run_tests
from verify.registry import ROOT, Options, Result, check, package_environment, passed

TESTS = "tests/training"
RESUMED = ("killing", "checkpoint", "resume")


@check("training.resume", "20 kills at any moment, resumed bit for bit; bad checkpoints refused")
def resume(options: Options) -> Result:
    paths = [f"{TESTS}/test_{name}.py" for name in RESUMED]
    return run_tests(options, "training-resume", *paths).result(
        "SIGKILL while starting, training and writing; damaged, truncated and foreign files"
    )


@check("training.processes", "1, 2 and 4 processes: the same loss curves, resumed bit for bit")
def processes(options: Options) -> Result:
    counts = run_tests(options, "training-processes", f"{TESTS}/test_several_processes.py")
    return counts.result("every risk objective and layout, 50 steps, to 1e-5")


@check("training.trainer", "every objective, schedules, early stopping, tables, other loops")
def trainer(options: Options) -> Result:
    ignored = [f"--ignore={TESTS}/test_{name}.py" for name in (*RESUMED, "several_processes")]
    paths = [TESTS, "tests/cli/test_train_network.py", *ignored]
    return run_tests(options, "training", *paths).result("the trainer and its configurations")


@check("training.step-cost", "a step of the trainer: EQRM ≤ 1.05 ERM, the data path ≤ 5%")
def step_cost(options: Options) -> Result:
    return _benchmark(options, "training_step")


@check("training.many-domains", "45,000 domains: constant memory, at most 3 ms and 1.1 ERM steps")
def many_domains(options: Options) -> Result:
    return _benchmark(options, "many_domains_training")


def _benchmark(options: Options, name: str) -> Result:
    """Run a benchmark; its last lines say what was found."""
    path = options.output / f"{name}.json"
    finished = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--json", str(path)],
        env=package_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    lines = finished.stdout.strip().splitlines() or [finished.stderr[-500:]]
    (options.output / f"{name}.log").write_text(finished.stdout + finished.stderr)
    return passed(finished.returncode == 0, " | ".join(lines[-2:]))
