"""Judges many fuzzed risk vectors in several processes.

    PYTHONPATH=src:tests python -m adversarial.fuzzing 100000

Needs what ``import eqrm`` needs for distributions (numpy, scipy, torch, lazy_loader) and the C part
(``python hatch_build.py``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import takewhile
from multiprocessing import get_context

import torch

from adversarial.judged_vectors import Report, judged
from adversarial.risk_vectors import ROWS, batch_of

VECTORS = 1_000_000
BATCHES_AT_ONCE = 10


def _judged(first: int) -> Report:
    torch.set_num_threads(1)
    report = Report()
    for seed in range(first, first + BATCHES_AT_ONCE):
        report.add(judged(batch_of(seed)))
    return report


def _of(starts: Iterable[int], workers: int) -> Report:
    report = Report()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for found in pool.map(_judged, starts):
            report.add(found)
    return report


def judged_vectors(vectors: int, workers: int) -> Report:
    """Of the first vectors: a seed is a batch."""
    return _of(range(0, -(-vectors // ROWS), BATCHES_AT_ONCE), workers)


def judged_for(minutes: float, workers: int) -> Report:
    """Of as many vectors as some minutes are enough for; begins where ``make verify`` ends."""
    end, report = time.monotonic() + 60.0 * minutes, Report()
    part = BATCHES_AT_ONCE * workers
    for first in takewhile(lambda _: time.monotonic() < end, range(VECTORS, 2**62, part)):
        report.add(_of(range(first, first + part, BATCHES_AT_ONCE), workers))
    return report


if __name__ == "__main__":
    found = judged_vectors(int(sys.argv[1]), workers=2)
    print(found, *found.problems, sep="\n")
