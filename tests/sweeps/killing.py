"""``kill -9`` of sweeps and of their workers, at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from eqrm.sweeps.records import recorded_runs
from eqrm.sweeps.sweep_folder import SweepFolder

SOURCE = Path(__file__).resolve().parents[2] / "src"


def start(plan: Path, folder: Path, *options: str, workers: int = 2) -> subprocess.Popen[str]:
    """``eqrm sweep`` in a process of its own."""
    arguments = ["sweep", str(plan), "--output", str(folder), "--workers", str(workers), *options]
    return subprocess.Popen(
        [sys.executable, "-m", "eqrm.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def written(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def workers_of(folder: Path) -> list[int]:
    """The processes that train a run now."""
    files = SweepFolder(folder)
    found = []
    for claim in sorted((folder / "runs").glob("*/claim")):
        if files.is_claimed(claim.parent.name) and (text := claim.read_text().split()):
            found.append(int(text[1]))
    return found


def wait_for_a_worker(folder: Path, process: subprocess.Popen[str]) -> list[int]:
    """The processes that train, as soon as there are any; none if the sweep ended before."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if found := workers_of(folder):
            return found
        time.sleep(0.01)
    return []


def wait_for_another_record(folder: Path, process: subprocess.Popen[str]) -> None:
    """Until one more run is finished, or the sweep has ended."""
    before = len(list(recorded_runs(folder)))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if len(list(recorded_runs(folder))) > before:
            return
        time.sleep(0.01)


def killed_and_continued(plan: Path, folder: Path, kills: int, seed: int) -> tuple[int, int]:
    """Kill a worker and the sweep in turns at random moments, then let the sweep end.

    One kill in two comes soon after a worker began, the others soon after a run was finished.
    Returns the number of kills of sweeps and of workers.
    """
    generator = random.Random(seed)
    of_sweeps = of_workers = 0
    process = start(plan, folder)
    while of_sweeps + of_workers < kills:
        found = wait_for_a_worker(folder, process)
        if not found:
            raise AssertionError(f"The sweep ended after {of_sweeps + of_workers} kills.")
        if (of_sweeps + of_workers) % 4 in (1, 2):
            wait_for_another_record(folder, process)
        time.sleep(generator.uniform(0.0, 0.4))
        if of_workers > of_sweeps:
            process.kill()
            process.communicate()
            of_sweeps += 1
            process = start(plan, folder)
        else:
            for worker in wait_for_a_worker(folder, process)[:1]:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(worker, signal.SIGKILL)
                    of_workers += 1
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    return of_sweeps, of_workers
