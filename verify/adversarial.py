"""Fuzzed inputs, kills and other faults at full size."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import torch
from verify.registry import Options, Result, check, package_environment, passed, run_program

from adversarial.risk_vectors import ROWS, Report, batch_of, judged

VECTORS = 1_000_000
BATCHES_AT_ONCE = 100
FIRST_OF_MORE = VECTORS
"""``make fuzz`` goes on where ``make verify`` ends: a seed is a batch."""


def _judged(first: int) -> Report:
    torch.set_num_threads(1)
    report = Report()
    for seed in range(first, first + BATCHES_AT_ONCE):
        report.add(judged(batch_of(seed)))
    return report


def _reports(workers: int, minutes: float) -> Iterator[Report]:
    """Of a million vectors, or of as many as some minutes are enough for."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        if not minutes:
            yield from pool.map(_judged, range(0, -(-VECTORS // ROWS), BATCHES_AT_ONCE))
            return
        end, first = time.monotonic() + 60.0 * minutes, FIRST_OF_MORE
        while time.monotonic() < end:
            starts = [first + BATCHES_AT_ONCE * each for each in range(workers)]
            yield from pool.map(_judged, starts)
            first = starts[-1] + BATCHES_AT_ONCE


@check(
    "adversarial.risk-vectors",
    "fuzzed risk vectors: finite or refused, right dtype, monotone, the same on every code path",
)
def risk_vectors(options: Options) -> Result:
    minutes = float(os.environ.get("EQRM_FUZZ_MINUTES", "0"))
    report = Report()
    for found in _reports(options.workers, minutes):
        report.add(found)
    enough = report.vectors >= VECTORS or minutes > 0.0
    return passed(enough and not report.problems, str(report), problems=report.problems[:100])


KILLS = {"training": 300, "sweeps": 200, "watches": 300, "reports": 250}
"""How many processes of each kind are killed at least."""


@check(
    "adversarial.kills",
    "1,000 times kill -9: nothing lost, nothing half-written read, old outputs or whole new ones",
)
def kills(options: Options) -> Result:
    def killed(area: str) -> dict[str, int]:
        command = [sys.executable, "-m", "adversarial.kills", area, str(KILLS[area]), "1"]
        environment = package_environment(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        finished = run_program(options, f"kills-{area}", command, environment)
        if finished.code:
            raise RuntimeError(f"{area}: {finished.last_lines()}; see {finished.log}")
        found: dict[str, int] = json.loads(finished.log.read_text().splitlines()[-1])
        return found

    with ThreadPoolExecutor(options.workers) as pool:
        seen = dict(zip(KILLS, pool.map(killed, KILLS), strict=True))
    total = sum(each["kills"] for each in seen.values())
    told = "; ".join(
        f"{area} {each['kills']:,}, {each['while_writing']} of them while a file was written"
        for area, each in seen.items()
    )
    enough = all(each["kills"] >= KILLS[area] for area, each in seen.items())
    return passed(enough and total >= 1_000, f"{total:,} kills: {told}", **seen)
