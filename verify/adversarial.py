"""Fuzzed inputs, kills and other faults at full size."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from verify.registry import ROOT, Options, Result, check, package_environment, passed, run_program

from adversarial.risk_vectors import ROWS, Report, batch_of, judged
from adversarial.thread_counts import BOUNDS, difference

VECTORS = 1_000_000
BATCHES_AT_ONCE = 50
FIRST_OF_MORE = VECTORS
"""``make fuzz`` goes on where ``make verify`` ends: a seed is a batch."""


def _judged(first: int) -> Report:
    torch.set_num_threads(1)
    report = Report()
    for seed in range(first, first + BATCHES_AT_ONCE):
        report.add(judged(batch_of(seed)))
    return report


class Progress:
    """What was found so far of a million vectors, so that a run that was stopped goes on."""

    def __init__(self, path: Path) -> None:
        self.path, self.report, self.next = path, Report(), 0
        sources = [ROOT / "tests" / "adversarial" / "risk_vectors.py"]
        sources += sorted((ROOT / "src" / "eqrm" / "distributions").rglob("*.[pc]*"))
        digest = hashlib.sha256()
        for source in sources:
            if source.suffix in (".py", ".c") and not source.name.startswith("triton_"):
                digest.update(source.read_bytes())
        self.digest = digest.hexdigest()
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["digest"] == self.digest:  # else another version found it
                outcomes = Counter(found["outcomes"])
                self.report = Report(found["vectors"], outcomes, found["problems"])
                self.next = found["next"]

    def add(self, report: Report) -> None:
        """Count the next batches in, and keep the state."""
        self.report.add(report)
        self.next += BATCHES_AT_ONCE
        content = {"digest": self.digest, "next": self.next, **vars(self.report)}
        self.path.write_text(json.dumps(content), encoding="utf-8")


def _more(pool: ProcessPoolExecutor, workers: int, minutes: float) -> Iterator[Report]:
    """Of as many vectors as some minutes are enough for."""
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
    progress, more = Progress(options.output / "risk-vectors.json"), Report()
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        if minutes:
            for found in _more(pool, options.workers, minutes):
                more.add(found)
            return passed(not more.problems, str(more), problems=more.problems[:100])
        for found in pool.map(_judged, range(progress.next, -(-VECTORS // ROWS), BATCHES_AT_ONCE)):
            progress.add(found)
    report = progress.report
    progress.path.unlink(missing_ok=True)
    enough = report.vectors >= VECTORS
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


@check(
    "adversarial.leaks",
    "10,000 steps with constant memory, 500 evaluations without an open file left",
)
def leaks(options: Options) -> Result:
    finished = run_program(
        options, "leaks", [sys.executable, "-m", "adversarial.leaks", "10000", "500"]
    )
    if finished.code:
        raise RuntimeError(f"{finished.last_lines()}; see {finished.log}")
    found = json.loads(finished.log.read_text().splitlines()[-1])
    told = "; ".join(
        f"{each['done']:,} {name}: memory grown by {each['grown']:.1f} MB (bound {MEGABYTES}) of "
        f"{each['megabytes_early']:.0f}, open files {each['files_before']} before and "
        f"{each['files_after']} after, threads {each['threads_before']} and "
        f"{each['threads_after']}"
        for name, each in found.items()
    )
    holds = all(
        each["grown"] <= MEGABYTES
        and each["files_after"] <= each["files_before"]
        and each["threads_after"] <= each["threads_before"]
        for each in found.values()
    )
    return passed(holds, told, **found)


MEGABYTES = 10
"""By which memory may grow after the first quarter of the work."""
THREADS = (1, 2, 4)
REPEATED = set(BOUNDS) - {"evaluation"}
"""The same bits for the same number of threads; DuckDB adds in the order in which threads end."""


@check("adversarial.thread-counts", "the same results for 1, 2 and 4 threads, and repeated")
def thread_counts(options: Options) -> Result:
    with tempfile.TemporaryDirectory(prefix="eqrm-threads-") as temporary:
        folders = []
        for threads in (*THREADS, THREADS[-1]):
            folders.append(Path(temporary) / str(len(folders)))
            command = [sys.executable, "-m", "adversarial.thread_counts", str(folders[-1])]
            number = str(threads)
            environment = package_environment(OMP_NUM_THREADS=number, MKL_NUM_THREADS=number)
            finished = run_program(options, "thread-counts", command, environment)
            if finished.code:
                raise RuntimeError(f"{finished.last_lines()}; see {finished.log}")
        one, *others = folders
        worst = {name: max(difference(one, each, name) for each in others) for name in BOUNDS}
        again = {name: difference(others[-2], others[-1], name) for name in BOUNDS}
    counts = ", ".join(map(str, THREADS))
    same = [name for name in BOUNDS if worst[name] == 0.0]
    rounded = [name for name in BOUNDS if worst[name] > 0.0 and math.isfinite(BOUNDS[name])]
    free = [name for name in BOUNDS if math.isinf(BOUNDS[name]) and worst[name] > 0.0]
    moved = [name for name in BOUNDS if again[name] > 0.0]
    told = [f"the same bits for {counts} threads: {', '.join(same) or 'none'}"]
    told += [f"{name} the same to {worst[name]:.0e} (bound {BOUNDS[name]:.0e})" for name in rounded]
    told += [f"{name} not the same ({worst[name]:.0e}), and not promised" for name in free]
    told += [f"repeated with {THREADS[-1]} threads, other bits: {', '.join(moved) or 'none'}"]
    holds = all(worst[name] <= BOUNDS[name] for name in BOUNDS) and not set(moved) & REPEATED
    return passed(holds, "; ".join(told), worst=worst, repeated=again)
