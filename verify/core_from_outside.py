"""Issue 2, what is measured from outside: set-up, the tests, speed, CUDA, import time."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from verify.registry import (
    ROOT,
    Options,
    Result,
    check,
    package_environment,
    passed,
    plain_environment,
    skipped,
)

MINUTES_FOR_TESTS = 12.0
IMPORT_RATIO = 1.3
CASES_FACTOR = "10"
CUDA_PAGE = "docs/cuda.md"


@check("2.1", "a fresh clone sets itself up and passes `make test`")
def fresh_clone(options: Options) -> Result:
    if not options.clean_clone:
        return skipped("takes minutes; pass --clean-clone (make verify does)")
    with tempfile.TemporaryDirectory(prefix="eqrm-clone-") as folder:
        clone = Path(folder) / "eqrm"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        log = options.output / "fresh-clone.log"
        start = time.perf_counter()
        with log.open("w") as stream:
            finished = subprocess.run(
                ["make", "test"],
                cwd=clone,
                env=plain_environment(),
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            )
        minutes = (time.perf_counter() - start) / 60.0
    return passed(
        finished.returncode == 0,
        f"exit code {finished.returncode}, set-up included {minutes:.1f} minutes; log in {log}",
        minutes=minutes,
        bound_minutes=MINUTES_FOR_TESTS,
    )


@check("2.5", "degenerate input, dtypes, errors; ten times the generated cases of CI")
def degenerate_input(options: Options) -> Result:
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]
    command += ["-n", str(options.workers), "tests/distributions"]
    log = options.output / "properties.log"
    with log.open("w") as stream:
        finished = subprocess.run(
            command,
            cwd=ROOT,
            env=package_environment(EQRM_CASES_FACTOR=CASES_FACTOR, OMP_NUM_THREADS="1"),
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )
    last = log.read_text().strip().splitlines()[-1].strip("= ")
    return passed(finished.returncode == 0, f"{last}; log in {log}")


@check("2.6", "speed and memory against the published bisection and the mean")
def speed(options: Options) -> Result:
    path = options.output / "quantile-benchmark.json"
    command = [sys.executable, "benchmarks/quantile.py", "--json", str(path)]
    log = options.output / "quantile-benchmark.log"
    with log.open("w") as stream:
        finished = subprocess.run(
            command, cwd=ROOT, env=package_environment(), stdout=stream, stderr=stream, check=False
        )
    content = json.loads(path.read_text())
    verdicts = content["verdicts"]
    lines = [f"{v['bound']}: {v['worst']}" for v in verdicts]
    holds = finished.returncode == 0 and all(v["passed"] for v in verdicts)
    return passed(holds, "; ".join(lines), verdicts=verdicts)


@check("2.7", "CUDA: no synchronisation, graphs, torch.compile, agreement with the CPU")
def cuda(options: Options) -> Result:
    if not torch.cuda.is_available():
        return skipped(f"no CUDA device here; recorded output with the device named: {CUDA_PAGE}")
    command = [sys.executable, "benchmarks/cuda_quantile.py", "--output", str(options.output)]
    finished = subprocess.run(
        command, cwd=ROOT, env=package_environment(), capture_output=True, text=True, check=False
    )
    content = json.loads((options.output / "cuda_quantile.json").read_text())
    failed = [c["name"] for c in content["checks"] if not c["passed"]]
    return passed(
        finished.returncode == 0,
        f"{len(content['checks'])} checks on {content['machine']['device']}, failed: {failed}",
    )


@check("2.import", "`import eqrm` takes at most 1.3 times `import torch`")
def import_time(options: Options) -> Result:
    samples: dict[str, list[float]] = {"eqrm": [], "torch": []}
    for turn in range(12):
        for module, times in samples.items():
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", f"import {module}"], env=package_environment(), check=True
            )
            if turn:  # the first turn fills the file cache
                times.append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in samples.items()}
    ratio = medians["eqrm"] / medians["torch"]
    return passed(
        ratio <= IMPORT_RATIO,
        f"ratio {ratio:.2f} (eqrm {medians['eqrm']:.2f} s, torch {medians['torch']:.2f} s)",
        **medians,
    )
