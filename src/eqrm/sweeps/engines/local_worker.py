"""A worker process of the local engine.

It reads the hash of a run per line, trains the run, and answers with a line of JSON. When its
input ends, because the sweep is done, was stopped or was killed, it saves what it trains and ends.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from eqrm.sweeps.engines.job import logged_run
from eqrm.sweeps.sweep_folder import SweepFolder


def main() -> None:
    """The worker that the arguments describe."""
    folder, threads, *root = sys.argv[1:]
    work(folder, int(threads), root[0] if root else None)


def work(folder: str, threads: int, data_root: str | None) -> None:
    """Train runs until there are no more."""
    signal.signal(signal.SIGTERM, _end)
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    runs: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_listen, args=(runs,), daemon=True).start()
    sweep = SweepFolder(Path(folder))
    while (run := runs.get()) is not None:
        outcome = logged_run(sweep, run, data_root, threads)
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


def _end(number: int, frame: object) -> None:
    """SIGTERM while nothing is trained; training has a handler of its own, which saves first."""
    sys.exit(0)


if __name__ == "__main__":
    main()
