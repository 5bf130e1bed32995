"""What a sweep of 40 runs of about 10 s costs beside its runs: ``eqrm sweep`` with 2 workers.

    python benchmarks/sweep_overhead.py [--quick]

A run's own time goes from its claim to the end of its training, in the worker that trains it. The
overhead is everything else in which a worker could have trained: the start of the command, of the
workers and of Python, the check of the plan, preparing and recording runs, waiting for the next
one. Both are measured in the same sweep, so that a busy machine slows both. The number of steps is
chosen by a few short runs, such that runs take about 10 s; where they took longer, they count as
10 s each, because most of the overhead does not grow with them. A sweep of 16 runs is enough to
measure both parts: what comes once (start and end) counts once, what lies between two runs as often
as there are runs, as in a sweep of 40. At most 5% is allowed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from tables import aligned, begun

from eqrm.sweeps.sweep_folder import CLAIM, SweepFolder

WORKERS, MOST = 2, 0.05
RUNS, MEASURED = 40, 16
"""Runs that are spoken of, and runs that are made."""


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


@dataclass(frozen=True)
class Swept:
    """The seconds of ``eqrm sweep``, and of its workers: training, before, between, after."""

    seconds: float
    own: list[float]
    started: float
    between: float
    ended: float


def swept(folder: Path, content: dict[str, Any]) -> Swept:
    """Run ``eqrm sweep`` from start to end."""
    path = folder.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    command = [sys.executable, "-m", "eqrm.cli", "sweep", str(path), "--output", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.time()
    subprocess.run(
        [*command, "--workers", str(WORKERS)], check=True, capture_output=True, env=environment
    )
    end = time.time()
    files = SweepFolder(folder)
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)  # by worker
    for run in files.runs():
        claim, done = files.of_run(run["run"]) / CLAIM, files.of_run(run["run"]) / "DONE"
        times[claim.read_text()].append((claim.stat().st_mtime, done.stat().st_mtime))
    by_worker = [sorted(each) for each in times.values()]
    return Swept(
        end - start,
        [done - claim for each in by_worker for claim, done in each],
        sum(each[0][0] - start for each in by_worker),
        sum(b[0] - a[1] for each in by_worker for a, b in pairwise(each)),
        sum(end - each[-1][1] for each in by_worker),
    )


def main(arguments: list[str]) -> int:
    """Measure; 1 if the sweep costs more than it may."""
    quick = begun(arguments, __doc__, "8 runs of 2 s, without a verdict")
    draws, wanted, pilot = (4, 2.0, 300) if quick else (MEASURED // 2, 10.0, 1000)
    with tempfile.TemporaryDirectory() as temporary:
        short = swept(Path(temporary) / "pilot", plan(3, pilot))
        steps = max(10, round(pilot * wanted / min(short.own)))  # a worker's first takes longer
        found = swept(Path(temporary) / "sweep", plan(draws, steps))
    runs, own = len(found.own), sum(found.own)
    between = found.between / (runs - WORKERS)
    beside = found.started + found.ended + between * (RUNS - WORKERS)
    overhead = beside / (RUNS * min(own / runs, wanted))
    rows = [
        ["runs", f"{runs} of {own / runs:.1f} s"],
        ["their own time", f"{own:.1f} s"],
        [f"{WORKERS} workers x the command", f"{WORKERS * found.seconds:.1f} s"],
        ["  until the first run of each", f"{found.started:.1f} s"],
        ["  between runs", f"{found.between:.1f} s ({between:.2f} s each)"],
        ["  after the last run of each", f"{found.ended:.1f} s"],
    ]
    print(aligned(["eqrm sweep", f"{steps} steps a run"], rows))
    passed = overhead <= MOST
    verdict = "not judged (--quick)" if quick else "PASS" if passed else "FAIL"
    print(
        f"Overhead of {RUNS} runs: {100 * overhead:.1f}% of their own time (at most 5%): {verdict}"
    )
    return 0 if passed or quick else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
