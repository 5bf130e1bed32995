"""Runs on this machine: worker processes that train one run after the other.

Workers live as long as the sweep, because a process takes seconds to import torch. On Linux one
process imports it and forks into the workers (:mod:`eqrm.sweeps.engines.local_starter`); elsewhere
forks are not safe, and each worker imports it. A worker whose sweep is gone, killed or not, saves
the run it trains and ends.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eqrm.checks import POSITIVE_INTEGER, check_all, optional
from eqrm.sweeps.engines.base import Engine, RunOutcome

PATIENCE = 60.0
"""Seconds that workers have to save and end before they are killed."""
PATIENCE_WITH_KILLED = 5.0
"""Seconds that the system has to end those that are killed."""
FORKS = sys.platform == "linux"
"""Whether workers are forks of one process."""
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
        self._starter: _Starter | None = None

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
        worker = _Worker(self._begin)
        self._workers.append(worker)
        self._selector.register(worker.reports, selectors.EVENT_READ, worker)
        return worker

    def _begin(self, given: int, answers: int) -> subprocess.Popen[bytes]:
        """Begin a worker with this input and output: its process, or that which it is forked of."""
        if not FORKS:
            return _begun("local_worker", self._arguments, self._environment, given, answers)
        if self._starter is None or not self._starter.fork(given, answers):
            self._end_starter()  # it was killed
            self._starter = _Starter(self._arguments, self._environment)
            self._starter.fork(given, answers)
        return self._starter.process

    def poll(self, seconds: float) -> list[RunOutcome]:
        """What workers reported, and the runs of those that died."""
        found: list[RunOutcome] = []
        for key, _ in self._selector.select(seconds):
            worker: _Worker = key.data
            found += worker.hear()
            if worker.ended:
                self._remove(worker)
                if worker.run is not None:
                    code = worker.exit_code()
                    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
                    found.append(RunOutcome(worker.run, "lost", f"The worker process ended {how}."))
        return found

    def cancel(self) -> None:
        """Ask workers to save and end; a second Ctrl-C, or a minute, kills them."""
        used = [worker for worker in self._workers if worker.used]
        for worker in list(self._workers):
            worker.close()
            if not worker.used:  # it may still be importing, and has nothing to save
                worker.kill()
        if not used:
            self._end_starter()
        with suppress(KeyboardInterrupt):
            self._await_ends(PATIENCE)
        for worker in self._workers:
            worker.kill()
        self._await_ends(PATIENCE_WITH_KILLED)
        for worker in list(self._workers):
            self._remove(worker)
        self._end_starter()

    def _await_ends(self, seconds: float) -> None:
        """Until all workers have ended, but not longer."""
        deadline = time.monotonic() + seconds
        while self._workers and (left := deadline - time.monotonic()) > 0.0:
            self.poll(left)

    def _end_starter(self) -> None:
        if self._starter is not None:
            self._starter.end()
            self._starter = None

    def _remove(self, worker: _Worker) -> None:
        self._selector.unregister(worker.reports)
        self._workers.remove(worker)
        worker.release()


def _begun(
    module: str,
    arguments: list[str],
    environment: dict[str, str],
    given: int,
    answers: int,
    passed: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """A process of a module beside this one."""
    return subprocess.Popen(
        [sys.executable, "-m", f"eqrm.sweeps.engines.{module}", *arguments],
        env=environment,
        stdin=given,
        stdout=answers,
        pass_fds=passed,
        start_new_session=True,  # Ctrl-C in the terminal is for the sweep, which then asks
    )


class _Starter:
    """The process that forks into workers, seen from the sweep."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self._messages, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            place = theirs.fileno()
            nothing = subprocess.DEVNULL
            given = [str(place), *arguments]
            self.process = _begun("local_starter", given, environment, nothing, nothing, (place,))

    def fork(self, given: int, answers: int) -> bool:
        """Have it fork into a worker with this input and output; False if it is gone."""
        try:
            socket.send_fds(self._messages, [b"w"], [given, answers])
        except OSError:
            return False
        return True

    def end(self) -> None:
        """End it; its workers live on."""
        self._messages.close()
        self.process.kill()
        self.process.wait()


class _Worker:
    """A worker process, seen from the sweep."""

    def __init__(self, begin: Callable[[int, int], subprocess.Popen[bytes]]) -> None:
        self.run: str | None = None
        self.used = self.ended = False
        self._code: int | None = None
        self._rest = b""
        given, runs = os.pipe()
        self.reports, answers = os.pipe()
        self._runs = os.fdopen(runs, "w", encoding="utf-8")
        try:
            self._begun = begin(given, answers)
        finally:
            os.close(given)
            os.close(answers)
        self._process = None if FORKS else self._begun.pid

    def give(self, run: str) -> bool:
        """Have a run trained; False if the process is gone."""
        try:
            self._runs.write(run + "\n")
            self._runs.flush()
        except BrokenPipeError:
            return False
        self.run, self.used = run, True
        return True

    def hear(self) -> list[RunOutcome]:
        """What it reported, once there is something: how runs ended, or that it has ended."""
        read = os.read(self.reports, 1 << 16)
        self.ended = not read
        *lines, self._rest = (self._rest + read).split(b"\n")
        found = []
        for line in lines:
            try:
                said = json.loads(line)
            except ValueError:  # it was killed while it wrote
                continue
            if "run" in said:
                found.append(RunOutcome(**said))
                self.run = None
            self._process = said.get("process", self._process)
            self._code = said.get("code", self._code)
        return found

    def exit_code(self) -> int:
        """How the process ended; that which it was forked of, where that was gone before."""
        return self._begun.wait() if self._code is None else self._code

    def close(self) -> None:
        """Nothing more is coming: the worker saves what it trains, and ends."""
        with suppress(BrokenPipeError):
            self._runs.close()

    def kill(self) -> None:
        """End the process at once, if it is known."""
        if self._process is not None and not self.ended:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)

    def release(self) -> None:
        """Keep nothing of it."""
        self.close()
        os.close(self.reports)
        if not FORKS:
            self._begun.wait()
