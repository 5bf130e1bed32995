"""A sweep: every run of a plan to its end, whatever happens in between.

The folder is the only memory. A sweep that was stopped or killed is continued by starting it
again, and several sweeps of the same plan may share a folder: each run is trained by one of them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from eqrm.sweeps.engines.base import Engine
from eqrm.sweeps.execution import RunOutcome
from eqrm.sweeps.planned_runs import PlannedSweep
from eqrm.sweeps.status import progress_line, seconds_left
from eqrm.sweeps.sweep_folder import Failure, SweepFolder

MOST_LOSSES = 5
"""A run whose process died this often, in one sweep, has failed."""
LOOK_EVERY = 1.0
"""Seconds between two looks at runs that another sweep trains."""
TELL_EVERY = 5.0


@dataclass(frozen=True)
class SweepResult:
    """How many runs are finished, how many of them this sweep trained, and which failed."""

    finished: int
    trained: int
    failures: tuple[Failure, ...]


def run_sweep(
    planned: PlannedSweep,
    folder: SweepFolder,
    engine: Engine,
    *,
    retry_failed: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> SweepResult:
    """Train what is not finished. Ctrl-C has every run saved, and raises ``KeyboardInterrupt``.

    Failed runs are not tried again unless asked for. ``tell`` is called with a line now and then.
    """
    folder.begin(planned.content, planned.runs_listed())
    state = _Progress(folder, tell)
    for run in planned.runs:
        if folder.is_finished(run.run):
            state.finished.add(run.run)
        elif (failure := folder.failure(run.run)) is not None and not retry_failed:
            state.failed[run.run] = failure
        else:
            state.waiting.append(run.run)
    configs = {run.run: run for run in planned.runs}
    state.show(engine)
    with engine:
        while state.waiting or state.elsewhere or engine.running:
            while state.waiting and engine.free:
                run = configs[state.waiting.popleft()]
                folder.prepare(run.run, run.place(), run.config.plain())
                engine.submit(run.run)
            for outcome in engine.poll(LOOK_EVERY):
                state.take(outcome)
            state.look_elsewhere()
            state.show(engine)
    return SweepResult(len(state.finished), state.trained, tuple(state.failed.values()))


@dataclass
class _Progress:
    """Where every run of a sweep is."""

    folder: SweepFolder
    tell: Callable[[str], None]
    waiting: deque[str] = field(default_factory=deque)
    finished: set[str] = field(default_factory=set)
    failed: dict[str, Failure] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    losses: Counter[str] = field(default_factory=Counter)
    trained: int = 0
    began: float = field(default_factory=time.monotonic)
    looked: float = 0.0
    told: float = -TELL_EVERY
    line: str = ""

    def take(self, outcome: RunOutcome) -> None:
        """Note how a run ended."""
        run = outcome.run
        if outcome.ending == "finished":
            self.finished.add(run)
            self.trained += 1
        elif outcome.ending == "elsewhere":
            self.elsewhere.add(run)
        elif outcome.ending == "failed":
            self._fail(Failure(run, outcome.error))
        elif outcome.ending == "lost":
            self.losses[run] += 1
            if self.losses[run] < MOST_LOSSES:
                self.waiting.append(run)
                return
            failure = Failure(run, f"{outcome.error} This happened {MOST_LOSSES} times.")
            self.folder.write_failure(failure)
            self._fail(failure)
        else:  # stopped by a signal of somebody else: it goes on from its checkpoint
            self.waiting.append(run)

    def _fail(self, failure: Failure) -> None:
        self.failed[failure.run] = failure
        self.tell(f"Run {failure.run} failed: {failure.error}")

    def look_elsewhere(self) -> None:
        """Take over runs that another sweep gave up, and count those that it finished."""
        if not self.elsewhere or time.monotonic() - self.looked < LOOK_EVERY:
            return
        self.looked = time.monotonic()
        for run in sorted(self.elsewhere):
            state = self.folder.state(run)
            if state == "running":
                continue
            self.elsewhere.remove(run)
            failure = self.folder.failure(run)
            if state == "finished":
                self.finished.add(run)
            elif state == "failed" and failure is not None:
                self._fail(failure)
            else:
                self.waiting.append(run)

    def show(self, engine: Engine) -> None:
        """Tell how far the sweep is, when that has changed and not too often."""
        running = len(engine.running) + len(self.elsewhere)
        left = None
        if self.trained and engine.running:
            each = (time.monotonic() - self.began) * len(engine.running) / self.trained
            left = seconds_left(each, len(self.waiting), len(engine.running))
        line = progress_line(
            {
                "finished": len(self.finished),
                "failed": len(self.failed),
                "running": running,
                "waiting": len(self.waiting),
            },
            left,
        )
        ended = not running and not self.waiting
        due = time.monotonic() - self.told >= TELL_EVERY
        if line != self.line and (due or ended):
            self.tell(line)
            self.line, self.told = line, time.monotonic()
