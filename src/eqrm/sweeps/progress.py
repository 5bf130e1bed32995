"""What a user sees while a sweep runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from eqrm.sweeps.status import progress_line
from eqrm.sweeps.sweep_folder import State
from eqrm.text import duration, printable

TELL_EVERY = 5.0
"""Seconds between two lines about progress."""


class SweepShown(ABC):
    """Shows how far a sweep is."""

    @abstractmethod
    def tell(self, line: str) -> None:
        """A line that stays: a run has failed."""

    @abstractmethod
    def show(self, counts: Mapping[State, int], left: float | None) -> None:
        """How many runs are in each state, and the seconds left, None if unknown."""


class SweepLines(SweepShown):
    """A plain line when something has changed, and not too often: for files and pipes.

    >>> shown = SweepLines(print)
    >>> counts = {"finished": 3, "pruned": 0, "failed": 0, "running": 2, "waiting": 5}
    >>> shown.show(counts, 90.0)
    3 of 10 runs finished, 2 running, 5 waiting, about 2 minutes left
    >>> shown.show({**counts, "finished": 4, "waiting": 4}, 80.0)  # too early
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._line, self._told = "", -TELL_EVERY

    def tell(self, line: str) -> None:
        """A line that stays."""
        self._tell(line)

    def show(self, counts: Mapping[State, int], left: float | None) -> None:
        """A line, if it is time for one or the sweep has ended."""
        line = progress_line(counts, left)
        ended = not counts["running"] and not counts["waiting"]
        due = time.monotonic() - self._told >= TELL_EVERY
        if line != self._line and (due or ended):
            self._tell(line)
            self._line, self._told = line, time.monotonic()


class SweepBar(SweepShown):
    """A bar of rich, with counts and the time left."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._task = bar, bar.add_task("", total=None, numbers="")

    def tell(self, line: str) -> None:
        """A line above the bar."""
        self._bar.console.print(printable(line), markup=False, highlight=False)

    def show(self, counts: Mapping[State, int], left: float | None) -> None:
        """Move the bar."""
        ended = counts["finished"] + counts["pruned"] + counts["failed"]
        words = [
            f"{counts[state]:,} {state}"
            for state in ("pruned", "running", "failed", "waiting")
            if counts[state]
        ]
        if left is not None and counts["running"] + counts["waiting"]:
            words.append(f"about {duration(left)} left")
        total = sum(counts.values())
        self._bar.update(self._task, completed=ended, total=total, numbers=", ".join(words))


@contextmanager
def sweep_shown(tell: Callable[[str], None], console: Any = None) -> Iterator[SweepShown]:
    """A bar where standard error is a terminal, else lines passed to ``tell``.

    ``console`` is rich's, of standard error unless given.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed

    to = console or Console(stderr=True)
    if not to.is_terminal:
        yield SweepLines(tell)
        return
    numbers = TextColumn("{task.fields[numbers]}", markup=False)
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), Elapsed(), numbers)
    with Progress(*columns, console=to) as bar:
        yield SweepBar(bar)
