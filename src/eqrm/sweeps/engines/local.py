"""Runs on this machine: worker processes that train one run after the other.

Workers live as long as the sweep, because a process takes seconds to import torch. A worker reads
the hash of a run per line, trains the run, and answers with a line of JSON. When its input ends,
because the sweep is done, was stopped or was killed, it saves the run it trains and ends.
"""

from __future__ import annotations

import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eqrm.checks import check_fields
from eqrm.sweeps.engines.base import THREADS, Engine, RunOutcome

PATIENCE = 60.0
"""Seconds that workers have to save and end before they are killed."""
PATIENCE_WITH_KILLED = 5.0
"""Seconds that the system has to end those that are killed."""


@dataclass(eq=False)
class LocalEngine(Engine):
    """So many worker processes (one per core unless given) with so many threads each.

    The number of threads may change the last bits of results, the number of workers does not.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        root = [str(self.data_root)] if self.data_root else []
        self._arguments = [str(self.folder), str(self.threads), *root]
        self._environment = {**os.environ, **dict.fromkeys(THREADS, str(self.threads))}
        self._selector = selectors.DefaultSelector()
        self._wanted = self.workers or max(1, (os.cpu_count() or 1) // self.threads)
        self._workers: list[_Worker] = []

    @property
    def free(self) -> int:
        """How many workers have nothing to do, those that are not started yet among them."""
        return self._wanted - len(self.running)

    @property
    def running(self) -> list[str]:
        return [worker.run for worker in self._workers if worker.run is not None]

    def submit(self, run: str) -> None:
        for worker in [each for each in self._workers if each.run is None]:
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
            found += worker.hear()
            if worker.ended:
                self._remove(worker)
                if worker.run is not None:
                    code = worker.process.wait()
                    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                    found.append(RunOutcome(worker.run, "lost", f"The worker process ended {how}."))
        return found

    def cancel(self) -> None:
        """Ask workers to save and end; a second Ctrl-C, or a minute, kills them."""
        for worker in self._workers:
            worker.close()
            if not worker.used:  # it may still be importing, and has nothing to save
                worker.process.kill()
        with suppress(KeyboardInterrupt):
            self._await_ends(PATIENCE)
        for worker in self._workers:
            worker.process.kill()
        self._await_ends(PATIENCE_WITH_KILLED)
        for worker in list(self._workers):
            self._remove(worker)

    def _await_ends(self, seconds: float) -> None:
        """Until all workers have ended, but not longer."""
        deadline = time.monotonic() + seconds
        while self._workers and (left := deadline - time.monotonic()) > 0.0:
            self.poll(left)

    def _remove(self, worker: _Worker) -> None:
        self._selector.unregister(worker.reports)
        self._workers.remove(worker)
        worker.close()
        worker.reports.close()
        worker.process.wait()


class _Worker:
    """A worker process, seen from the sweep."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self.run: str | None = None
        self.used = self.ended = False
        self._rest = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments],
            bufsize=0,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is for the sweep, which then asks
        )
        pipes: Any = self.process.stdin, self.process.stdout
        self._runs, self.reports = pipes

    def give(self, run: str) -> bool:
        """Have a run trained; False if the process is gone."""
        try:
            self._runs.write(f"{run}\n".encode())
        except BrokenPipeError:
            return False
        self.run, self.used = run, True
        return True

    def hear(self) -> list[RunOutcome]:
        """How runs ended, once there is something to read, which may be that it has ended."""
        read = self.reports.read(1 << 16)
        self.ended = not read
        *lines, self._rest = (self._rest + read).split(b"\n")
        found = [RunOutcome(**json.loads(line)) for line in lines]
        self.run = None if found else self.run
        return found

    def close(self) -> None:
        """Nothing more is coming: the worker saves what it trains, and ends."""
        self._runs.close()


def work(folder: str, threads: str, data_root: str | None = None) -> None:
    """What a worker does: train runs until there are no more."""
    from eqrm.sweeps.execution import logged_run
    from eqrm.sweeps.sweep_folder import SweepFolder

    # While nothing is trained; training has a handler of its own, which saves first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing but reports
    runs: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_listen, args=(runs,), daemon=True).start()
    sweep = SweepFolder(Path(folder))
    while (run := runs.get()) is not None:
        outcome = logged_run(sweep, run, data_root, int(threads))
        try:
            reports.write(json.dumps(asdict(outcome)) + "\n")
            reports.flush()
        except BrokenPipeError:  # the sweep was killed, and the folder says how the run ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), reports.fileno())  # for what is buffered
            break
        if outcome.ending == "stopped":
            break


def _listen(runs: queue.Queue[str | None]) -> None:
    """Pass runs on; at the end of the input, stop what is being trained after its step."""
    for line in sys.stdin:
        runs.put(line.strip())
    runs.put(None)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    work(*sys.argv[1:])
