"""One run in a process that an engine started, and what became of it, by its files.

What a run prints goes to ``log.txt`` in its folder. A process that cannot answer the sweep, because
it runs on another machine, leaves its ending there too: the record, the failure, or an empty file
``stopped`` where it saved its state and has to go on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from eqrm.sweeps.engines.base import RunOutcome
from eqrm.sweeps.execution import execute_run
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.training.processes import process_group, rank

LOG, STOPPED = "log.txt", "stopped"


def logged_run(
    folder: SweepFolder, run: str, data_root: str | Path | None = None, threads: int = 1
) -> RunOutcome:
    """Train a run with so many threads; what it prints, and libraries print, goes to its log."""
    torch.set_num_threads(threads)
    with _printed_to(folder.of_run(run) / LOG):
        return execute_run(folder, run, data_root, print)


def job_run(
    folder: SweepFolder, run: str, data_root: str | Path | None = None, threads: int = 1
) -> RunOutcome:
    """The same in a job of a cluster, alone or as one of the processes of torchrun."""
    (folder.of_run(run) / STOPPED).unlink(missing_ok=True)
    with process_group():
        outcome = logged_run(folder, run, data_root, threads)
        first = rank() == 0
    if first and outcome.ending == "stopped":
        (folder.of_run(run) / STOPPED).touch()
    return outcome


def begin_job(folder: SweepFolder, run: str) -> None:
    """Remove what an earlier job left, so that it is not taken for the ending of the next."""
    folder.forget_failure(run)
    (folder.of_run(run) / STOPPED).unlink(missing_ok=True)


def ending_of_job(folder: SweepFolder, run: str) -> RunOutcome:
    """What became of a run whose job is gone."""
    if folder.is_finished(run):
        return RunOutcome(run, "finished")
    if folder.is_pruned(run):
        return RunOutcome(run, "pruned")
    if (failure := folder.failure(run)) is not None:
        return RunOutcome(run, "failed", failure.error)
    if (folder.of_run(run) / STOPPED).is_file():
        return RunOutcome(run, "stopped")
    return RunOutcome(run, "elsewhere" if folder.is_claimed(run) else "lost")


@contextmanager
def _printed_to(path: Path) -> Iterator[None]:
    """Send what is printed, by libraries too, to the end of a file."""
    kept = [os.dup(number) for number in (1, 2)]
    with path.open("a", encoding="utf-8") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
