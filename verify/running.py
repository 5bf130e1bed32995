"""How checks run: each in a process of its own, side by side unless it measures time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from verify.registry import ROOT, THREADS, Check, Options, Result, package_environment

LONGEST = 2 * 3600.0
"""Seconds after which a check counts as hung and is ended, unless it is a long one. A million
fuzzed vectors take 11 minutes of a quiet core, and 70 of a busy one."""

UNKNOWN_COST = 600.0
"""Seconds of a check that was never recorded: it may be long, so it begins early."""

MANY_OTHERS = 0.5
"""Other running processes from which on a record of a check that measures time says so."""

Record = dict[str, Any]


def run_here(check: Check, options: Options) -> Record:
    """Run one check in this process; its record."""
    start = time.perf_counter()
    try:
        result = check.run(options)
    except Exception as error:  # noqa: BLE001 - the record says what happened
        details: dict[str, object] = {"trace": traceback.format_exc()}
        result = Result("FAIL", f"{type(error).__name__}: {error}", details)
    return _record(check, result, time.perf_counter() - start)


def _record(check: Check, result: Result, seconds: float) -> Record:
    return {
        "check": check.name,
        "title": check.title,
        "status": result.status,
        "summary": result.summary.replace(f"{ROOT}{os.sep}", ""),
        "seconds": seconds,
        "details": result.details,
    }


def others_running() -> float:
    """How many other processes wanted a processor during the last second; 0 where that is unknown.

    The load average would still count the checks that ended a moment ago.
    """
    counts = []
    for _ in range(20):
        try:
            running = Path("/proc/loadavg").read_text(encoding="utf-8").split()[3].split("/")[0]
        except OSError:
            return 0.0
        counts.append(max(0, int(running) - 1))
        time.sleep(0.05)
    return sum(counts) / len(counts)


class Processes:
    """Runs checks in processes of their own and ends those that are left when it is left."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.running: set[int] = set()

    def run(self, check: Check, workers: int) -> Record:
        """Run one check; its record, with the processor time of all that it started."""
        path = self.options.output / f"{check.name}.record.json"
        path.unlink(missing_ok=True)
        command = [sys.executable, str(ROOT / "verify" / "run.py"), "--here", check.name]
        command += ["--module", check.run.__module__]  # the others need not be imported again
        command += ["--workers", str(workers), "--json", str(path)]
        command += ["--clean-clone"] if self.options.clean_clone else []
        busy = others_running() if check.alone else 0.0
        start = time.perf_counter()
        with (self.options.output / f"{check.name}.out").open("w") as stream:
            process = subprocess.Popen(
                command,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment(check, workers),
            )
        self.running.add(process.pid)
        clock = threading.Timer(LONGEST, self._end, [process.pid])
        if not check.long:
            clock.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        finally:
            clock.cancel()  # an interrupted run would end only with it
        self.running.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        if path.exists():
            (record,) = json.loads(path.read_text(encoding="utf-8"))
            path.unlink()
        else:
            ending = f"the process of this check ended with {process.returncode}; see {stream.name}"
            record = _record(check, Result("FAIL", ending), seconds)
        if busy > MANY_OTHERS:
            record["summary"] += f"; times need a quiet machine, and {busy:.1f} others were running"
        earlier = record["details"].get("earlier_processor_seconds", 0.0)  # of a run that went on
        return {**record, "processor_seconds": used.ru_utime + used.ru_stime + earlier}

    def _environment(self, check: Check, workers: int) -> dict[str, str]:
        if check.alone:
            return package_environment()
        return package_environment(OMP_NUM_THREADS=str(workers), **{THREADS: str(workers)})

    def _end(self, process: int) -> None:
        os.killpg(process, signal.SIGKILL)

    def end_all(self) -> None:
        """End the checks that are still running, and what they started."""
        for process in list(self.running):
            self._end(process)


def run_all(
    checks: list[Check], options: Options, costs: dict[str, float], tell: Callable[[Record], None]
) -> None:
    """Run checks side by side, the costly ones first; then those that need the machine alone.

    Those that mostly wait run one after the other beside the ones that use the processors.
    ``costs`` are seconds of processor time where known. ``tell`` is called for each that ends.
    """
    processes = Processes(options)
    together = [check for check in checks if not check.alone]
    together.sort(key=lambda check: -costs.get(check.name, UNKNOWN_COST))
    waiting = [check for check in together if check.waits]
    together = [check for check in together if not check.waits]
    lanes = max(1, min(options.workers, len(together)))

    def run(check: Check, workers: int) -> None:
        tell(processes.run(check, workers))

    try:
        with ThreadPoolExecutor(1) as beside, ThreadPoolExecutor(lanes) as pool:
            try:
                waited = beside.map(lambda each: run(each, 1), waiting)
                for _ in pool.map(lambda each: run(each, options.workers // lanes), together):
                    pass
                for _ in waited:
                    pass
            except BaseException:
                beside.shutdown(wait=False, cancel_futures=True)
                pool.shutdown(wait=False, cancel_futures=True)
                processes.end_all()
                raise
        for check in checks:
            if check.alone:
                run(check, options.workers)
    finally:
        processes.end_all()
