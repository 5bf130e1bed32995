"""Judges many fuzzed risk vectors in several processes, and prints the count and what is wrong.

    PYTHONPATH=src:tests python -m adversarial.fuzzing --workers 16 --count 1000000 --json FILE

Needs what ``import eqrm`` needs for distributions (numpy, scipy, torch, lazy_loader) and the C part
(``python hatch_build.py``). A run that was stopped goes on where FILE says it was; ``make verify``
takes such a file from verify-output/risk-vectors.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from adversarial.judged_vectors import Report, judged
from adversarial.risk_vectors import ROWS, batch_of
from eqrm.distributions.kde import native

ROOT = Path(__file__).resolve().parents[2]
VECTORS = 1_000_000
BATCHES_AT_ONCE = 10
FIRST_OF_MORE = VECTORS
"""``make fuzz`` goes on where ``make verify`` ends: a seed is a batch."""


def _judged(first: int) -> tuple[Report, float]:
    """The report of some batches, and the seconds of a processor that it took."""
    torch.set_num_threads(1)
    start, report = time.process_time(), Report()
    for seed in range(first, first + BATCHES_AT_ONCE):
        report.add(judged(batch_of(seed)))
    return report, time.process_time() - start


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def judged_for(minutes: float, workers: int) -> Report:
    """Of as many vectors as some minutes are enough for."""
    end, first, report = time.monotonic() + 60.0 * minutes, FIRST_OF_MORE, Report()
    with _pool(workers) as pool:
        while time.monotonic() < end:
            starts = [first + BATCHES_AT_ONCE * each for each in range(workers)]
            for found, _ in pool.map(_judged, starts):
                report.add(found)
            first = starts[-1] + BATCHES_AT_ONCE
    return report


class Progress:
    """What was found so far, kept in a file so that a run that was stopped goes on."""

    def __init__(self, path: Path, first: int = 0) -> None:
        self.path, self.report, self.next, self.processor_seconds = path, Report(), first, 0.0
        self.digest = _digest_of_sources(first)
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["digest"] == self.digest:  # else another version found it
                outcomes = Counter(found["outcomes"])
                self.report = Report(found["vectors"], outcomes, found["problems"])
                self.next, self.processor_seconds = found["next"], found["processor_seconds"]

    def go_on(self, vectors: int, workers: int) -> Iterator[Report]:
        """Judge what is missing to so many vectors; the report of each part."""
        missing = max(0, vectors - self.report.vectors)
        last = self.next + -(-missing // ROWS)
        with _pool(workers) as pool:
            for report, seconds in pool.map(_judged, range(self.next, last, BATCHES_AT_ONCE)):
                self.report.add(report)
                self.next += BATCHES_AT_ONCE
                self.processor_seconds += seconds
                self._keep()
                yield report

    def _keep(self) -> None:
        content = {"digest": self.digest, "next": self.next, **vars(self.report)}
        content["processor_seconds"] = self.processor_seconds
        self.path.write_text(json.dumps(content), encoding="utf-8")


def _digest_of_sources(first: int) -> str:
    """Of all that decides what is found, but for kernels of a GPU."""
    tests = ROOT / "tests" / "adversarial"
    sources = [tests / f"{name}.py" for name in ("risk_vectors", "roads", "judged_vectors")]
    sources += sorted((ROOT / "src" / "eqrm" / "distributions").rglob("*.[pch]*"))
    digest = hashlib.sha256(str(first).encode())
    for source in sources:
        if source.suffix in (".py", ".c", ".h") and not source.name.startswith("triton_"):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m adversarial.fuzzing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument(
        "--count", type=int, default=VECTORS, help=f"vectors to judge (default: {VECTORS})"
    )
    parser.add_argument(
        "--first", type=int, default=0, help=f"first seed, of {ROWS} vectors each (default: 0)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("risk-vectors.json"),
        help="file for what was found so far (default: risk-vectors.json)",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str], tell: Callable[[str], None] = print) -> int:
    """Judge the vectors that the command line asks for; 1 if anything is wrong with them."""
    given = _parse(arguments)
    if native.LIBRARY is None:
        tell("The C part is not built, so there is nothing to compare: run python hatch_build.py.")
        return 2
    progress, told = Progress(given.json, given.first), 0
    start = time.monotonic()
    for part in progress.go_on(given.count, given.workers):
        for problem in part.problems:
            tell(f"PROBLEM {problem}")
        if progress.report.vectors - told >= given.count // 20:
            told = progress.report.vectors
            tell(f"{told:,} vectors after {time.monotonic() - start:.0f} s")
    tell(f"{progress.report} ({progress.processor_seconds:.0f} s of processors)")
    return 1 if progress.report.problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
