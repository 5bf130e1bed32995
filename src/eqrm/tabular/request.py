"""What a user asks of ``eqrm train`` and ``eqrm.train``: from names of columns to two tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from eqrm.checks import Problems
from eqrm.data.datasets.registry import BUILT_IN, raw_dataset
from eqrm.data.splits import TimeSplit, conflicting_splits
from eqrm.data.tables.frames import is_frame
from eqrm.data.tables.reading import TableColumns, read_test_table
from eqrm.data.tables.table import Table
from eqrm.errors import Setting, SettingError
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import PreparedTraining, inspect_columns, prepare

HELD_OUT = ("test", "certify", "test_after", "test_last")
OWN = ("categories", "within", "weight", "missing_values", "skip_incomplete")
"""Fields that a built-in table does not take."""


@dataclass(frozen=True)
class TrainingRequest:
    """Which table to train on, what its ``columns`` are, and which domains are kept aside.

    By default none are: every domain is judged by models of the others. Kept aside for a proven
    certificate are the domains of another table (``test``), a share of them or those with these
    names (``certify``), or later ones: those after a moment (``test_after``) or the last share of
    them (``test_last``). With the column ``order``, or these two, domains are judged by models of
    earlier ones. ``weather`` is for the table "flights".
    """

    data: Any
    columns: TableColumns
    test: Any = None
    certify: float | Sequence[str] | None = None
    test_after: Any = None
    test_last: float | None = None
    weather: bool = False

    def prepare(self, plan: TrainingPlan, problems: Problems) -> PreparedTraining | None:
        """Read, split and encode; None if there are problems, all of which are noted."""
        conflicts = self.conflicts()
        for problem in conflicts:
            problems.note(problem)
        table = self.read(problems, plan)
        if table is None:
            return None
        with problems.noted():
            if conflicts:  # which domains to train on is not known
                inspect_columns(table.columns, table.target, plan, table.asked)
                return None
            train, test, in_time = self._split(table, plan)
            everything = table if test is not None and self.test is None else None
            ordered = self.is_in_time
            return prepare(train, test, plan, in_time, ordered, everything)
        return None

    @property
    def label(self) -> str:
        """What errors call the table."""
        return self.data if isinstance(self.data, str) else "The table"

    def conflicts(self) -> list[str]:
        """What is wrong with fields that choose the held-out domains in two ways."""
        given = {name: getattr(self, name) for name in HELD_OUT}
        if isinstance(self.certify, (int, float)):  # with an order, the last share of domains
            return conflicting_splits(given)
        return conflicting_splits({**given, "order": self.columns.order})

    @property
    def is_in_time(self) -> bool:
        """Whether later domains are held out."""
        given = (self.columns.order, self.test_after, self.test_last)
        return any(value is not None for value in given)

    def read(self, problems: Problems, plan: TrainingPlan | None = None) -> Table | None:
        """A table of the user's, or one that ships with eqrm; None if there are problems."""
        if self.weather and self.data != "flights":
            problems.note(f"{Setting('weather')} can only be used with the table 'flights'.")
        if _is_built_in(self.data):
            with problems.noted():
                return self._built_in()
            return None
        absent = [name for name in ("target", "domain") if not getattr(self.columns, name)]
        for name in absent:
            problems.note(f"{Setting(name, 'COLUMN')} is required for {own_name(self.data)}.")
        if absent:
            return None
        look = None
        if plan is not None:
            look = partial(inspect_columns, plan=plan, asked=self.columns.asked)
        with problems.noted():
            return self.columns.read(self.data, look)
        return None

    def _built_in(self) -> Table:
        """A table by name, whose columns are what they are."""
        settings: dict[str, Any] = {"weather": True} if self.weather else {}
        table: Any = raw_dataset(self.data, **settings)
        own = {"target": table.target_name, "domain": table.domain_name}
        own["order"] = table.domain_name
        columns, domain = self.columns, self.columns.domain
        joined = domain if isinstance(domain, str) else " and ".join(domain)
        given = {"target": columns.target, "domain": joined, "order": columns.order}
        differ = [name for name, value in given.items() if value and value != own[name]]
        differ += [name for name in OWN if getattr(columns, name)]
        if differ:
            raise SettingError(
                f"The table {self.data!r} has the target {table.target_name!r} and the domain "
                f"{table.domain_name!r}, and no other order than that of its domain: leave out "
                f"{', '.join(str(Setting(name)) for name in differ)}."
            )
        found: Table = table.with_features(columns.features, columns.drop)
        return found

    def _split(
        self, table: Table, plan: TrainingPlan
    ) -> tuple[Table, Table | None, TimeSplit | None]:
        """The table to train on, the one kept aside, and how they were split in time."""
        after, last, certify = self.test_after, self.test_last, self.certify
        if self.is_in_time:
            table.in_time(last=0.5)  # refuses what cannot be ordered
            if isinstance(certify, (int, float)):
                last = certify
            if after is not None or last is not None:
                in_time = table.in_time(after=after, last=last)
                return *table.split(in_time), in_time
        if self.test is not None:
            return table, read_test_table(self.test, table), None
        if certify is not None:
            return *table.split(certify, plan.seed), None
        return table, None, None


def read_any_table(data: Any, columns: TableColumns, *, weather: bool = False) -> Table:
    """A table of the user's files, or one that ships with eqrm; what is wrong is one error."""
    request, problems = TrainingRequest(data, columns, weather=weather), Problems()
    found = request.read(problems)
    problems.refuse(request.label, alone=True)
    if found is None:
        raise TypeError("a table without problems is read")
    return found


def own_name(data: Any) -> str:
    """What the user's table is called; a file may hide one that ships with eqrm."""
    if is_frame(data):
        return "a table in memory"
    hides = "the file or folder of that name hides the table that ships with eqrm"
    return f"{data} ({hides})" if data in BUILT_IN else str(data)


def _is_built_in(data: Any) -> bool:
    return isinstance(data, str) and data in BUILT_IN and not Path(data).exists()
