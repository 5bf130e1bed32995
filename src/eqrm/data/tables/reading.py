"""Tables from CSV and Parquet files, or from frames in memory; all their problems at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import Problems
from eqrm.data.tables.columns import Column, absent_in, is_numbers, refuse_absent_domains
from eqrm.data.tables.files import opened
from eqrm.data.tables.frames import refuse_absent
from eqrm.data.tables.kinds import CATEGORY, DOMAIN, NUMBER, TARGET, date_kind
from eqrm.data.tables.sources import MEMORY, ColumnSource, Data, source_of
from eqrm.data.tables.table import NO_ROWS, Table
from eqrm.data.tables.written_dates import written_dates
from eqrm.domains import DomainKey, NumberedDomains, joined_columns, number_domains
from eqrm.errors import DomainDataError, Setting
from eqrm.text import counted

BATCH = 100_000
Inspect = Callable[[Mapping[str, Column], Column | None], None]
"""Raises for further problems of features and target, where no table can be made."""


@dataclass(frozen=True)
class TableColumns:
    """Which column of a table is what.

    Several columns of ``domain`` are joined into one domain, as in :func:`eqrm.evaluate`, and
    ``"filename"`` makes each file a domain. With ``within`` the domains are nested: ``domain`` are
    the columns of the groups (hospital), ``within`` those of their members (ward), which are the
    domains.

    ``features`` are all columns but target, domain, ``order``, ``weight`` and ``drop``, unless they
    are listed. ``categories`` are columns to take as categories although they look like numbers or
    dates. ``order`` is the column with the time of each row, for :meth:`Table.in_time`; it may be
    the domain. ``weight`` is how much each row counts within its domain. ``missing_values`` mean a
    missing value in every column. ``skip_incomplete`` leaves out rows whose target, domain, order
    or weight is missing, which is refused otherwise.
    """

    target: str
    domain: str | Sequence[str]
    within: str | Sequence[str] | None = None
    features: Sequence[str] | None = None
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()
    order: str | None = None
    weight: str | None = None
    missing_values: Collection[str] = ()
    skip_incomplete: bool = False

    @property
    def asked(self) -> tuple[str, ...]:
        """Columns that are features because they were asked for by name."""
        return (*(self.features or ()), *self.categories)

    def read(self, data: Data, problems: Problems, inspect: Inspect | None = None) -> Table | None:
        """The table; None if there are problems, all of which are noted."""
        with problems.noted(), source_of(data) as source:
            return _Reader(self, source, problems, inspect).table()
        return None


def read_table(data: Data, target: str, domain: str | Sequence[str], **options: Any) -> Table:
    """A table from CSV or Parquet files, patterns or folders, or from a frame in memory.

    ``options`` are the other fields of :class:`TableColumns`. What is wrong with the table is one
    error.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "stays.csv"
    >>> _ = path.write_text("hospital,age,ward,died\\n1,31,A,0\\n1,57,B,1\\n02,,A,0\\n")
    >>> table = read_table(path, target="died", domain="hospital")
    >>> table.columns["age"], table.columns["ward"], table.domains
    (array([31., 57., nan]), array(['A', 'B', 'A'], dtype='<U1'), array(['1', '1', '02'], ...))
    """
    problems = Problems()
    found = TableColumns(target, domain, **options).read(data, problems)
    problems.refuse("The table", alone=True)
    if found is None:
        raise TypeError("a table without problems is read")
    return found


class _Reader:
    """Reads one table, and notes what is wrong with it."""

    def __init__(
        self,
        chosen: TableColumns,
        source: ColumnSource,
        problems: Problems,
        inspect: Inspect | None,
    ) -> None:
        self.chosen, self.source, self.problems, self.inspect = chosen, source, problems, inspect
        self.key = DomainKey.of(chosen.domain, chosen.within)
        self.order = None if (chosen.order,) == self.key.columns else chosen.order

    def table(self) -> Table | None:
        chosen, before = self.chosen, len(self.problems)
        absent = self._absent()
        self._refuse_two_roles()
        names = self._features(absent)
        kinds = {name: CATEGORY if name in chosen.categories else "" for name in names}
        given = {chosen.target: TARGET, **dict.fromkeys(self.key.columns, DOMAIN)}
        read = {name: kind for name, kind in {**kinds, **given}.items() if name not in absent}
        columns = self.source.read(read, self.problems, chosen.missing_values)
        # Apart: as a feature the same column is of another kind.
        times, weights = (self._own(name, kind, absent) for name, kind in self._extra)
        with self.problems.noted():
            times = _with_dates(self.order or "", times)
        features = {name: columns[name] for name in names if name in columns}
        target, domains = columns.get(chosen.target), self._joined(columns)
        parts = {
            f"The target {chosen.target!r} is": target,
            f"The domains ({self.key.label!r}) are": domains,
            f"The order column ({self.order!r}) is": times,
            f"The weights ({chosen.weight!r}) are": weights,
        }
        kept, notes = self._complete(parts)
        if kept is None and len(self.problems) > before:  # what else is wrong, row by row?
            target, domains, times, weights = map(_filled, parts.values())
        if kept is not None:
            features = {name: column[kept] for name, column in features.items()}
            target, domains, times, weights = (
                None if part is None else np.asarray(part)[kept] for part in parts.values()
            )
        found = None
        if target is not None and domains is not None:
            with self.problems.noted():
                found = Table(
                    features,
                    target,
                    domains,
                    target_name=chosen.target,
                    domain_name=self.key.label,
                    order=times,
                    order_name=self.order or "order",
                    key=self.key if len(self.key.columns) > 1 else None,
                    weights=weights,
                    weight_name=chosen.weight or "weight",
                    asked=chosen.asked,
                    missing_values=tuple(chosen.missing_values),
                    date_forms={n: f for n, f in self.source.date_forms.items() if n in features},
                    notes=notes,
                )
        if len(self.problems) == before:
            return found
        if self.inspect is not None:
            with self.problems.noted():
                self.inspect(features, target)
        return None

    @property
    def _extra(self) -> tuple[tuple[str | None, str], tuple[str | None, str]]:
        return (self.order, DOMAIN), (self.chosen.weight, NUMBER)

    def _absent(self) -> set[str]:
        """The columns that do not exist, and those that were probably meant."""
        chosen, found = self.chosen, set[str]()
        given = [name for name, _ in self._extra if name is not None]
        asked = [chosen.target, *given, *(chosen.features or ()), *chosen.drop, *chosen.categories]
        asked += [name for name in self.key.columns if not self.source.has_domain(name)]
        asked += [n for n in self.key.columns if n in self.source.names]  # more than once?
        for name in dict.fromkeys(asked):
            before = len(self.problems)
            with self.problems.noted():
                self.source.check(name)
            if len(self.problems) > before:
                near = difflib.get_close_matches(str(name), list(map(str, self.source.names)), n=1)
                found |= {name, *near}
        return found

    def _refuse_two_roles(self) -> None:
        target, key = self.chosen.target, self.key
        roles = [(each, "domain") for each in key.columns]
        roles += [
            (each, what)
            for (each, _), what in zip(self._extra, ("order", "weight"), strict=True)
            if each
        ]
        for name, what in roles:
            if target == name:
                with self.problems.noted():
                    raise DomainDataError(
                        f"Target and {what} cannot be the same column, {target!r}."
                    )

    def _features(self, absent: Collection[str]) -> list[str]:
        chosen, domain = self.chosen, self.key.columns
        given = [name for name, _ in self._extra if name is not None]
        asked = chosen.features
        names = list(self.source.names if asked is None else dict.fromkeys(asked))
        for name in (chosen.target, *domain):
            if asked is not None and name in names:
                with self.problems.noted():
                    raise DomainDataError(
                        f"The column {name!r} is the target or the domain and cannot be a feature."
                    )
        left_out = {chosen.target, *domain, *chosen.drop, *absent, *(() if asked else given)}
        found = [name for name in names if name not in left_out]
        if not found and not absent:
            with self.problems.noted():
                raise DomainDataError(
                    f"The table has no feature columns besides the target {chosen.target!r} and "
                    f"the domain {' and '.join(map(repr, domain))}."
                )
        return found

    def _own(self, name: str | None, kind: str, absent: Collection[str]) -> Column | None:
        if name is None or name in absent:
            return None
        missing = self.chosen.missing_values
        return self.source.read({name: kind}, self.problems, missing).get(name)

    def _joined(self, columns: Mapping[str, Column]) -> Column | None:
        names = self.key.columns
        if any(name not in columns for name in names):
            return None
        if len(names) > 1 and self.chosen.skip_incomplete:
            gone = np.logical_or.reduce([absent_in(columns[name]) for name in names])
            if gone.any():  # a name of several parts needs all of them
                whole = np.full(len(gone), None, dtype=object)
                whole[~gone] = _joined({name: columns[name][~gone] for name in names}, names)
                return whole
        with self.problems.noted():
            return _joined(columns, names)
        return None

    def _complete(
        self, parts: Mapping[str, Column | None]
    ) -> tuple[NDArray[np.bool_] | None, tuple[str, ...]]:
        """Which rows to keep (None: all), with a note; missing values are noted otherwise."""
        gone = {what: absent_in(part) for what, part in parts.items() if part is not None}
        gone = {what: mask for what, mask in gone.items() if mask.any()}
        if not gone:
            return None, ()
        rows = len(next(iter(gone.values())))
        if not self.chosen.skip_incomplete:
            for what, mask in gone.items():
                with self.problems.noted():
                    raise DomainDataError(
                        f"{what} missing in {mask.sum():,} of {rows:,} rows (first: row "
                        f"{np.flatnonzero(mask)[0] + 1:,}). Fill in the values, or leave these "
                        f"rows out ({Setting('skip_incomplete', True)})."
                    )
            return None, ()
        left_out = np.logical_or.reduce(list(gone.values()))
        note = (
            f"{counted(int(left_out.sum()), 'row')} of {rows:,} without a target, domain, order "
            f"or weight are left out ({Setting('skip_incomplete', True)})."
        )
        return ~left_out, (note,)


def _with_dates(name: str, times: Column | None) -> Column | None:
    """Times as they are, or dates where they are dates in another form than ISO's."""
    if times is None or np.asarray(times).dtype.kind not in "OU":
        return times
    values = np.asarray(times).tolist()
    if not all(value is None or isinstance(value, str) for value in values):
        return times
    found = written_dates(name, np.array([value or "" for value in values], dtype=str))
    return times if found is None else found[0]


def _filled(part: Column | None) -> Column | None:
    """A column with its first value where it has none."""
    gone = np.zeros(0, dtype=bool) if part is None else absent_in(part)
    if part is None or not gone.any() or gone.all():
        return part
    whole = np.array(part)
    whole[gone] = whole[~gone][0]
    return whole


def read_test_table(data: Data, like: Table, missing_values: Collection[str] = ()) -> Table:
    """The same columns from other files, each of the kind that it has in this table."""
    kinds = dict.fromkeys(like.numbers, NUMBER) | dict.fromkeys(like.categories, CATEGORY)
    kinds |= {name: date_kind(like.date_forms.get(name, "")) for name in like.dates}
    target = NUMBER if is_numbers(like.target) else CATEGORY
    wanted = {**kinds, like.target_name: target, **dict.fromkeys(like.domain_columns, DOMAIN)}
    weighted = like.weights is not None
    wanted |= {like.weight_name: NUMBER} if weighted else {}
    columns = read_columns(data, wanted, missing_values=missing_values)
    return Table(
        {name: columns[name] for name in like.columns},
        columns[like.target_name],
        _joined(columns, like.domain_columns),
        like.target_name,
        like.domain_name,
        key=like.key,
        weights=columns[like.weight_name] if weighted else None,
        weight_name=like.weight_name,
    )


def _joined(columns: Mapping[str, Column], names: Sequence[str]) -> Column:
    """The domains that columns of this table name."""
    what = f"The domains ({' and '.join(names)!r})"
    for name in names if len(names) > 1 else ():
        refuse_absent_domains(columns[name], what)
    found: Column = joined_columns([columns[name] for name in names], what)
    return found


def read_columns(
    data: Data,
    kinds: Mapping[str, str],
    also: Sequence[str] = (),
    missing_values: Collection[str] = (),
    needed: Sequence[str] = (),
) -> dict[str, Column]:
    """Columns by name: ``kinds`` says which hold a "number", a "category" or a "date".

    Columns of ``also`` that exist are read as text; those ``needed`` must exist. Missing columns
    are reported by name, and all problems at once.
    """
    problems = Problems()
    with source_of(data) as source:
        refuse_absent([*kinds, *needed], list(source.names))
        extra = {name: CATEGORY for name in also if name in source.names and name not in kinds}
        columns = source.read(kinds, problems, missing_values)
        columns |= source.read(extra, problems)
        problems.refuse(source.label, alone=True)
    if any(len(column) == 0 for column in columns.values()):
        raise DomainDataError(NO_ROWS)
    return columns


def read_domains(
    data: Data, names: Sequence[str]
) -> tuple[NumberedDomains, NDArray[np.bool_]] | None:
    """The domains of the rows that have one, by these columns, and which rows (n,) these are.

    None where the table does not have the columns.
    """
    problems = Problems()
    with source_of(data) as source:
        if not all(source.has_domain(name) for name in names):
            return None
        held = source.read(dict.fromkeys(names, DOMAIN), problems)
        problems.refuse(source.label, alone=True)
    named = ~np.logical_or.reduce([absent_in(held[name]) for name in names])
    held = {name: held[name] if named.all() else held[name][named] for name in names}
    what = f"The domains ({' and '.join(names)!r})"
    return number_domains(_joined(held, names), what=what), named


def read_texts(data: Data, names: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Columns as lists of strings, "" where missing; all columns by default.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "molecules.csv"
    >>> _ = path.write_text("smiles,active\\nCCO,1\\n\\nCO,\\n")
    >>> read_texts(path, ["active", "smiles"])
    {'active': ['1', ''], 'smiles': ['CCO', 'CO']}
    """
    if names is not None and not names:
        return {}
    problems = Problems()
    with source_of(data) as source:
        asked = source.names if names is None else names
        found = source.read(dict.fromkeys(asked, CATEGORY), problems)
        problems.refuse(source.label, alone=True)
    return {name: column.tolist() for name, column in found.items()}


def read_as_stored(files: str | Path | Sequence[str | Path], names: Sequence[str]) -> Any:
    """Columns as an Arrow table, with the types they have in the files (text in CSV files)."""
    import pyarrow

    paths = [files] if isinstance(files, (str, Path)) else list(files)
    with opened(paths, None, MEMORY) as source:
        wanted = ", ".join(source.column(name) for name in names)
        return pyarrow.Table.from_batches(
            source.batches(f"SELECT {wanted} FROM {source.source}", BATCH)
        )
