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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch

from eqrm.sweeps.execution import execute_run
from eqrm.sweeps.sweep_folder import SweepFolder

LOG = "log.txt"


def main() -> None:
    """Train runs until there are no more."""
    folder, threads, *root = sys.argv[1:]
    torch.set_num_threads(int(threads))
    signal.signal(signal.SIGTERM, _end)
    reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    runs: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_listen, args=(runs,), daemon=True).start()
    sweep = SweepFolder(Path(folder))
    while (run := runs.get()) is not None:
        with _printed_to(sweep.of_run(run) / LOG):
            outcome = execute_run(sweep, run, root[0] if root else None, print)
        reports.write(json.dumps(asdict(outcome)) + "\n")
        reports.flush()
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


if __name__ == "__main__":
    main()
