"""The draws of adaptive searches: read from the folder of a sweep, and proposed.

What a search knows is in the folder: the draws that were proposed, and the records of their runs.
A sweep that goes on after it was killed, and one that shares the folder, know the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqrm.errors import DataFileError
from eqrm.sweeps.optuna_study import TriedDraw, proposed_draw
from eqrm.sweeps.planned_runs import PlannedRun, PlannedSearch, PlannedSweep
from eqrm.sweeps.records import read_record
from eqrm.sweeps.selection import Candidates, QuantileSelection
from eqrm.sweeps.spaces import seed_of
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.table_runs import read_run_config


class AdaptiveDraws:
    """Proposes the runs of a sweep's searches; there is nothing to propose without searches."""

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
