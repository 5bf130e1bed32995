"""The draws of adaptive searches: read from the folder of a sweep, proposed, and given up.

What a search knows is in the folder: the draws that were proposed, and the records of their runs.
A sweep that goes on after it was killed, and one that shares the folder, know the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqrm.errors import DataFileError
from eqrm.files.plain import read_as
from eqrm.sweeps.optuna_study import AdaptiveSettings, TriedDraw, is_hopeless, proposed_draw
from eqrm.sweeps.planned_runs import PlannedRun, PlannedSearch, PlannedSweep
from eqrm.sweeps.records import PRUNED, RECORD, RunRecord, read_record
from eqrm.sweeps.selection import Candidates, QuantileSelection, UnjudgedRunError
from eqrm.sweeps.sweep_folder import DRAWS, SweepFolder
from eqrm.sweeps.table_runs import read_run_config


class TriedDraws:
    """What became of draws, by the records in the folder; each record is read once."""

    def __init__(self, folder: SweepFolder, rule: QuantileSelection) -> None:
        self.folder, self.rule = folder, rule
        self._ended: dict[str, TriedDraw] = {}

    def of(self, place: Mapping[str, Any]) -> TriedDraw:
        """What became of the draw of a run."""
        run = place["run"]
        if run in self._ended:
            return self._ended[run]
        for name in (RECORD, PRUNED):
            try:
                record = read_record(self.folder.path, run, name)
            except DataFileError:
                continue
            self._ended[run] = self._judged(record, pruned=name == PRUNED)
            return self._ended[run]
        failed = self.folder.state(run) == "failed"
        return TriedDraw(place["settings"], "fail" if failed else "running")

    def _judged(self, record: RunRecord, pruned: bool) -> TriedDraw:
        by_step = self.values_by_step(record)
        if pruned:
            return TriedDraw(record.settings, "pruned", None, by_step)
        choice = self.rule.select(Candidates(frozenset(record.held_out), {record.draw: record}))
        if choice.selected is None:
            return TriedDraw(record.settings, "fail")
        return TriedDraw(record.settings, "complete", -choice.selected.score, by_step)

    def values_by_step(self, record: RunRecord) -> dict[int, float]:
        """The quantile of the validation domains' risk at each checkpoint."""
        candidates = Candidates(frozenset(record.held_out), {})
        try:
            scores = self.rule.scores(record, record.checkpoints, candidates)
        except UnjudgedRunError:
            return {}
        found = zip(record.checkpoints, scores, strict=True)
        return {checkpoint.step: -score for checkpoint, score in found}


class AdaptiveDraws:
    """Proposes the runs of a sweep's searches; there is nothing to propose without searches."""

    def __init__(self, planned: PlannedSweep, folder: SweepFolder) -> None:
        self.folder = folder
        self._returned: set[int] = set()
        self._searches: dict[int, PlannedSearch] = {}
        first = len(planned.runs)
        for search in planned.searches:
            self._searches[first] = search
            first += search.draws
        self._tried = {
            first: TriedDraws(folder, search.settings.rule)
            for first, search in self._searches.items()
        }

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
                held_out = tuple(place["held_out"])
                found.append(
                    PlannedRun(**{**place, "held_out": held_out}, config=read_run_config(config))
                )
        return found

    def _propose(self) -> PlannedRun | None:
        """The next draw of the search that has the fewest in training; None if all must wait."""
        open_searches = []
        known = self.folder.draws()
        for first, search in self._searches.items():
            tried = {
                draw: self._tried[first].of(known[first + draw][0])
                for draw in range(search.draws)
                if first + draw in known
            }
            if len(tried) < search.draws:
                running = sum(each.ended == "running" for each in tried.values())
                if running < search.settings.at_once:
                    draw = next(n for n in range(search.draws) if n not in tried)
                    # Later draws are known where a proposal was deleted: it is made as before.
                    earlier = [tried[n] for n in range(draw)]
                    open_searches.append((running, draw, first, earlier))
        if not open_searches:
            return None
        _, draw, first, earlier = min(open_searches, key=lambda each: each[:3])
        search = self._searches[first]
        values: dict[str, Any] = {}
        if draw > 0:
            seed = search.seed_of_draw(draw)
            values = proposed_draw(search.settings, search.spaces, earlier, seed)
        run = search.run(draw, values)
        self.folder.write_draw(first + draw, run.place(), run.config.plain())
        self._returned.add(first + draw)
        return run


class PruningWatch:
    """Decides, while a run is trained, whether it is given up."""

    def __init__(
        self, folder: SweepFolder, place: Mapping[str, Any], settings: AdaptiveSettings
    ) -> None:
        self.folder, self.place, self.settings = folder, place, settings
        self._tried = TriedDraws(folder, settings.rule)

    @classmethod
    def of_run(cls, folder: SweepFolder, place: Mapping[str, Any]) -> PruningWatch | None:
        """The watch of a run; None where its plan has no pruner."""
        if not (folder.path / DRAWS).is_dir():
            return None
        settings = read_as(AdaptiveSettings, folder.plan()["adaptive"], "adaptive")
        return None if settings.pruner is None else cls(folder, place, settings)

    def gives_up(self, checkpoints: Sequence[Mapping[str, Any]]) -> bool:
        """Whether to give up a run that has reached this at its evaluations so far."""
        record = RunRecord.from_dict({**self.place, "checkpoints": checkpoints})
        own = TriedDraw({}, "running", None, self._tried.values_by_step(record))
        others = [
            self._tried.of(place)
            for place, _ in self.folder.draws().values()
            if _search_of(place) == _search_of(self.place) and place["run"] != self.place["run"]
        ]
        return is_hopeless(self.settings, others, own)


def _search_of(place: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the draws of one search share."""
    return place["dataset"], place["objective"], place["held_out"], place["trial"]
