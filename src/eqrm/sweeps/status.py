"""How far a sweep is, read from its folder: by any process, while it runs or afterwards."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqrm.errors import Setting
from eqrm.sweeps.sweep_folder import STATES, Failure, State, SweepFolder
from eqrm.text import aligned, counted, duration, listed, printable, shortened

FAILURES_SHOWN, PRUNED_SHOWN = 20, 5
TELL_EVERY = 5.0
"""Seconds between two lines about progress."""


@dataclass(frozen=True)
class SweepStatus:
    """What became of every run of a sweep.

    Attributes:
        runs: as the plan has them, each with its ``state``.
        failures: of the failed runs.
        seconds: what a finished run took on average; None while there is none.
    """

    runs: Sequence[dict[str, Any]]
    failures: Sequence[Failure]
    seconds: float | None

    def count(self, state: State) -> int:
        """How many runs are in a state."""
        return sum(run["state"] == state for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """How long it will take, at the number of runs that are trained now; None if unknown."""
        at_once = self.count("running")
        if self.seconds is None or not at_once:
            return None
        return seconds_left(self.seconds, self.count("waiting"), at_once)

    def line(self) -> str:
        """The whole status in one line."""
        counts = {state: self.count(state) for state in STATES}
        return progress_line(counts, self.seconds_left)

    def to_text(self) -> str:
        """The line, a table by dataset and objective, and why runs failed."""
        pairs = Counter((run["dataset"], run["objective"], run["state"]) for run in self.runs)
        states = [s for s in STATES if s != "pruned" or self.count(s)]
        rows = [["dataset, objective", *states]]
        for dataset, objective in dict.fromkeys((r["dataset"], r["objective"]) for r in self.runs):
            counts = [str(pairs[dataset, objective, state]) for state in states]
            rows.append([f"{dataset}, {objective}", *counts])
        parts = [self.line(), aligned(rows)]
        pruned = [run["run"] for run in self.runs if run["state"] == "pruned"]
        if pruned:
            parts.append(f"Pruned, and not in tables: {listed(pruned, PRUNED_SHOWN)}")
        if self.failures:
            parts.append(failures_in_words(self.failures))
        return "\n\n".join(parts)


def sweep_status(folder: str | Path) -> SweepStatus:
    """The status of the sweep in a folder."""
    files = SweepFolder(folder)
    runs = [{**run, "state": files.state(run["run"])} for run in files.runs()]
    found = [files.failure(run["run"]) for run in runs if run["state"] == "failed"]
    finished = [run["run"] for run in runs if run["state"] == "finished"]
    spans = [span for run in finished if (span := files.span(run)) is not None]
    mean = sum(ended - began for began, ended in spans) / len(spans) if spans else None
    return SweepStatus(runs, [each for each in found if each is not None], mean)


def seconds_left(seconds: float, waiting: int, at_once: int) -> float:
    """The time for runs that take so many seconds each; those that are trained are half done."""
    return seconds * (waiting + 0.5 * at_once) / at_once


def progress_line(counts: Mapping[State, int], left: float | None) -> str:
    """Counts of runs and the time left, in one line.

    >>> progress_line({"finished": 3, "pruned": 0, "failed": 0, "running": 2, "waiting": 5}, 90.0)
    '3 of 10 runs finished, 2 running, 5 waiting, about 2 minutes left'
    """
    total = sum(counts.values())
    finished = f"{counts['finished']:,} of {counted(total, 'run')} finished"
    return ", ".join([finished, *_others(counts, left)])


def _others(counts: Mapping[State, int], left: float | None) -> list[str]:
    """The other states and the time left."""
    others: tuple[State, ...] = ("pruned", "running", "failed", "waiting")
    words = [f"{counts[state]:,} {state}" for state in others if counts[state]]
    if left is not None and counts["running"] + counts["waiting"]:
        words.append(f"about {duration(left)} left")
    return words


def failures_in_words(failures: Sequence[Failure]) -> str:
    """The first failures, a line each, and how to try them again."""
    lines = [f"  {each.run}  {shortened(each.error, 200)}" for each in failures[:FAILURES_SHOWN]]
    if len(failures) > FAILURES_SHOWN:
        lines.append(f"  and {len(failures) - FAILURES_SHOWN:,} more")
    return "\n".join(
        [
            f"{counted(len(failures), 'run')} failed:",
            *lines,
            "What they printed is in runs/HASH/log.txt. To try them again: "
            f"{Setting('retry_failed', True)}.",
        ]
    )


class SweepLines:
    """How far a sweep is, in plain lines: when something has changed, and not too often.

    >>> shown = SweepLines(print)
    >>> counts = {"finished": 3, "pruned": 0, "failed": 0, "running": 2, "waiting": 5}
    >>> shown.show(counts, 90.0)
    3 of 10 runs finished, 2 running, 5 waiting, about 2 minutes left
    >>> shown.show({**counts, "finished": 4, "waiting": 4}, 80.0)  # too early
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        """A line that stays: a run has failed."""
        self._line, self._told = "", -TELL_EVERY

    def show(self, counts: Mapping[State, int], left: float | None) -> None:
        """How many runs are in each state, and the seconds left, None if unknown."""
        line = progress_line(counts, left)
        ended = not counts["running"] and not counts["waiting"]
        due = time.monotonic() - self._told >= TELL_EVERY
        if line != self._line and (due or ended):
            self.tell(line)
            self._line, self._told = line, time.monotonic()


class SweepBar(SweepLines):
    """A bar of rich, with counts and the time left."""

    def __init__(self, bar: Any) -> None:
        super().__init__(
            lambda line: bar.console.print(printable(line), markup=False, highlight=False)
        )
        self._bar, self._task = bar, bar.add_task("", total=None, numbers="")

    def show(self, counts: Mapping[State, int], left: float | None) -> None:
        """Move the bar."""
        ended = counts["finished"] + counts["pruned"] + counts["failed"]
        total, numbers = sum(counts.values()), ", ".join(_others(counts, left))
        self._bar.update(self._task, completed=ended, total=total, numbers=numbers)


@contextmanager
def sweep_shown(tell: Callable[[str], None], console: Any = None) -> Iterator[SweepLines]:
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
