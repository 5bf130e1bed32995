"""A sweep: every run of a plan to its end, whatever happens in between.

The folder is the only memory. A sweep that was stopped or killed is continued by starting it
again, and several sweeps of the same plan may share a folder: each run is trained by one of them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eqrm.errors import DataFileError
from eqrm.sweeps.engines.base import Engine, RunOutcome
from eqrm.sweeps.optuna_study import TriedDraw, proposed_draw
from eqrm.sweeps.planned_runs import PlannedRun, PlannedSearch, PlannedSweep
from eqrm.sweeps.records import read_record
from eqrm.sweeps.selection import Candidates, QuantileSelection
from eqrm.sweeps.spaces import seed_of
from eqrm.sweeps.status import SweepLines
from eqrm.sweeps.sweep_folder import Failure, SweepFolder
from eqrm.sweeps.table_runs import read_run_config

MOST_LOSSES = 5
"""A run whose process died this often, in one sweep, has failed."""
LOOK_EVERY = 1.0
"""Seconds between two looks at runs that another sweep trains."""


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
    shown: SweepLines | None = None,
) -> SweepResult:
    """Train what is not finished. Ctrl-C has every run saved, and raises ``KeyboardInterrupt``.

    Failed runs are not tried again unless asked for. ``shown`` is told how far the sweep is.
    """
    folder.begin(planned.content, planned.runs_listed())
    draws = AdaptiveDraws(planned, folder)
    state = _Progress(folder, draws, shown or SweepLines(lambda line: None), retry_failed)
    state.add([*planned.runs, *draws.more(0)])
    state.show(engine)
    with engine:
        while state.waiting or state.elsewhere or engine.running or draws.left:
            state.add(draws.more(engine.free - len(state.waiting)))
            while state.waiting and engine.free:
                run = state.waiting.popleft()
                folder.prepare(run, state.runs[run].place(), state.runs[run].config.plain())
                engine.submit(run)
            for outcome in engine.poll(LOOK_EVERY):
                state.take(outcome)
            state.look_elsewhere()
            state.show(engine)
    return SweepResult(len(state.finished), state.trained, tuple(state.failed.values()))


@dataclass
class _Progress:
    """Where every run of a sweep is."""

    folder: SweepFolder
    draws: AdaptiveDraws
    shown: SweepLines
    retry_failed: bool
    runs: dict[str, PlannedRun] = field(default_factory=dict)
    waiting: deque[str] = field(default_factory=deque)
    finished: set[str] = field(default_factory=set)
    failed: dict[str, Failure] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    losses: Counter[str] = field(default_factory=Counter)
    trained: int = 0
    began: float = field(default_factory=time.monotonic)
    looked: float = 0.0

    def add(self, runs: Iterable[PlannedRun]) -> None:
        """Take runs in; those that ended before are not trained again."""
        for run in runs:
            self.runs[run.run] = run
            self._sort_in(run.run)

    def _sort_in(self, run: str) -> None:
        """Put a run that no process trains where its files say."""
        if self.folder.is_finished(run):
            self.finished.add(run)
        elif (failure := self.folder.failure(run)) is not None and not self.retry_failed:
            self.failed[run] = failure
        else:
            self.waiting.append(run)

    def take(self, outcome: RunOutcome) -> None:
        run, ending, error = outcome.run, outcome.ending, outcome.error
        if ending == "lost":
            self.losses[run] += 1
            if self.losses[run] >= MOST_LOSSES:
                ending, error = "failed", f"{error} This happened {MOST_LOSSES} times."
                self.folder.write_failure(Failure(run, error))
        if ending == "finished":
            self.finished.add(run)
            self.trained += 1
        elif ending == "elsewhere":
            self.elsewhere.add(run)
        elif ending == "failed":
            self.failed[run] = Failure(run, error)
            self.shown.tell(f"Run {run} failed: {error}")
        else:  # lost, or stopped by a signal of somebody else: it goes on from its checkpoint
            self.waiting.append(run)

    def look_elsewhere(self) -> None:
        """Take over runs that another sweep gave up, and count those that it finished."""
        if not self.elsewhere or time.monotonic() - self.looked < LOOK_EVERY:
            return
        self.looked = time.monotonic()
        for run in sorted(self.elsewhere):
            if not self.folder.is_claimed(run):
                self.elsewhere.remove(run)
                self._sort_in(run)

    def show(self, engine: Engine) -> None:
        training, left = len(engine.running) - engine.queued, None
        waiting = len(self.waiting) + self.draws.left + engine.queued
        if self.trained and training:
            each = (time.monotonic() - self.began) / self.trained
            left = each * (waiting + 0.5 * training)  # those that are trained are half done
        self.shown.show(
            {
                "finished": len(self.finished),
                "failed": len(self.failed),
                "running": training + len(self.elsewhere),
                "waiting": waiting,
            },
            left,
        )


class AdaptiveDraws:
    """Proposes the runs of a sweep's searches; there is nothing to propose without searches.

    What a search knows is in the folder: the draws that were proposed, and the records of their
    runs. A sweep that goes on after it was killed, and one that shares the folder, know the same.
    """

    def __init__(self, planned: PlannedSweep, folder: SweepFolder) -> None:
        self.folder = folder
        self._returned: set[int] = set()
        self._ended: dict[str, TriedDraw] = {}
        self._searches: dict[int, PlannedSearch] = {}  # by the number of their first draw
        first = len(planned.runs)
        for search in planned.searches:
            self._searches[first] = search
            first += search.draws

    @property
    def left(self) -> int:
        """How many draws are not proposed yet, as far as this sweep knows."""
        return sum(search.draws for search in self._searches.values()) - len(self._returned)

    def more(self, wanted: int) -> list[PlannedRun]:
        """Runs that this sweep did not know of: proposed before, by others, and now.

        Only as many are proposed now as are ``wanted``, and fewer where searches wait for
        results.
        """
        if not self.left:
            return []
        found = self._proposed_before()
        if len(found) < wanted:
            with self.folder.proposing() as own:
                if own:
                    found += self._proposed_before()
                    while len(found) < wanted and (run := self._propose()) is not None:
                        found.append(run)
        return found

    def _proposed_before(self) -> list[PlannedRun]:
        found = []
        for number, (place, config) in sorted(self.folder.draws().items()):
            if number not in self._returned:
                self._returned.add(number)
                own = {**place, "held_out": tuple(place["held_out"])}
                found.append(PlannedRun(**own, config=read_run_config(config)))
        return found

    def _propose(self) -> PlannedRun | None:
        """The next draw of the search that has the fewest in training; None if all must wait."""
        open_searches = []
        known = self.folder.draws()
        for first, search in self._searches.items():
            rule = search.settings.rule
            tried = {
                draw: self._tried(known[first + draw][0], rule)
                for draw in range(search.draws)
                if first + draw in known
            }
            running = sum(each.ended == "running" for each in tried.values())
            if len(tried) < search.draws and running < search.settings.at_once:
                draw = next(n for n in range(search.draws) if n not in tried)
                # Later draws are known where a proposal was deleted: it is made as before.
                open_searches.append((running, draw, first, [tried[n] for n in range(draw)]))
        if not open_searches:
            return None
        _, draw, first, earlier = min(open_searches, key=lambda each: each[:3])
        search = self._searches[first]
        values: dict[str, Any] = {}
        if draw > 0:
            seed = seed_of(search.seed, "proposal", *search.place(draw))
            values = proposed_draw(search.settings, search.spaces, earlier, seed)
        run = search.run(draw, values)
        self.folder.write_draw(first + draw, run.place(), run.config.plain())
        self._returned.add(first + draw)
        return run

    def _tried(self, place: Mapping[str, Any], rule: QuantileSelection) -> TriedDraw:
        """What became of the draw of a run; each record is read once."""
        run = place["run"]
        if run in self._ended:
            return self._ended[run]
        try:
            record = read_record(self.folder.path, run)
        except DataFileError:
            failed = self.folder.state(run) == "failed"
            return TriedDraw(place["settings"], "fail" if failed else "running")
        found = rule.select(Candidates(frozenset(record.held_out), {record.draw: record})).selected
        if found is None:
            ended = TriedDraw(record.settings, "fail")
        else:
            ended = TriedDraw(record.settings, "complete", -found.score)
        return self._ended.setdefault(run, ended)
