"""``kill -9`` of sweeps and of their workers, at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

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
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        if found := workers_of(folder):
            return found
        time.sleep(0.02)
    return []


@dataclass
class Kills:
    """How often sweeps and single workers were killed, and how many runs were finished then.

    ``while_writing`` counts kills that left a half-written file behind.
    """

    of_sweeps: int = 0
    of_workers: int = 0
    while_writing: int = 0
    finished: list[int] = field(default_factory=list)


def ended_runs(folder: Path) -> int:
    """The number of runs that are finished."""
    return len(list((folder / "runs").glob("*/record.json")))


def drafts(folder: Path) -> set[Path]:
    """Files of runs that are being written, or were when their process was killed."""
    return set((folder / "runs").glob("*/.*.json"))


def wait_until(
    process: subprocess.Popen[str], reached: Callable[[], bool], every: float = 0.05
) -> bool:
    """Whether something is reached before the sweep ends, looked at so often."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        if reached():
            return True
        time.sleep(every)
    return False


def killed_and_continued(plan: Path, folder: Path, runs: int, kills: int, seed: int) -> Kills:
    """Kill a worker and the sweep in turns, spread over all of its runs, then let it end.

    Half of the kills come at a random moment while runs are trained, the others as soon as a file
    of a run, such as its record, is seen being written.
    """
    generator = random.Random(seed)
    done = Kills()
    process = start(plan, folder)
    for kill in range(kills):
        due = kill * (runs - 3) // kills
        assert wait_until(process, lambda: ended_runs(folder) >= due)  # noqa: B023
        assert wait_for_a_worker(folder, process), f"The sweep ended after {kill} kills."
        left = drafts(folder)
        if kill % 4 < 2:
            time.sleep(generator.uniform(0.0, 0.4))
        else:
            wait_until(process, lambda: bool(drafts(folder) - left), 0.002)  # noqa: B023
        if kill % 2:
            process.kill()
            process.communicate()
            done.of_sweeps += 1
        else:
            done.of_workers += _kill_a_worker(folder, process)
        done.while_writing += bool(drafts(folder) - left)
        done.finished.append(ended_runs(folder))
        if kill % 2:
            process = start(plan, folder)
    out, err = process.communicate(timeout=1800)
    assert process.returncode == 0, out + err
    return done


def _kill_a_worker(folder: Path, process: subprocess.Popen[str]) -> int:
    """Kill one process that trains, now or as soon as there is one."""
    while found := wait_for_a_worker(folder, process):
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(found[0], signal.SIGKILL)
            return 1
    return 0
