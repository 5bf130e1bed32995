"""The folder of a sweep: its plan, its runs, and what became of each of them.

``sweep.json`` lists the runs, ``runs/<hash>`` is the folder of one. In it, beside what training
writes, ``run.json`` says what is to be trained, ``claim`` is locked by the process that trains it,
``record.json`` (finished) or ``failure.json`` (failed) is written last, and ``log.txt`` has what
was printed. Runs that are proposed while the sweep goes on are in ``draws/``, a file each.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eqrm.errors import DataFileError, Setting, SettingError
from eqrm.files.checked_json import is_whole_json, read_checked_json, write_checked_json
from eqrm.files.writing import try_lock, write_text
from eqrm.sweeps.records import FORMAT, RECORD, RUNS, read_record, record_path

SWEEP, SWEEP_FORMAT = "sweep.json", "eqrm sweep 1"
FAILURE, FAILURE_FORMAT = "failure.json", "eqrm failed run 1"
CLAIM, RUN, RUN_FORMAT = "claim", "run.json", "eqrm planned run 1"
DRAWS, DRAW_FORMAT, DRAW_LOCK = "draws", "eqrm proposed run 1", ".lock"
JOBS = "slurm"
"""Folder of the engine of that name: lists of tasks, and what jobs print."""
AGAIN = "run the sweep again with the same command"
State = Literal["finished", "failed", "running", "waiting"]
STATES: tuple[State, ...] = ("finished", "failed", "running", "waiting")


@dataclass(frozen=True)
class Failure:
    """Why a run failed: the error in one line, and the traceback where it may be a defect."""

    run: str
    error: str
    traceback: str = ""


class SweepFolder:
    """The files of a sweep."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._draws: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    @property
    def begun(self) -> bool:
        return (self.path / SWEEP).is_file()

    def begin(self, plan: Mapping[str, Any], places: list[dict[str, Any]]) -> None:
        """Make the folder for a plan and its runs; one that belongs to another plan is refused."""
        try:
            (self.path / RUNS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(
                f"The folder {self.path} cannot be created: {error.strerror}. Choose another."
            ) from None
        self.refuse_another_plan(plan, places)
        if not self.begun:
            content = {"plan": plan, "runs": places}
            write_checked_json(self.path / SWEEP, SWEEP_FORMAT, content)

    def refuse_another_plan(
        self, plan: Mapping[str, Any], places: list[dict[str, Any]] | None
    ) -> None:
        """Raise if the folder holds the runs of another plan, or something else.

        ``places`` is None where the runs are not known, because the plan has problems.
        """
        if not self.begun:
            there = self.path.iterdir() if self.path.is_dir() else ()
            known = (RUNS, DRAWS, JOBS)
            others = [p.name for p in there if p.name not in known and not p.name.startswith(".")]
            if others:
                raise SettingError(
                    f"The folder {self.path} is not the folder of a sweep: it holds "
                    f"{sorted(others)[0]!r}. Choose another with {Setting('output')}."
                )
            return
        known = self._content()
        if known["plan"] != json.loads(json.dumps(plan)):
            raise SettingError(
                f"The folder {self.path} belongs to another plan. Choose another with "
                f"{Setting('output')}."
            )
        runs = [each["run"] for each in known["runs"]]
        if places is not None and runs != [each["run"] for each in places]:
            raise SettingError(
                f"The runs in {self.path} were planned from the same plan, but the data or the "
                "version of eqrm has changed since. Choose another folder with "
                f"{Setting('output')}."
            )

    def plan(self) -> dict[str, Any]:
        """The plan, as it was given."""
        return dict(self._content()["plan"])

    def runs(self) -> list[dict[str, Any]]:
        """The runs of the plan, in its order: hash, dataset, objective, domains, draw, trial.

        The hash of a run that is not proposed yet is None.
        """
        found: list[dict[str, Any]] = self._content()["runs"]
        if any(place["run"] is None for place in found):
            for number, (place, _) in self.draws().items():
                found[number] = place
        return found

    def draws(self) -> Mapping[int, tuple[dict[str, Any], dict[str, Any]]]:
        """The runs that were proposed, by their number in the plan: place and configuration."""
        folder = self.path / DRAWS
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            if path.stem.isdecimal() and int(path.stem) not in self._draws:
                with _with_advice(f"Delete it and {AGAIN}: the run is proposed again."):
                    content = read_checked_json(path, DRAW_FORMAT, "a proposed run")
                self._draws[int(path.stem)] = content["place"], content["config"]
        return self._draws

    def write_draw(self, number: int, place: dict[str, Any], config: dict[str, Any]) -> None:
        """Record a proposed run; it is trained by whoever continues the sweep."""
        content = {"place": place, "config": config}
        write_checked_json(self.path / DRAWS / f"{number:06d}.json", DRAW_FORMAT, content)

    @contextmanager
    def proposing(self) -> Iterator[bool]:
        """Keep other sweeps from proposing runs; False inside where one of them does."""
        (self.path / DRAWS).mkdir(exist_ok=True)
        with _locked(self.path / DRAWS / DRAW_LOCK) as (own, _):
            for draft in (self.path / DRAWS).glob(".*.json") if own else ():
                draft.unlink(missing_ok=True)  # of a process that was killed
            yield own

    def _content(self) -> Any:
        if not (self.path / SWEEP).is_file():
            raise DataFileError(f"{self.path} is not the folder of a sweep: it has no {SWEEP}.")
        with _with_advice(f"Delete it and {AGAIN}: finished runs are kept."):
            return read_checked_json(self.path / SWEEP, SWEEP_FORMAT, "the list of a sweep's runs")

    def of_run(self, run: str) -> Path:
        return self.path / RUNS / run

    def prepare(self, run: str, place: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        """Write what is to be trained, for the process that trains it."""
        self.of_run(run).mkdir(parents=True, exist_ok=True)
        try:
            self.prepared(run)
        except DataFileError:  # not written yet, or damaged
            content = {"format": RUN_FORMAT, "place": place, "config": config}
            text = json.dumps(content, ensure_ascii=False, indent=1)
            with suppress(FileNotFoundError):  # another sweep wrote the same, and cleaned up
                write_text(self.of_run(run) / RUN, text + "\n")

    def prepared(self, run: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The place of a run in its plan, and its configuration."""
        path = self.of_run(run) / RUN
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return content["place"], content["config"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataFileError(f"{path} cannot be read: {error}.") from None

    @contextmanager
    def claimed(self, run: str) -> Iterator[bool]:
        """Keep other processes from training a run; False inside where one of them has it.

        The operating system ends a claim with its process, however that ends, so a claim is
        never stale.
        """
        with _locked(self.of_run(run) / CLAIM) as (own, handle):
            if own:
                os.ftruncate(handle, 0)
                os.write(handle, f"{socket.gethostname()} {os.getpid()}\n".encode())
            yield own

    def is_claimed(self, run: str) -> bool:
        try:
            handle = os.open(self.of_run(run) / CLAIM, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not try_lock(handle, shared=True)
        finally:
            os.close(handle)

    def is_finished(self, run: str) -> bool:
        """Whether the run has a record; a damaged one does not count, and is written again."""
        beginning = f'{{"run":{json.dumps(run)},'
        if is_whole_json(record_path(self.path, run), FORMAT, beginning):
            return True  # without parsing, which thousands of runs would wait for
        try:
            read_record(self.path, run)
        except DataFileError:
            return False
        return True

    def write_failure(self, failure: Failure) -> None:
        content = {"error": failure.error, "traceback": failure.traceback}
        write_checked_json(self.of_run(failure.run) / FAILURE, FAILURE_FORMAT, content)

    def failure(self, run: str) -> Failure | None:
        path = self.of_run(run) / FAILURE
        if not path.is_file():
            return None
        try:
            content = read_checked_json(path, FAILURE_FORMAT, "the failure of a run")
        except DataFileError as error:
            return Failure(run, str(error))
        return Failure(run, content["error"], content["traceback"])

    def forget_failure(self, run: str) -> None:
        """Let a failed run be tried again."""
        (self.of_run(run) / FAILURE).unlink(missing_ok=True)

    def state(self, run: str | None) -> State:
        """What became of a run, by its files alone; a record that is damaged does not count."""
        if run is None:  # not proposed yet
            return "waiting"
        try:  # one look at its folder costs less than one at each file
            names = os.listdir(self.of_run(run))
        except FileNotFoundError:
            return "waiting"
        if RECORD in names and self.is_finished(run):
            return "finished"
        if CLAIM in names and self.is_claimed(run):
            return "running"
        return "failed" if FAILURE in names else "waiting"

    def span(self, run: str) -> tuple[float, float] | None:
        """When a finished run began and ended: its last claim, and its record."""
        try:
            began = (self.of_run(run) / CLAIM).stat().st_mtime
            return began, max(began, record_path(self.path, run).stat().st_mtime)
        except FileNotFoundError:
            return None


@contextmanager
def _locked(path: Path) -> Iterator[tuple[bool, int]]:
    """A file that one process at a time has locked: whether it is this one, and its handle."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield try_lock(handle), handle
    finally:
        os.close(handle)


@contextmanager
def _with_advice(advice: str) -> Iterator[None]:
    """Say what to do about a file that cannot be read."""
    try:
        yield
    except DataFileError as error:
        raise DataFileError(f"{error} {advice}") from None
