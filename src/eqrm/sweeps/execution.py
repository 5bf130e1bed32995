"""One run of a sweep, in the process that trains it: claim, train or resume, record.

What a run prints goes to ``log.txt`` in its folder. A process that cannot answer the sweep, because
it runs on another machine, leaves its ending there too: the record, the failure, or an empty file
``stopped`` where it saved its state and has to go on.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from eqrm.errors import DataFileError, EqrmError
from eqrm.files.writing import is_full_disk
from eqrm.sweeps.engines.base import Ending, RunOutcome
from eqrm.sweeps.records import RunRecord, write_record
from eqrm.sweeps.sweep_folder import Failure, SweepFolder
from eqrm.sweeps.table_runs import TableRunConfig, fit_table_run, read_run_config
from eqrm.training.processes import TrainingInterrupted, any_process, process_group, rank
from eqrm.training.runs.run import train_run
from eqrm.training.runs.run_data import LastDataset
from eqrm.training.runs.run_folder import RunFolder

LOG, STOPPED = "log.txt", "stopped"
SPLITS = ("train", "validation", "test")
LAST_DATASET = LastDataset()
"""Of the runs that this process trains one after the other."""


def execute_run(
    folder: SweepFolder,
    run: str,
    data_root: str | Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> RunOutcome:
    """Train a run of a sweep to its end, from its newest checkpoint, and write its record.

    A finished run is not trained again. An error is written to the run's folder. Of several
    processes (torchrun), all of which must call this, the first claims the run and records it.
    """
    if rank() > 0:
        begins = any_process(False)
        return RunOutcome(run, _train(folder, run, data_root, tell) if begins else "elsewhere")
    with folder.claimed(run) as own:
        begins = own and not folder.is_finished(run)
        any_process(begins)  # the others wait for this, and then train too, or do not
        if not own:
            return RunOutcome(run, "elsewhere")
        if not begins:
            return RunOutcome(run, "finished")
        for draft in folder.of_run(run).glob(".*"):  # of a process that was killed
            draft.unlink(missing_ok=True)
        folder.forget_failure(run)
        try:
            return RunOutcome(run, _train(folder, run, data_root, tell))
        except Exception as error:  # noqa: BLE001 - a defect fails its run, and the sweep goes on
            return _failed(folder, run, error)


def _train(
    folder: SweepFolder, run: str, data_root: str | Path | None, tell: Callable[[str], None]
) -> Ending:
    """Train a network or fit a table model, and write the record."""
    place, content = folder.prepared(run)
    config = read_run_config(content)
    if config.run_name != run:
        raise DataFileError(f"run.json of {run} describes another run, {config.run_name}.")
    if isinstance(config, TableRunConfig):
        if rank() > 0:  # one process fits it
            return "finished"
        checkpoints = fit_table_run(config, folder.of_run(run), data_root, tell)
    else:
        try:
            train_run(
                config,
                folder.of_run(run).parent,
                progress=tell,
                data_root=data_root,
                tell=tell,
                read=LAST_DATASET.read,
            )
        except TrainingInterrupted:
            return "stopped"
        checkpoints = checkpoints_of(RunFolder(folder.of_run(run)).metrics())
    if rank() == 0:
        record = RunRecord.from_dict({**place, "checkpoints": checkpoints})
        write_record(folder.path, record)
    return "finished"


def checkpoints_of(metrics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a run's metrics say, step by step; the final evaluation, of the weights that the run
    ended with, takes the place of another one after the same step."""
    found: dict[int, dict[str, Any]] = {}
    for line in metrics:
        if line.get("split") not in SPLITS:
            continue
        at = found.setdefault(line["step"], {"step": line["step"], "risks": {}, "accuracies": {}})
        at["risks"][line["split"]] = line["risks"]
        for name in ("accuracies", "metrics"):
            if name in line:
                at.setdefault(name, {})[line["split"]] = line[name]
    return [found[step] for step in sorted(found)]


def _failed(folder: SweepFolder, run: str, error: Exception) -> RunOutcome:
    words, trace = str(error) or type(error).__name__, ""
    if isinstance(error, OSError) and is_full_disk(error):
        where = error.filename or folder.of_run(run)
        words = f"The disk is full: {where} cannot be written."
    if not isinstance(error, (EqrmError, OSError)):
        words, trace = f"{type(error).__name__}: {words}", traceback.format_exc()
    with suppress(OSError):  # a full disk: whoever started the run is told all the same
        folder.write_failure(Failure(run, words, trace))
    return RunOutcome(run, "failed", words)


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
