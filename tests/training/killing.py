"""``kill -9`` at random moments of a run, during the writing of checkpoints too."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from eqrm.training.runs.checkpoint import Checkpoints, read_checkpoint
from processes import LOADED, forkserver
from training import killed_run

DRAFTS = ".*.safetensors"
"""Files that are being written (``eqrm.files.writing``)."""


@dataclass
class Kills:
    """What was seen while a run was killed again and again."""

    kills: int = 0
    while_writing: int = 0
    steps_lost: list[int] = field(default_factory=list)


class Runs:
    """Starts runs, one at a time, each in a process of its own that begins in milliseconds."""

    def __init__(self, loaded: Sequence[str] = ()) -> None:
        """``loaded`` are modules that these processes need and need not load themselves."""
        self._context = forkserver()
        self._context.set_forkserver_preload([*LOADED, killed_run.__name__, *loaded])
        self._process: ForkServerProcess | None = None

    def start(self, folder: Path, steps: int, width: int) -> None:
        self._process = self._context.Process(target=killed_run.run, args=(folder, steps, width))
        self._process.start()

    def running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        assert self._process is not None
        self._process.kill()

    def wait(self) -> int:
        """How the process ended: 0, or minus the signal."""
        assert self._process is not None
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode


def run_to_the_end(runs: Runs, folder: Path, steps: int, width: int) -> None:
    runs.start(folder, steps, width)
    assert runs.wait() == 0


def killed_and_resumed(
    runs: Runs, folder: Path, steps: int, width: int, kills: int, seed: int = 0
) -> Kills:
    """Start, kill, look at what is on the disk, and again; then let it end.

    It is killed less often if it ends before, but at least once.
    In turns a kill waits for a checkpoint that is being written, for a random time after the
    first step, or for a random time after the start.
    """
    generator = random.Random(seed)
    seen = Kills()
    while seen.kills < kills:
        saved = newest_step(folder)
        runs.start(folder, steps, width)
        kind = ("writing", "training", "writing", "starting")[seen.kills % 4]
        wait_for(kind, runs, folder, generator)
        runs.kill()
        ended = runs.wait()
        if ended == 0 and seen.kills > 0:
            return seen
        if ended != -signal.SIGKILL:
            raise AssertionError("The run ended before it could be killed: give it more steps.")
        seen.kills += 1
        seen.while_writing += any((folder / "checkpoint").glob(DRAFTS))
        look_at_checkpoints(folder, saved, seen)
    run_to_the_end(runs, folder, steps, width)
    return seen


def wait_for(kind: str, runs: Runs, folder: Path, generator: random.Random) -> None:
    """Until the moment to kill has come, the run has ended, or a minute has passed."""
    if kind == "starting":
        time.sleep(generator.uniform(0.0, 0.2))
        return
    size, last = metrics_size(folder), ""
    drafts_to_see = generator.randint(1, 3)
    deadline, looks = time.monotonic() + 60, 0
    while time.monotonic() < deadline:
        looks += 1
        if looks % 100 == 0 and not runs.running():  # seldom: a draft is there for a moment
            return
        if kind == "training" and metrics_size(folder) != size:
            time.sleep(generator.uniform(0.0, 0.2))
            return
        drafts = [path.name for path in (folder / "checkpoint").glob(DRAFTS)]
        if kind == "writing" and drafts and drafts[0] != last:
            last, drafts_to_see = drafts[0], drafts_to_see - 1
            if drafts_to_see == 0:
                return
        time.sleep(1e-4)


def metrics_size(folder: Path) -> int:
    try:
        return (folder / "metrics.jsonl").stat().st_size
    except FileNotFoundError:
        return 0


def newest_step(folder: Path) -> int:
    paths = Checkpoints(folder / "checkpoint").paths()
    return int(paths[-1].stem.removeprefix("step-")) if paths else 0


def look_at_checkpoints(folder: Path, saved_before: int, seen: Kills) -> None:
    """Every file with a checkpoint's name is whole, and nothing saved before is gone."""
    for path in Checkpoints(folder / "checkpoint").paths():
        read_checkpoint(path)
    saved = newest_step(folder)
    assert saved >= saved_before
    lines = (folder / "metrics.jsonl").read_text().splitlines() if metrics_size(folder) else []
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    reached = max((record["step"] for record in whole), default=0)
    seen.steps_lost.append(max(0, reached - saved))
