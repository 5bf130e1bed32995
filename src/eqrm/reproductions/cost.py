"""What a run costs: wall-clock time and memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Cost:
    """``seconds`` of wall-clock time and of all cores, and the largest memory of the process."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_megabytes: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.seconds:.1f} s wall clock, {self.cpu_seconds:.1f} s of processor time, "
            f"{self.peak_megabytes:.0f} MB at most (all of the process)"
        )


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure a block; the numbers are there when it has ended.

    >>> with measured() as cost:
    ...     total = sum(range(1000))
    >>> cost.peak_megabytes > 1
    True
    """
    cost = Cost()
    wall, processor = time.perf_counter(), time.process_time()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - wall
        cost.cpu_seconds = time.process_time() - processor
        cost.peak_megabytes = peak_megabytes()


def peak_megabytes() -> float:
    """The largest resident memory this process has had; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
