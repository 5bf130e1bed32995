"""Tables from CSV and Parquet files, or from frames in memory; all their problems at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import Problems
from eqrm.data.tables.columns import Column, missing_in
from eqrm.data.tables.encoded_columns import kind_held
from eqrm.data.tables.files import opened
from eqrm.data.tables.frames import refuse_absent
from eqrm.data.tables.kinds import CATEGORY, DOMAIN, NUMBER, TARGET, written_dates
from eqrm.data.tables.sources import MEMORY, Data, FileSource, FrameSource, source_of
from eqrm.data.tables.table import NO_ROWS, Table
from eqrm.domains import DomainKey, NumberedDomains, joined_columns, number_domains
from eqrm.errors import DomainDataError, Setting
from eqrm.text import counted

BATCH = 100_000
Inspect = Callable[[Mapping[str, Column], Column | None], None]
"""Raises for further problems of features and target, where no table can be made."""


@dataclass(frozen=True)
class TableColumns:
    """Which column of a table is what.

    Several columns of ``domain`` are joined into one domain, and ``"filename"`` makes each file
    one. With ``within`` the domains are nested: ``domain`` are the columns of the groups
    (hospital), ``within`` those of their members (ward), which are the domains. ``features`` are
    all other columns but ``drop``, unless they are listed; ``categories`` are taken as categories
    although they look like numbers or dates. ``order`` is the column with the time of each row; it
    may be the domain. ``weight`` is how much each row counts within its domain. ``skip_incomplete``
    leaves out rows whose target, domain, order or weight is missing, which is refused otherwise.
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

    def read(self, data: Data, inspect: Inspect | None = None) -> Table:
        """The table; what is wrong with its columns and rows is one error."""
        key, problems, forms = DomainKey.of(self.domain, self.within), Problems(), dict[str, str]()
        order = None if (self.order,) == key.columns else self.order
        missing = self.missing_values
        with source_of(data) as source:
            names = self._features(source, key, order)
            kinds = {name: CATEGORY if name in self.categories else "" for name in names}
            kinds |= {self.target: TARGET, **dict.fromkeys(key.columns, DOMAIN)}
            columns = source.read(kinds, problems, missing, forms)
            # Apart: as a feature the same column is of another kind.
            extra = {name: k for name, k in ((order, DOMAIN), (self.weight, NUMBER)) if name}
            others = source.read(extra, problems, missing)
        features = {name: columns[name] for name in names if name in columns}
        parts: dict[str, Any] = {"target": columns.get(self.target), "domains": None}
        parts |= {"order": others.get(order or ""), "weights": others.get(self.weight or "")}
        with problems.noted():
            parts["domains"] = _joined(columns, key.columns)
            parts["order"] = _with_dates(order or "", parts["order"])

        if parts["target"] is not None and parts["domains"] is not None:
            with problems.noted():
                held, rows, notes = (
                    _complete(features, parts) if self.skip_incomplete else (features, parts, ())
                )
                table = Table(
                    held,
                    **rows,
                    target_name=self.target,
                    domain_name=key.label,
                    order_name=order or "order",
                    key=key if len(key.columns) > 1 else None,
                    weight_name=self.weight or "weight",
                    asked=self.asked,
                    missing_values=tuple(missing),
                    date_forms={name: form for name, form in forms.items() if name in features},
                    notes=notes,
                )
        if problems and inspect is not None:
            with problems.noted():
                inspect(features, parts["target"])
        problems.refuse(source.label, alone=True)
        return table

    def _features(
        self, source: FileSource | FrameSource, key: DomainKey, order: str | None
    ) -> list[str]:
        """The names of the features; raises if columns do not exist, or have two roles."""
        problems, others = Problems(), [name for name in (order, self.weight) if name is not None]

        def refuse(text: str) -> None:
            with problems.noted():
                raise DomainDataError(text)

        asked = [self.target, *key.columns, *others, *self.asked, *self.drop]
        for name in dict.fromkeys(asked):
            if name not in key.columns or name in source.names or not source.has_domain(name):
                with problems.noted():
                    source.check(name)
        for name in (*key.columns, *others):
            if name == self.target:
                refuse(f"The target {name!r} cannot also be the domain, the order or the weight.")
        names = list(source.names if self.features is None else dict.fromkeys(self.features))
        for name in (self.target, *key.columns):
            if self.features is not None and name in names:
                refuse(f"The column {name!r} is the target or the domain and cannot be a feature.")
        left_out = {self.target, *key.columns, *self.drop, *(() if self.features else others)}
        found = [name for name in names if name not in left_out]
        if not found:
            refuse(
                f"The table has no feature columns besides the target {self.target!r} and the "
                f"domain {' and '.join(map(repr, key.columns))}."
            )
        problems.refuse(source.label, alone=True)
        return found


def read_table(data: Data, target: str, domain: str | Sequence[str], **options: Any) -> Table:
    """A table from CSV or Parquet files, patterns or folders, or from a frame in memory.

    ``options`` are the other fields of :class:`TableColumns`. What is wrong with the table is one
    error.
    """
    return TableColumns(target, domain, **options).read(data)


def _joined(columns: Mapping[str, Column], names: Sequence[str]) -> Column | None:
    """The domains that columns name; None in rows where one of several has none."""
    if len(names) == 1 or any(name not in columns for name in names):
        return columns.get(names[0])
    gone = np.logical_or.reduce([missing_in(columns[name]) for name in names])
    whole = np.full(len(gone), None, dtype=object)
    what = f"The domains ({' and '.join(names)!r})"
    if not gone.all():
        whole[~gone] = joined_columns([columns[name][~gone] for name in names], what)
    return whole


def _complete(
    features: Mapping[str, Column], parts: Mapping[str, Any]
) -> tuple[dict[str, Column], dict[str, Any], tuple[str, ...]]:
    """Features and parts without rows that lack one of the parts, and a note about these."""
    gone = np.logical_or.reduce([missing_in(part) for part in parts.values() if part is not None])
    note = (
        f"{counted(int(gone.sum()), 'row')} of {len(gone):,} without a target, domain, order or "
        f"weight are left out ({Setting('skip_incomplete', True)})."
    )
    return (
        {name: column[~gone] for name, column in features.items()},
        {what: None if part is None else np.asarray(part)[~gone] for what, part in parts.items()},
        (note,) if gone.any() else (),
    )


def _with_dates(name: str, times: Column | None) -> Column | None:
    """Times as they are, or dates where they are dates in another form than ISO's."""
    values = [] if times is None else np.asarray(times).tolist()
    if not any(isinstance(value, str) for value in values):
        return times
    text = np.array([value if isinstance(value, str) else "" for value in values], dtype=str)
    found = written_dates(name, text)
    return times if found is None else found[0]


def read_test_table(data: Data, like: Table) -> Table:
    """The same columns from other files, each of the kind that it has in this table."""
    kinds = {name: kind_held(column) for name, column in like.columns.items()}
    kinds |= {like.target_name: kind_held(like.target)}
    kinds |= dict.fromkeys(like.domain_key.columns, DOMAIN)
    kinds |= {} if like.weights is None else {like.weight_name: NUMBER}
    missing = like.missing_values
    columns = read_columns(data, kinds, missing_values=missing, forms=like.date_forms)
    domains: Any = _joined(columns, like.domain_key.columns)
    return Table(
        {name: columns[name] for name in like.columns},
        columns[like.target_name],
        domains,
        like.target_name,
        like.domain_name,
        key=like.key,
        weights=None if like.weights is None else columns[like.weight_name],
        weight_name=like.weight_name,
    )


def read_columns(
    data: Data,
    kinds: Mapping[str, str],
    also: Sequence[str] = (),
    missing_values: Collection[str] = (),
    needed: Sequence[str] = (),
    forms: Mapping[str, str] | None = None,
) -> dict[str, Column]:
    """Columns by name, of the kinds "number", "category" or "date"; all problems are one error.

    Columns of ``also`` that exist are read as text; those ``needed`` must exist. ``forms`` are
    those of dates that are not ISO's.
    """
    problems = Problems()
    with source_of(data) as source:
        refuse_absent([*kinds, *needed], source.names)
        extra = {name: CATEGORY for name in also if name in source.names and name not in kinds}
        columns = source.read(kinds, problems, missing_values, dict(forms or {}))
        columns |= source.read(extra, problems)
        problems.refuse(source.label, alone=True)
    if any(len(column) == 0 for column in columns.values()):
        raise DomainDataError(NO_ROWS)
    return columns


def read_domains(
    data: Data, names: Sequence[str]
) -> tuple[NumberedDomains, NDArray[np.bool_]] | None:
    """The domains of the rows that have one, and which (n,) these are; None without the columns."""
    problems = Problems()
    with source_of(data) as source:
        if not all(source.has_domain(name) for name in names):
            return None
        held: Any = _joined(source.read(dict.fromkeys(names, DOMAIN), problems), names)
        problems.refuse(source.label, alone=True)
    named = ~missing_in(held)
    held = held if named.all() else held[named]
    return number_domains(held, what=f"The domains ({' and '.join(names)!r})"), named


def read_texts(data: Data, names: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Columns as lists of strings, "" where missing; all columns by default."""
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

    with opened(files, None, MEMORY) as source:
        wanted = ", ".join(source.column(name) for name in names)
        return pyarrow.Table.from_batches(
            source.batches(f"SELECT {wanted} FROM {source.source}", BATCH)
        )
