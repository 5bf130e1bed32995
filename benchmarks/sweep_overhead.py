"""What a sweep costs beside its runs: ``eqrm sweep`` on 40 runs of about 10 s, with 2 workers.

    python benchmarks/sweep_overhead.py [--quick] [--json FILE]

A run's own time goes from its claim to the end of its training, in the worker that trains it. The
overhead is everything else in which a worker could have trained: the start of the command, of the
workers and of Python, the check of the plan, preparing and recording runs, waiting for the next
one. Both are measured in the same sweep, so that a busy machine slows both. The number of steps is
chosen by a few short runs, such that runs take about 10 s. At most 5% is allowed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from tables import aligned, busy_warning, machine, quick_and_json, write_json

from eqrm.sweeps.sweep_folder import CLAIM, SweepFolder

WORKERS, MOST = 2, 0.05


def plan(draws: int, steps: int) -> dict[str, Any]:
    """Two objectives with so many draws each."""
    return {
        "datasets": [{"name": "coloured-digits", "held_out": [["source-01", "source-02"]]}],
        "objectives": ["erm", "groupdro"],
        "draws": draws,
        "run": {
            "predictor": {"name": "mlp", "settings": {"width": 64, "depth": 2}},
            "steps": steps,
            "phases": "single",
            "batches": {"domains": 20, "examples": 16},
            "training": {"device": "cpu", "evaluate_every": max(1, steps // 10)},
        },
    }


def swept(folder: Path, content: dict[str, Any]) -> tuple[float, list[float]]:
    """The seconds of ``eqrm sweep`` from start to end, and the own time of each run."""
    path = folder.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    command = [sys.executable, "-m", "eqrm.cli", "sweep", str(path), "--output", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    subprocess.run(
        [*command, "--workers", str(WORKERS)], check=True, capture_output=True, env=environment
    )
    seconds = time.perf_counter() - start
    files = SweepFolder(folder)
    return seconds, [_own_seconds(files.of_run(run["run"])) for run in files.runs()]


def _own_seconds(run: Path) -> float:
    return (run / "DONE").stat().st_mtime - (run / CLAIM).stat().st_mtime


def main(arguments: list[str]) -> int:
    """Measure; 1 if the sweep costs more than it may."""
    given = quick_and_json(arguments, __doc__, "sweep_overhead", "8 runs of 2 s, without a verdict")
    draws, wanted, pilot = (4, 2.0, 300) if given.quick else (20, 10.0, 1000)
    print(busy_warning())
    with tempfile.TemporaryDirectory() as temporary:
        _, times = swept(Path(temporary) / "pilot", plan(3, pilot))
        steps = max(10, round(pilot * wanted / min(times)))  # the first of a worker take longer
        seconds, times = swept(Path(temporary) / "sweep", plan(draws, steps))
    own = sum(times)
    overhead = (WORKERS * seconds - own) / own
    rows = [
        ["runs", f"{len(times)} of {own / len(times):.1f} s"],
        ["their own time", f"{own:.1f} s"],
        [f"{WORKERS} workers x the command", f"{WORKERS * seconds:.1f} s"],
    ]
    print(aligned(["eqrm sweep", f"{steps} steps a run"], rows))
    passed = overhead <= MOST
    verdict = "not judged (--quick)" if given.quick else "PASS" if passed else "FAIL"
    print(f"Overhead: {100 * overhead:.1f}% of the runs' own time (at most 5%): {verdict}")
    content = {"runs": len(times), "own_seconds": own, "seconds": seconds, "overhead": overhead}
    write_json(given.json, {**content, "passed": passed, "machine": machine()})
    return 0 if passed or given.quick else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
