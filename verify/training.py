"""Issue 7, the trainer: its must-hold items at full size."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from verify.objectives import run_tests
from verify.registry import ROOT, Options, Result, check, package_environment, passed

TESTS = "tests/training"
KILLS, STEPS, WIDTH = 20, 200, 512
CURVE_STEPS, TOLERANCE = 50, 1e-5


@check("7.1", "kill -9 at 20 random moments, resumed each time, bit for bit the same run")
def kills(options: Options) -> Result:
    from training.killed_run import CHECKPOINT_EVERY
    from training.killing import Runs, killed_and_resumed, run_to_the_end

    with tempfile.TemporaryDirectory() as name, Runs() as runs:
        folder = Path(name)
        run_to_the_end(runs, folder / "whole", STEPS, WIDTH)
        seen = killed_and_resumed(runs, folder / "killed", STEPS, WIDTH, KILLS)
        same = {
            file: (folder / "whole" / file).read_bytes() == (folder / "killed" / file).read_bytes()
            for file in ("weights.safetensors", "metrics.jsonl")
        }
    most = max(seen.steps_lost)
    return passed(
        all(same.values()) and seen.while_writing > 0 and most <= CHECKPOINT_EVERY,
        f"{seen.kills} kills, {seen.while_writing} while a checkpoint was written; every "
        f"checkpoint left behind was readable; at most {most} steps lost, with a checkpoint every "
        f"{CHECKPOINT_EVERY}; final weights and metrics bit for bit those of an uninterrupted "
        f"run: {all(same.values())}",
        same=same,
        steps_lost=seen.steps_lost,
    )


@check("7.2", "damaged, truncated and foreign checkpoints are refused; loading runs nothing")
def damaged(options: Options) -> Result:
    counts = run_tests(
        options, "training-checkpoints", f"{TESTS}/test_checkpoint.py", f"{TESTS}/test_resume.py"
    )
    return counts.result("checkpoints and exact resume")


@check("7.3", "1, 2 and 4 processes: the same loss curves")
def processes(options: Options) -> Result:
    program = ROOT / TESTS / "several_processes.py"
    with tempfile.TemporaryDirectory() as name:
        for number in (1, 2, 4):
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            command = [*command, "--nproc-per-node", str(number)] if number > 1 else command[:1]
            subprocess.run(
                [*command, str(program), name, str(CURVE_STEPS)],
                env=package_environment(OMP_NUM_THREADS="1"),
                check=True,
                capture_output=True,
            )
        found = {n: json.loads((Path(name) / f"world-{n}.json").read_text()) for n in (1, 2, 4)}
    worst = {}
    for n in (2, 4):
        for case, one in found[1]["cases"].items():
            gap = np.abs(np.subtract(found[n]["cases"][case]["losses"], one["losses"]))
            # Deep in the tail a loss is 50 and more: there its digits are compared.
            scale = np.maximum(1.0, np.abs(one["losses"]))
            worst[f"{n} processes, {case}"] = float((gap / scale).max())
    where = max(worst, key=lambda key: worst[key])
    resumed = all(found[n]["resumed"] for n in found)
    refused = all(set(found[n]["refusals"]) == {"irm", "dann", "batch norm"} for n in (2, 4))
    curves = len(one["losses"])
    return passed(
        worst[where] <= TOLERANCE and resumed and refused and curves == CURVE_STEPS,
        f"{len(worst)} loss curves of {curves} steps: largest difference to one process (relative "
        f"above 1) {worst[where]:.1e} ({where}), bound {TOLERANCE:g}; killed and resumed with 1, 2 "
        f"and 4 processes bit for bit: {resumed}; IRM, DANN, local batch norm refused: {refused}",
        differences=worst,
    )


@check("7.5", "a step of the trainer: EQRM ≤ 1.05 ERM, the data path ≤ 5%")
def step_time(options: Options) -> Result:
    return _benchmark(options, "training_step")


@check("7.7", "45,000 domains: constant memory, at most 3 ms and 1.1 ERM steps")
def many_domains(options: Options) -> Result:
    return _benchmark(options, "many_domains_training")


@check("7.9", "wrong configurations are refused before any work starts")
def configurations(options: Options) -> Result:
    counts = run_tests(
        options,
        "training-configurations",
        f"{TESTS}/test_config.py",
        f"{TESTS}/test_phases.py",
        "tests/cli/test_train_network.py",
    )
    return counts.result("configurations")


@check("7.0", "the trainer: every objective, schedules, averages, early stopping, other loops")
def trainer(options: Options) -> Result:
    return run_tests(options, "training", TESTS).result("the trainer")


def _benchmark(options: Options, name: str) -> Result:
    """Run a benchmark; its last line says what came out."""
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
