"""Interleaved timing: competitors take turns, so that a busy machine slows all of them equally.

One sample is a burst of calls long enough for the clock; the median of the samples is reported.
Two competitors are compared turn by turn (:meth:`Timing.times`), the median ratio of which does not
change when a machine becomes slower half way. (Up to 2026-11-17 it was the
ratio of two medians, and was changed after a run in which benchmarks/quantile.py gave 2.82
against its bound of 2.8. It does not replace a quiet machine: the new way gave 2.3 to 2.85 on
the same processor.)
Before each burst there is a pause and one call that is not timed: the threads of OpenMP and
OpenBLAS keep spinning for tens of milliseconds after their work is done, which would be charged to
the next competitor. Calls of many times the pause do without, since it makes no difference to them.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import truediv
from typing import Protocol, TypeVar

Action = Callable[[], object]
Clock = Callable[[], float]
T = TypeVar("T")

ATTEMPTS = 3
"""Other programs can spoil a measurement, so one that exceeds a bound is repeated so often."""

LONG_CALL = 10.0
"""Calls of so many pauses are timed without one before them that is not."""


@dataclass(frozen=True)
class Timing:
    """Seconds per call, of every turn."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Over turns."""
        return statistics.median(self.samples)

    @property
    def milliseconds(self) -> float:
        """The median in milliseconds."""
        return 1e3 * self.median

    def times(self, other: Timing) -> float:
        """How many times the time of another competitor this one takes: the median over turns.

        >>> slow, fast = Timing((2.0, 2.0, 9.0)), Timing((1.0, 4.0, 3.0))
        >>> slow.times(fast), slow.median / fast.median
        (2.0, 0.6666666666666666)
        """
        return statistics.median(map(truediv, self.samples, other.samples))


@dataclass(frozen=True)
class Budget:
    """How long to measure: at least ``rounds`` turns each, bursts of ``burst`` seconds."""

    rounds: int = 15
    burst: float = 0.01
    """0 is one call."""
    longest: float = 20.0
    """Seconds a single competitor may take in all; slow ones get fewer turns, but at least 3."""
    pause: float = 0.05
    """Seconds before each burst, in which the threads of the one before come to rest."""


class Bounded(Protocol):
    """A measurement that has bounds."""

    @property
    def passed(self) -> bool:
        """Whether they hold."""
        ...


B = TypeVar("B", bound=Bounded)


def attempts(measure: Callable[[], B]) -> list[B]:
    """Measurements up to the first that keeps its bounds, at most three."""
    made: list[B] = []
    while len(made) < ATTEMPTS and not (made and made[-1].passed):
        made.append(measure())
    return made


def timed(action: Callable[[], T]) -> tuple[T, float, float]:
    """What it returns, and the wall-clock and processor time it took, in seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = action()
    return found, time.perf_counter() - wall, time.process_time() - processor


def _burst(action: Action, calls: int, synchronise: Action | None, clock: Clock) -> float:
    if synchronise is not None:
        synchronise()
    start = clock()
    for _ in range(calls):
        action()
    if synchronise is not None:
        synchronise()
    return (clock() - start) / calls


def _calls_per_burst(
    action: Action, budget: Budget, synchronise: Action | None, clock: Clock
) -> int:
    _burst(action, 1, synchronise, clock)
    if budget.burst == 0.0:
        return 1
    once = min(_burst(action, 1, synchronise, clock) for _ in range(2))
    return max(1, round(budget.burst / max(once, 1e-9)))


def interleaved(
    competitors: Mapping[str, Action],
    budget: Budget | None = None,
    synchronise: Action | None = None,
    clock: Clock = time.perf_counter,
    fewer_rounds: Mapping[str, int] | None = None,
) -> dict[str, Timing]:
    """Time every competitor in turns.

    ``synchronise`` waits for a device whose work is asynchronous (``torch.cuda.synchronize``).
    ``clock`` is the time of the day, or ``time.process_time``: what the processor spent on this
    program, whatever else it does. ``fewer_rounds`` are the turns of competitors that need fewer,
    because nothing close is decided by them; they are among the first.

    >>> timings = interleaved(
    ...     {"sum": lambda: sum(range(100))}, Budget(rounds=3, burst=1e-4, pause=0.0)
    ... )
    >>> len(timings["sum"].samples)
    3
    """
    budget = budget or Budget()
    rounds = {**dict.fromkeys(competitors, budget.rounds), **(fewer_rounds or {})}
    calls = {
        name: _calls_per_burst(a, budget, synchronise, clock) for name, a in competitors.items()
    }
    samples: dict[str, list[float]] = {name: [] for name in competitors}
    spent = dict.fromkeys(competitors, 0.0)
    collecting = gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()  # what was there before is not looked through again in every round
    try:
        for turn in range(budget.rounds):
            for name, action in competitors.items():
                if turn >= rounds[name] or (turn >= 3 and spent[name] > budget.longest):
                    continue
                if budget.pause > 0.0:
                    time.sleep(budget.pause)
                start = clock()
                if budget.pause > 0.0 and (
                    not samples[name] or samples[name][-1] < LONG_CALL * budget.pause
                ):
                    action()
                samples[name].append(_burst(action, calls[name], synchronise, clock))
                spent[name] += clock() - start
            gc.collect()
    finally:
        gc.unfreeze()
        if collecting:
            gc.enable()
    return {name: Timing(tuple(each)) for name, each in samples.items()}
