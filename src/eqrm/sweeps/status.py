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
from eqrm.text import aligned, counted, duration, printable, shortened

FAILURES_SHOWN = 20
TELL_EVERY = 5.0
"""Seconds between two lines about progress."""


@dataclass(frozen=True)
class SweepStatus:
    """What became of every run of a sweep; ``runs`` are as the plan has them, with a ``state``."""

    runs: Sequence[dict[str, Any]]
    failures: Sequence[Failure]

    def line(self) -> str:
        """The whole status in one line."""
        return progress_line(Counter(run["state"] for run in self.runs))

    def to_text(self) -> str:
        """The line, a table by dataset and objective, and why runs failed."""
        pairs = Counter((run["dataset"], run["objective"], run["state"]) for run in self.runs)
        rows = [["dataset, objective", *STATES]]
        for dataset, objective in dict.fromkeys((r["dataset"], r["objective"]) for r in self.runs):
            counts = [str(pairs[dataset, objective, state]) for state in STATES]
            rows.append([f"{dataset}, {objective}", *counts])
        parts = [self.line(), aligned(rows)]
        if self.failures:
            parts.append(failures_in_words(self.failures))
        return "\n\n".join(parts)


def sweep_status(folder: str | Path) -> SweepStatus:
    """The status of the sweep in a folder."""
    files = SweepFolder(folder)
    runs = [{**run, "state": files.state(run["run"])} for run in files.runs()]
    found = [files.failure(run["run"]) for run in runs if run["state"] == "failed"]
    return SweepStatus(runs, [each for each in found if each is not None])


def progress_line(counts: Mapping[State, int], left: float | None = None) -> str:
    """Counts of runs and the seconds left, if known, in one line."""
    total = sum(counts.values())
    words = [f"{counts['finished']:,} of {counted(total, 'run')} finished"]
    others: tuple[State, ...] = ("running", "failed", "waiting")
    words += [f"{counts[state]:,} {state}" for state in others if counts[state]]
    if left is not None and counts["running"] + counts["waiting"]:
        words.append(f"about {duration(left)} left")
    return ", ".join(words)


def failures_in_words(failures: Sequence[Failure]) -> str:
    """The first failures, a line each, and how to try them again."""
    lines = [f"{counted(len(failures), 'run')} failed:"]
    lines += [f"  {each.run}  {shortened(each.error, 200)}" for each in failures[:FAILURES_SHOWN]]
    if len(failures) > FAILURES_SHOWN:
        lines.append(f"  and {len(failures) - FAILURES_SHOWN:,} more")
    again = Setting("retry_failed", True)
    lines.append(f"What they printed is in runs/HASH/log.txt. To try them again: {again}.")
    return "\n".join(lines)


class SweepLines:
    """How far a sweep is: a line that changes (``live``), or plain lines, not too often."""

    def __init__(
        self, tell: Callable[[str], None], live: Callable[[str], None] | None = None
    ) -> None:
        self.tell, self._live = tell, live
        self._line, self._told = "", -TELL_EVERY

    def show(self, counts: Mapping[State, int], left: float | None) -> None:
        """How many runs are in each state, and the seconds left, None if unknown."""
        line = progress_line(counts, left)
        if self._live is not None:
            self._live(line)
            return
        ended = not counts["running"] and not counts["waiting"]
        due = time.monotonic() - self._told >= TELL_EVERY
        if line != self._line and (due or ended):
            self.tell(line)
            self._line, self._told = line, time.monotonic()


@contextmanager
def sweep_shown(tell: Callable[[str], None], console: Any = None) -> Iterator[SweepLines]:
    """A line that changes where standard error is a terminal, else lines passed to ``tell``."""
    from rich.console import Console

    to = console or Console(stderr=True)
    if not to.is_terminal:
        yield SweepLines(tell)
        return
    with to.status("") as status:
        yield SweepLines(
            lambda line: to.print(printable(line), markup=False, highlight=False), status.update
        )
