"""The grid behind a sweep's records: datasets × objectives × held-out domains × trials × draws.

The grid is what the plan lists or, without a plan, what the records themselves span. A run that the
grid has and the records lack is missing, and is named.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from eqrm.errors import DomainDataError
from eqrm.sweeps.records import RunRecord
from eqrm.sweeps.selection import Candidates
from eqrm.sweeps.sweep_folder import SweepFolder
from eqrm.sweeps.tables.published import AVERAGE


class RunKey(NamedTuple):
    """Where a run stands in the grid of its dataset."""

    objective: str
    held_out: frozenset[str]
    trial: int
    draw: int


@dataclass(frozen=True)
class DatasetGrid:
    """The runs of one dataset.

    ``expected`` are the runs that were planned; without any, the records span the grid.
    """

    dataset: str
    runs: dict[RunKey, RunRecord]
    expected: frozenset[RunKey] = frozenset()

    @cached_property
    def objectives(self) -> list[str]:
        """ERM first, the others by name."""
        names = {key.objective for key in self._known}
        return sorted(names, key=lambda name: (name.lower() != "erm", name.lower(), name))

    @cached_property
    def trials(self) -> list[int]:
        return sorted({key.trial for key in self._known})

    @cached_property
    def columns(self) -> dict[frozenset[str], str]:
        """The sets of held-out domains that are reported, with their names in tables.

        A set that is another one and one domain more serves leave-one-domain-out selection, and
        is not reported.
        """
        return {h: name for h, name in self._names.items() if h not in self._validating}

    @cached_property
    def _names(self) -> dict[frozenset[str], str]:
        """A name of its own for every set of held-out domains; reported ones come first."""
        names: dict[frozenset[str], str] = {}
        used = {AVERAGE}
        for held_out in sorted(self._held_out, key=lambda h: (h in self._validating, _in_order(h))):
            plain = name = _set_name(held_out)
            number = 1
            while name in used:
                number += 1
                name = f"{plain} ({number})"
            used.add(name)
            names[held_out] = name
        return names

    def candidates(self, objective: str, held_out: frozenset[str], trial: int) -> Candidates:
        validating: dict[int, dict[str, RunRecord]] = defaultdict(dict)
        for larger, parts in self._validating.items():
            if (domain := parts.get(held_out)) is not None:
                for draw, run in self._by_cell.get((objective, larger, trial), {}).items():
                    validating[draw][domain] = run
        runs = self._by_cell.get((objective, held_out, trial), {})
        return Candidates(held_out, runs, validating)

    @cached_property
    def missing(self) -> dict[tuple[str, frozenset[str], int], list[int]]:
        """The draws that are expected and not recorded, by objective, held-out domains, trial."""
        absent = list((self.expected or self._spanned()) - self.runs.keys())
        absent.sort(key=lambda k: (k.objective, _in_order(k.held_out), k.trial, k.draw))
        draws: dict[tuple[str, frozenset[str], int], list[int]] = defaultdict(list)
        for key in absent:
            draws[key.objective, key.held_out, key.trial].append(key.draw)
        return dict(draws)

    def missing_lines(self) -> list[str]:
        """The missing runs in words, a line per objective, held-out domains and trial."""
        return [
            f"{self.dataset}, {objective}, held out {self._names[held_out]}, trial {trial}: "
            f"draw{'s' if len(absent) > 1 else ''} {_ranges(absent)}"
            for (objective, held_out, trial), absent in self.missing.items()
        ]

    def _spanned(self) -> set[RunKey]:
        """The grid that the records themselves span; objectives may differ in their draws."""
        draws: dict[str, set[int]] = defaultdict(set)
        for key in self.runs:
            draws[key.objective].add(key.draw)
        return {
            RunKey(objective, held_out, trial, draw)
            for objective in self.objectives
            for held_out in self._held_out
            for trial in self.trials
            for draw in draws[objective]
        }

    @cached_property
    def _known(self) -> set[RunKey]:
        return {*self.runs, *self.expected}

    @cached_property
    def _held_out(self) -> set[frozenset[str]]:
        return {key.held_out for key in self._known}

    @cached_property
    def _validating(self) -> dict[frozenset[str], dict[frozenset[str], str]]:
        """Sets of held-out domains that are another one and one domain more: which, and which."""
        found = {}
        for larger in self._held_out:
            smaller = {larger - {d}: d for d in larger if larger - {d} in self._held_out}
            if smaller:
                found[larger] = smaller
        return found

    @cached_property
    def _by_cell(self) -> dict[tuple[str, frozenset[str], int], dict[int, RunRecord]]:
        found: dict[tuple[str, frozenset[str], int], dict[int, RunRecord]] = defaultdict(dict)
        for key, run in self.runs.items():
            found[key.objective, key.held_out, key.trial][key.draw] = run
        return dict(found)


def planned_places(folder: Path) -> list[dict[str, Any]]:
    """The runs that the plan of a sweep's folder has; none in a folder without one."""
    files = SweepFolder(folder)
    return files.runs() if files.begun else []


def dataset_grids(
    records: Iterable[RunRecord], planned: Iterable[Mapping[str, Any]] = ()
) -> list[DatasetGrid]:
    """The grid of every dataset, by name; ``planned`` are runs that should have been recorded."""
    runs: dict[str, dict[RunKey, RunRecord]] = defaultdict(dict)
    for record in records:
        key = RunKey(record.objective, frozenset(record.held_out), record.trial, record.draw)
        known = runs[record.dataset].setdefault(key, record)
        if known is not record:
            raise DomainDataError(
                f"The runs {known.run!r} and {record.run!r} are both draw {record.draw}, trial "
                f"{record.trial} of {record.objective} on {record.dataset}, held out "
                f"{_set_name(frozenset(record.held_out))}. Tables need one of them: move the "
                "other one to another folder."
            )
    expected: dict[str, set[RunKey]] = defaultdict(set)
    for place in planned:
        held_out = frozenset(place["held_out"])
        key = RunKey(place["objective"], held_out, place["trial"], place["draw"])
        expected[place["dataset"]].add(key)
    return [
        DatasetGrid(name, runs[name], frozenset(expected[name]))
        for name in sorted({*runs, *expected})
    ]


def _in_order(held_out: frozenset[str]) -> tuple[int, list[str]]:
    return len(held_out), sorted(held_out)


def _set_name(held_out: frozenset[str]) -> str:
    """Up to three domains by name; of more, the first and a count."""
    names = sorted(held_out)
    return " + ".join(names if len(names) <= 3 else [names[0], f"{len(names) - 1} more"])


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending integers, runs of three or more in short: 0, 2–4, 7, 8."""
    # In a run, numbers grow as their places do.
    runs = groupby(enumerate(numbers), key=lambda each: each[1] - each[0])
    parts = [[number for _, number in run] for _, run in runs]
    return ", ".join(
        f"{part[0]}–{part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts
    )
