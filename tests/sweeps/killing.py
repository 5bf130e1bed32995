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
from pathlib import Path
from typing import Any

import yaml

from eqrm.sweeps.sweep_folder import SweepFolder

SOURCE = Path(__file__).resolve().parents[2] / "src"


def environment(**variables: str) -> dict[str, str]:
    """That of commands: this checkout, one thread; a Ray node may not start without bytecode."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **variables}


def start(plan: Path, folder: Path, *options: str, **variables: str) -> subprocess.Popen[str]:
    """``eqrm sweep`` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "eqrm.cli", "sweep", str(plan), "--output", str(folder), *options],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(
    condition: Callable[[], Any], what: str, seconds: float = 600, every: float = 0.05
) -> Any:
    """What the condition gives once it holds, looked at so often."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(every)
    raise AssertionError(f"{what}: not within {seconds} seconds")


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
    found: list[int] = []

    def trained_or_ended() -> bool:
        found[:] = workers_of(folder)
        return bool(found) or process.poll() is not None

    wait_until(trained_or_ended, "a worker", every=0.02)
    return found


def drafts(folder: Path) -> set[Path]:
    """Files of runs that are being written, or were when their process was killed."""
    return set((folder / "runs").glob("*/.*.json"))


def killed_and_continued(plan: Path, folder: Path, runs: int, kills: int, seed: int) -> None:
    """Kill a worker and the sweep in turns, spread over all of its runs, then let it end.

    Half of the kills come at a random moment while runs are trained, the others as soon as a file
    of a run, such as its record, is seen being written.
    """
    generator = random.Random(seed)
    process = start(plan, folder, "--workers", "2")

    def reached(wanted: Callable[[], bool], every: float = 0.05) -> None:
        """Wait, but not for a sweep that has ended."""
        wait_until(lambda: wanted() or process.poll() is not None, "a kill", every=every)

    for kill in range(kills):
        due = kill * (runs - 3) // kills
        reached(lambda: len(list(folder.glob("runs/*/record.json"))) >= due)  # noqa: B023
        assert wait_for_a_worker(folder, process), f"The sweep ended after {kill} kills."
        left = drafts(folder)
        if kill % 4 < 2:
            time.sleep(generator.uniform(0.0, 0.4))
        else:
            reached(lambda: bool(drafts(folder) - left), 0.002)  # noqa: B023
        if kill % 2:
            process.kill()
            process.communicate()
            process = start(plan, folder, "--workers", "2")
        else:
            _kill_a_worker(folder, process)
    ends_well(process, 1800)


def _kill_a_worker(folder: Path, process: subprocess.Popen[str]) -> None:
    """Kill one process that trains, now or as soon as there is one."""
    while found := wait_for_a_worker(folder, process):
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(found[0], signal.SIGKILL)
            return
    raise AssertionError("The sweep ended before a worker was killed.")


def ends_well(process: subprocess.Popen[str], seconds: float = 300) -> str:
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, out + err
    return err
