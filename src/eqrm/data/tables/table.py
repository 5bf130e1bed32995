"""A table in memory: columns by name, a target, and the domain of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import OPEN_FRACTION, Problems
from eqrm.data.splits import HeldOutInTime, TimeSplit, parts_of_domains, split_in_time
from eqrm.data.tables.columns import (
    Column,
    as_column,
    is_dates,
    is_numbers,
    refuse_missing,
)
from eqrm.data.tables.frames import data_frame, refuse_absent
from eqrm.data.times import as_times
from eqrm.domains import (
    DomainKey,
    NumberedDomains,
    domain_names,
    name_order,
    number_domains,
)
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.text import did_you_mean

if TYPE_CHECKING:
    from pandas import DataFrame

NO_ROWS = "The table has no rows: at least one is needed."


@dataclass(frozen=True, eq=False)
class Table:
    """n rows: feature columns by name, a target, and the domain that each row belongs to.

    A feature column holds numbers (float64), categories (text) or dates. The target is numbers or
    text, and never missing; domains are text. ``order`` is the time of each row, as dates or
    numbers, where the domains' names are not their times. ``key`` holds the columns that the
    domains were joined from, where there are several; nested domains are split by whole groups.
    ``weights`` is how much each row counts within its domain. ``asked`` are columns that were asked
    for by name, ``notes`` what was done to the table when it was read.

    >>> table = Table({"age": [31, 57], "ward": ["A", "B"]}, [0, 1], ["Rome", "Oslo"])
    >>> len(table), table.categories, table.domain_names
    (2, ('ward',), ('Oslo', 'Rome'))
    """

    columns: Mapping[str, Column]
    target: Column
    domains: NDArray[np.str_]
    target_name: str = "target"
    domain_name: str = "domain"
    order: Column | None = None
    order_name: str = "order"
    key: DomainKey | None = None
    weights: NDArray[np.float64] | None = None
    weight_name: str = "weight"
    asked: tuple[str, ...] = ()
    missing_values: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    date_forms: Mapping[str, str] = field(default_factory=dict)
    _ids: NDArray[np.int64] = field(init=False, repr=False)
    _names: NDArray[np.str_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        columns, problems = {}, Problems()
        for name, values in self.columns.items():
            with problems.noted():
                columns[str(name)] = as_column(values, name)
        lengths = {f"Column {name!r}": len(column) for name, column in columns.items()}
        with problems.noted():
            self._set(target=_complete(self.target, self.target_name))
        with problems.noted():
            what = f"The domains ({self.domain_name!r})"
            if not isinstance(self.domains, NumberedDomains):
                refuse_missing(f"{what} are", self.domains)
            numbered = number_domains(self.domains, what=what)
            names = np.array([str(name) for name in numbered.names], dtype=str)
            self._set(_ids=numbered.ids, _names=names, domains=names[numbered.ids])
            lengths["The column of domains"] = len(numbered.ids)
        if self.order is not None:
            with problems.noted():
                what = f"The order column ({self.order_name!r})"
                refuse_missing(f"{what} is", self.order)
                self._set(order=as_times(self.order, what))
                lengths["The order column"] = len(self.order)
        if self.weights is not None:
            with problems.noted():
                self._set(weights=_checked_weights(self.weights, self.weight_name))
                lengths["The column of weights"] = len(self.weights)
        rows = len(self.target)
        for what, length in lengths.items():
            if length != rows:
                with problems.noted():
                    raise DomainDataError(
                        f"{what} has {length:,} rows and the target has {rows:,}. All columns "
                        "must have the same number of rows."
                    )
        problems.refuse("The table", alone=True)
        self._set(columns=columns)

    @property
    def domain_key(self) -> DomainKey:
        """The columns of groups and members; without members, the domains are not nested."""
        return DomainKey((self.domain_name,)) if self.key is None else self.key

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.target)

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of the columns that hold text."""
        return tuple(n for n, column in self.columns.items() if column.dtype.kind == "U")

    @property
    def domain_names(self) -> tuple[str, ...]:
        """The names of the domains, each once, in order (2 before 10)."""
        return tuple(self._names[np.unique(self._ids)].tolist())

    @property
    def unit(self) -> str:
        """What splits keep whole: the "group" of nested domains, otherwise the "domain"."""
        return self.domain_key.unit

    @property
    def unit_ids(self) -> NDArray[np.int64]:
        """The unit of each row by number."""
        numbers = {name: number for number, name in enumerate(self.unit_names)}
        of_domain = [numbers.get(name, -1) for name in self._units.tolist()]
        return np.array(of_domain, dtype=np.int64)[self._ids]

    @property
    def unit_names(self) -> tuple[str, ...]:
        """The names of the units, in order."""
        used = self._units[np.unique(self._ids)].tolist()
        return tuple(sorted(dict.fromkeys(used), key=name_order))

    @property
    def _units(self) -> NDArray[np.str_]:
        """The unit of each known domain."""
        if self.key is None or self.unit == "domain":
            return self._names
        return np.array([self.key.group_of(name) for name in self._names.tolist()], dtype=str)

    @property
    def numbered_domains(self) -> NumberedDomains:
        """The domain of each row by number, which others need not number again."""
        used, ids = np.unique(self._ids, return_inverse=True)
        return NumberedDomains(ids, tuple(self._names[used].tolist()))

    def rows(self, chosen: Any) -> Table:
        """The rows that a mask (n,) or an array of positions picks, in that order."""
        chosen = np.asarray(chosen)
        part = copy(self)  # rows of a table that was checked need no check
        part._set(
            columns={name: column[chosen] for name, column in self.columns.items()},
            target=self.target[chosen],
            domains=self.domains[chosen],
            order=None if self.order is None else self.order[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            _ids=self._ids[chosen],
        )
        if len(part) == 0:
            raise DomainDataError(NO_ROWS)
        return part

    def with_features(
        self, features: Sequence[str] | None = None, drop: Sequence[str] = ()
    ) -> Table:
        """The same rows with these feature columns (all unless given), less those to drop."""
        refuse_absent([*(features or ()), *drop], list(self.columns))
        chosen = [name for name in features or self.columns if name not in drop]
        if not chosen:
            raise DomainDataError("No feature is left: keep at least one.")
        return replace(self, columns={name: self.columns[name] for name in chosen})

    def in_domains(self, names: Sequence[str]) -> Table:
        """The rows of these domains, in the table's order; raises for unknown names."""
        return self.rows(self._is_in(names, self._names, self.domain_names, "domain"))

    def _is_in(
        self, names: Sequence[str], named: NDArray[np.str_], known: Sequence[str], what: str
    ) -> NDArray[np.bool_]:
        """Which rows are of domains that are ``named`` so."""
        unknown = [name for name in names if name not in dict.fromkeys(known)]
        if unknown:
            raise DomainDataError(
                f"Unknown {what} {unknown[0]!r}. {did_you_mean(unknown[0], known)}"
            )
        return np.isin(named, list(names))[self._ids]

    def in_time(self, *, after: Any = None, last: float | None = None) -> TimeSplit:
        """Which domains to train on and which later ones to hold out, for :meth:`split`.

        Times are those of ``order``, or else the domains' names. ``after`` holds out the domains
        that begin strictly later; a day, a month or a year means its end. ``last`` holds out a
        share of the domains, the latest to begin. Domains with rows on both sides are left out.
        """
        if self.unit == "group":
            raise SettingError(
                f"Nested domains ({Setting('within')}) are split by whole groups, not in time. "
                f"Leave out {Setting('order')}, {Setting('test_after')} and "
                f"{Setting('test_last')}; or give groups and members as columns of "
                f"{Setting('domain')}, to hold out the later of them."
            )
        name = self.domain_name if self.order is None else self.order_name
        return split_in_time(self.numbered_domains, self.order, after=after, last=last, order=name)

    def in_time_at(self, origins: HeldOutInTime) -> list[TimeSplit]:
        """The splits at several origins, for a sweep; times as for :meth:`in_time`."""
        name = self.domain_name if self.order is None else self.order_name
        return origins.splits(self.numbered_domains, self.order, name)

    def split(
        self, test: float | Sequence[str] | TimeSplit = 0.5, seed: int = 0
    ) -> tuple[Table, Table]:
        """Two tables that share no domain: the one to train on, and the one held out.

        ``test`` is the share of the domains to hold out, drawn with ``seed``, or their names, or
        what :meth:`in_time` gives. Where domains are nested, groups take their place, so that no
        group is in both tables.
        """
        if isinstance(test, TimeSplit):
            return self.in_domains(test.train), self.in_domains(test.test)
        names, what = self.unit_names, self.unit
        if isinstance(test, (int, float)):
            held_out = drawn_names(names, test, seed)
        else:
            held_out = list(dict.fromkeys(map(str, domain_names(test))))
        chosen = self._is_in(held_out, self._units, names, what)
        if len(names) < 2:
            raise SettingError(
                f"At least two {what}s are needed, to train on some and hold out others, got only "
                f"{names[0]!r} in {self.domain_name!r}. Give the data of more, or use another "
                "column as the domain."
            )
        for number, left in ((len(names) - len(held_out), "train on"), (len(held_out), "hold out")):
            if number == 0:
                raise SettingError(
                    f"No {what} of {len(names)} is left to {left}. Hold out "
                    f"{'more' if left == 'hold out' else 'fewer'}."
                )
        return self.rows(~chosen), self.rows(chosen)

    def frame(self) -> DataFrame:
        """Features, target and domain as a pandas data frame."""
        frame = data_frame(self.columns)
        frame[self.target_name] = self.target
        frame[self.domain_name] = self.domains
        return frame

    def X_y_groups(self) -> tuple[DataFrame, Column, NDArray[np.str_]]:
        """What ``fit(X, y, groups=…)`` of scikit-learn takes: features, target, domains."""
        return data_frame(self.columns), self.target, self.domains


def drawn_names(names: Sequence[str], share: float, seed: int) -> list[str]:
    """The names that are held out."""
    OPEN_FRACTION.check(share, "The share of domains to hold out")
    parts: dict[str, Any] = {"train": None, "validation": [], "test": 1.0 - share}
    return [names[number] for number in parts_of_domains(parts, names, seed)["train"]]


def _complete(values: Any, name: str) -> Column:
    """The target: at least one row, nothing missing."""
    column = as_column(values, name)
    if len(column) == 0:
        raise DomainDataError(NO_ROWS)
    if is_dates(column):
        raise DomainDataError(
            f"The target {name!r} holds dates. Predict a number or a class: the days until then, "
            "for example."
        )
    refuse_missing(f"The target {name!r} is", column)
    if is_numbers(column) and not np.isfinite(column).all():
        first = int(np.flatnonzero(~np.isfinite(column))[0])
        raise DomainDataError(f"The target {name!r} is {column[first]} in row {first + 1:,}.")
    return column


def _checked_weights(values: Any, name: str) -> NDArray[np.float64]:
    """Weights of rows: numbers from 0 on, of which one is above 0."""
    found = as_column(values, name)
    if not is_numbers(found):
        raise DomainDataError(f"The weights ({name!r}) must be numbers, got {str(found[0])!r}.")
    refuse_missing(f"The weights ({name!r}) are", found)
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0.0)))
    if wrong.size:
        raise DomainDataError(
            f"The weights ({name!r}) must be numbers of at least 0, got {found[wrong[0]]:g} (row "
            f"{wrong[0] + 1:,}; {wrong.size:,} of {len(found):,} rows)."
        )
    if not found.any():
        raise DomainDataError(f"The weights ({name!r}) are 0 in every row.")
    return found
