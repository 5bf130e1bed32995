"""Runs on this machine: worker processes that train one run after the other.

Workers live as long as the sweep, because a process takes seconds to import torch. A worker whose
sweep is gone, killed or not, saves the run it trains and ends.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from eqrm.checks import POSITIVE_INTEGER, check_all, optional
from eqrm.sweeps.engines.base import Engine, RunOutcome

PATIENCE = 60.0
"""Seconds that workers have to save and end before they are killed."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class LocalEngine(Engine):
    """So many worker processes (one per core unless given) with so many threads each.

    The number of threads may change the last bits of results, the number of workers does not.
    """

    def __init__(
        self,
        folder: Path,
        data_root: str | Path | None = None,
        *,
        workers: int | None = None,
        threads: int = 1,
    ) -> None:
        check_all(
            lambda: POSITIVE_INTEGER.check(threads, "threads"),
            lambda: optional(POSITIVE_INTEGER).check(workers, "workers"),
        )
        self._arguments = [str(folder), str(threads), *([str(data_root)] if data_root else [])]
        self._environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
        self._selector = selectors.DefaultSelector()
        self._wanted = workers or max(1, (os.cpu_count() or 1) // threads)
        self._workers: list[_Worker] = []

    @property
    def free(self) -> int:
        """How many workers have nothing to do, those that are not started yet among them."""
        return self._wanted - len(self.running)

    @property
    def running(self) -> list[str]:
        """The runs that workers have."""
        return [worker.run for worker in self._workers if worker.run is not None]

    def submit(self, run: str) -> None:
        """Give a run to a worker that has none; start one where there is none."""
        idle = [worker for worker in self._workers if worker.run is None]
        while idle:
            worker = idle.pop()
            if worker.give(run):
                return
            self._remove(worker)  # it died while it had nothing to do
        self._start().give(run)

    @contextmanager
    def warming_up(self) -> Iterator[None]:
        """Have workers, as many as there are cores, import what they need meanwhile.

        The others are started once it is known how many runs there are.
        """
        while len(self._workers) < min(self._wanted, os.cpu_count() or 1):
            self._start()
        try:
            yield
        except BaseException:
            self.cancel()
            raise

    def _start(self) -> _Worker:
        worker = _Worker(self._arguments, self._environment)
        self._workers.append(worker)
        self._selector.register(worker.reports, selectors.EVENT_READ, worker)
        return worker

    def poll(self, seconds: float) -> list[RunOutcome]:
        """What workers reported, and the runs of those that died."""
        found: list[RunOutcome] = []
        for key, _ in self._selector.select(seconds):
            worker: _Worker = key.data
            line = worker.reports.readline()
            if line:
                found.append(RunOutcome(**json.loads(line)))
                worker.run = None
                continue
            code = self._remove(worker)
            if worker.run is not None:
                how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                found.append(RunOutcome(worker.run, "lost", f"The worker process ended {how}."))
        return found

    def cancel(self) -> None:
        """Ask workers to save and end; a second Ctrl-C, or a minute, kills them."""
        for worker in self._workers:
            worker.close()
            if not worker.used:  # it is still importing, and has nothing to save
                worker.process.kill()
        deadline = time.monotonic() + PATIENCE
        try:
            for worker in self._workers:
                worker.process.wait(max(0.1, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            for worker in self._workers:
                worker.process.kill()
        for worker in list(self._workers):
            self._remove(worker)

    def _remove(self, worker: _Worker) -> int:
        self._selector.unregister(worker.reports)
        self._workers.remove(worker)
        worker.close()
        code = worker.process.wait()
        worker.reports.close()
        return code


class _Worker:
    """A worker process, seen from the sweep."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self.run: str | None = None
        self.used = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eqrm.sweeps.engines.local_worker", *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C in the terminal is for the sweep, which then asks
        )
        self.reports: Any = self.process.stdout

    def give(self, run: str) -> bool:
        """Have a run trained; False if the process is gone."""
        if self.process.stdin is None or self.process.poll() is not None:
            return False
        try:
            self.process.stdin.write(run + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        self.run, self.used = run, True
        return True

    def close(self) -> None:
        """Nothing more is coming: the worker saves what it trains, and ends."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
