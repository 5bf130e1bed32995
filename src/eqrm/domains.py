"""What a domain is called, from any input.

A domain is named by an integer or a string, and its name never depends on the other domains:

- integers, and floating-point numbers without a fraction, are integers: 7, also for 7.0;
- strings are themselves; a blank string is missing;
- booleans are ``True`` and ``False``;
- dates are ``2013-01-31``; moments within a day are ``2013-01-31 17:45:00``, with a fraction of
  the second where there is one; with a time zone they are in UTC: ``2013-01-31 16:45:00+00:00``;
- categories are named by their values;
- missing values (None, NaN, NaT, NA) and fractions are errors.

Names are sorted: integers, and strings that are integers in plain digits, by size (2 comes before
10), then other strings alphabetically. A CSV file has no integers, so names are compared as
strings.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.text import listed

Name = int | str
ADVICE = "Give such rows a domain of their own, or drop them."
SEPARATOR = " | "
"""Between the parts of a joined name; a | inside a part is escaped, so that names can be split."""


@dataclass(frozen=True, eq=False)
class NumberedDomains:
    """The domain of each of n rows: ``ids`` (n,) into ``names`` (m,), which are in order."""

    ids: NDArray[np.int64]
    names: tuple[Name, ...]


def number_domains(values: Any, rows: int | None = None, what: str = "domains") -> NumberedDomains:
    """Number the domains of rows in the order of their names.

    ``values`` has one value per row: a list, an array, a tensor, a column of pandas, polars or
    Arrow, or domains that are numbered already. ``rows`` is how many there must be, and ``what``
    names them in errors.
    """
    if isinstance(values, NumberedDomains) and rows in (None, len(values.ids)):
        return values
    column = _column(values, rows, what)
    if hasattr(column, "codes"):
        codes, categories = np.asarray(column.codes), list(column.categories)
        _refuse_missing(np.flatnonzero(codes < 0), len(codes), what)
        used, ids = np.unique(codes, return_inverse=True)
        return _ordered(ids, [categories[int(code)] for code in used], what)
    if isinstance(column, np.ndarray):
        return _of_array(column, what)
    return _of_objects(column, what)


def domain_names(values: Iterable[Any], what: str = "domains") -> list[Name]:
    """The names of domains that are given one by one, in the order given.

    Strings that are all integers in plain digits become integers, as in a Parquet file.
    """
    given = list(values)
    _refuse_missing([i for i, value in enumerate(given) if is_missing(value)], len(given), what)
    names = [_name(value, what) for value in given]
    if all(isinstance(name, int) or _is_plain_integer(name) for name in names):
        return [int(name) for name in names]
    return [str(name) for name in names]


def name_order(name: Name) -> tuple[bool, int, str]:
    """A key to sort names by: integers by size, then strings alphabetically."""
    if isinstance(name, int) or _is_plain_integer(name):
        return (False, int(name), str(name))
    return (True, 0, name)


def joined_name(parts: Sequence[Any]) -> str | None:
    """The name of a domain that several columns define; None if one of them is missing."""
    if any(is_missing(part) for part in parts):
        return None
    return SEPARATOR.join(str(_name(part, "domains")).replace("|", "\\|") for part in parts)


def joined_columns(columns: Sequence[Any], what: str = "domains") -> Any:
    """The domain of each row where one or several columns define it: the one place that joins them.

    One column is itself; several give an array of :func:`joined_name`.
    """
    if len(columns) == 1:
        return columns[0]
    first = number_domains(columns[0], what=what)
    others = [number_domains(column, len(first.ids), what) for column in columns[1:]]
    codes, shape = first.ids, [len(first.names)]
    for part in others:
        codes, shape = codes * len(part.names) + part.ids, [*shape, len(part.names)]
    distinct, place = np.unique(codes, return_inverse=True)
    parts = zip(np.unravel_index(distinct, shape), (first, *others), strict=True)
    named = [[part.names[i] for i in ids] for ids, part in parts]
    return np.array([joined_name(row) for row in zip(*named, strict=True)], dtype=object)[place]


class NumberAsName(str):
    """A column of numbers of which each is a name of its own: settings, as members of domains."""


@dataclass(frozen=True)
class DomainKey:
    """The columns that name a domain: those of a group, then those of a member within the group.

    Without ``members`` the domains are not nested, and the ``groups`` are the domains.
    """

    UNNAMED: ClassVar[DomainKey]
    """Groups and members that were given as arrays, without names of columns."""

    groups: tuple[str, ...]
    members: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, domains: str | Sequence[str], within: str | Sequence[str] | None = None
    ) -> DomainKey:
        """From the names of one column or several; a column may be named once."""
        given = (domains, within or ())
        groups, members = ((one,) if isinstance(one, str) else tuple(one) for one in given)
        columns = [*groups, *members]
        repeated = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
        if repeated:
            raise SettingError(
                f"The column {listed(repeated)} is given more than once for the domain "
                f"({Setting('domains')}, {Setting('within')}). Give every column once."
            )
        return cls(groups, members)

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them, in the order in which names are joined."""
        return (*self.groups, *self.members)

    @property
    def label(self) -> str:
        """What messages call the domains."""
        return " and ".join(self.columns)

    @property
    def labels(self) -> tuple[str, str] | None:
        """What groups and members are called; None where they have no names."""
        if self == self.UNNAMED:
            return None
        return " and ".join(self.groups), " and ".join(self.members)

    @property
    def unit(self) -> str:
        """What splits keep whole, and training has seen or not: "group" or "domain"."""
        return "group" if self.members else "domain"

    def group_of(self, name: Name) -> str:
        """The group that a domain is in, from its joined name."""
        parts = str(name).split(SEPARATOR)[: len(self.groups)]
        return parts[0].replace("\\|", "|") if len(self.groups) == 1 else SEPARATOR.join(parts)

    def member_of(self, name: Name) -> str:
        """The member within its group, likewise."""
        parts = str(name).split(SEPARATOR)[len(self.groups) :]
        return parts[0].replace("\\|", "|") if len(parts) == 1 else SEPARATOR.join(parts)


DomainKey.UNNAMED = DomainKey(("group",), ("member",))


def places_among(names: Iterable[Name], others: Iterable[Name]) -> NDArray[np.int64]:
    """The place of each name among others, −1 where it is none of them; 2 and "2" are one name."""
    place = {str(other): i for i, other in enumerate(others)}
    return np.array([place.get(str(name), -1) for name in names], dtype=np.int64)


def named_domains(names: Sequence[Name]) -> str:
    """The first few of some domains, for a message."""
    return f"domain{'' if len(names) == 1 else 's'} {listed(names)}"


def _column(values: Any, rows: int | None, what: str) -> Any:
    """One value per row: a categorical, an array that numpy can sort, or a list of objects."""
    if isinstance(values, (str, bytes, dict, set, frozenset)) or not hasattr(values, "__len__"):
        raise DomainDataError(
            f"{what} must be a list, an array or a column with the domain of each row, got "
            f"{type(values).__name__}."
        )
    shape = tuple(getattr(values, "shape", (len(values),)))
    if len(shape) == 2 and shape[1] == 1:
        values = values.iloc[:, 0] if hasattr(values, "iloc") else np.asarray(values)[:, 0]
        shape = shape[:1]
    if len(shape) != 1 or (rows is not None and shape != (rows,)):
        raise DomainDataError(
            f"{what} must hold one domain per row"
            f"{'' if rows is None else f': there are {rows:,} rows'}, got the shape {shape}."
        )
    categorical = getattr(values, "cat", values)
    if hasattr(categorical, "codes") and hasattr(categorical, "categories"):
        return categorical
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    return _plain_column(values)


def _plain_column(values: Any) -> NDArray[Any] | Sequence[Any]:
    if isinstance(values, (list, tuple)):
        return values
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind in ("i", "u", "f", "b", "M") and hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        plain = values.dtype.kind in "biufM" and not np.ma.is_masked(values)
        return values if plain else values.tolist()
    as_list = next((m for m in ("to_list", "to_pylist", "tolist") if hasattr(values, m)), None)
    return list(getattr(values, as_list)() if as_list else values)


def _of_array(array: NDArray[Any], what: str) -> NumberedDomains:
    if array.dtype.kind in "fM":
        _refuse_missing(np.flatnonzero(array != array), len(array), what)
    if array.dtype.kind in "iu" and array.size:
        low, high = int(array.min()), int(array.max())
        if high - low < 4 * array.size + 1024:  # integers that lie close together are counted
            shifted = array.astype(np.int64) - low
            present = np.bincount(shifted) > 0
            names = np.flatnonzero(present) + low
            return NumberedDomains((np.cumsum(present) - 1)[shifted], tuple(names.tolist()))
    found, ids = np.unique(array, return_inverse=True)
    values = list(found) if array.dtype.kind == "M" else found.tolist()
    return _ordered(ids.reshape(-1), values, what)


def _of_objects(column: Sequence[Any], what: str) -> NumberedDomains:
    """By a dictionary: several times as fast as sorting strings, with one check per value."""
    try:
        distinct = set(column)
        if not all(isinstance(value, str) for value in distinct):
            # 1, 1.0 and True are equal, and still not of one kind.
            column = [(value.__class__, value) for value in column]
            distinct = set(column)
    except TypeError:
        odd = next((value for value in column if not isinstance(value, Hashable)), column[0])
        raise DomainDataError(
            f"{what} must be integers, strings or dates, one per row, got {odd!r}."
        ) from None
    places = {value: place for place, value in enumerate(distinct)}
    ids = np.fromiter(map(places.__getitem__, column), dtype=np.int64, count=len(column))
    values = [value[1] if isinstance(value, tuple) else value for value in places]
    missing = [place for place, value in enumerate(values) if is_missing(value)]
    if missing:
        _refuse_missing(np.flatnonzero(np.isin(ids, missing)), len(column), what)
    return _ordered(ids, values, what)


def _ordered(ids: NDArray[Any], values: list[Any], what: str) -> NumberedDomains:
    """Distinct values by name and in order; values of the same name are one domain.

    A mixture of integers and strings is refused, in which 1 and '1' are ambiguous.
    """
    kinds = sorted({_kind(value) for value in values})
    if len(kinds) > 1:
        raise DomainDataError(
            f"{what} must all be of one kind, got {' and '.join(kinds)}. Convert them to strings: "
            "[str(name) for name in domains]."
        )
    names = [_name(value, what) for value in values]
    ordered = sorted(set(names), key=name_order)
    place = {name: i for i, name in enumerate(ordered)}
    renumbered = np.array([place[name] for name in names], dtype=np.int64)
    return NumberedDomains(renumbered[ids] if len(ids) else ids, tuple(ordered))


def _name(value: Any, what: str) -> Name:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (complex, float, np.inexact)):
        if isinstance(value, (complex, np.complexfloating)) or not float(value).is_integer():
            raise DomainDataError(
                f"{what} must be integers, strings or dates, got {value!r}. Group such numbers "
                "first, or convert them to strings."
            )
        return int(value)
    if isinstance(value, np.datetime64):
        return _moment(np.datetime_as_string(value.astype("datetime64[ns]")).replace("T", " "))
    if isinstance(value, datetime):
        nanoseconds = f"{getattr(value, 'nanosecond', 0):03d}"
        if value.tzinfo is None:
            return _moment(f"{value:%Y-%m-%d %H:%M:%S.%f}{nanoseconds}")
        utc = value.astimezone(timezone.utc)
        return f"{_moment(f'{utc:%Y-%m-%d %H:%M:%S.%f}{nanoseconds}', whole_days=False)}+00:00"
    return value.isoformat() if isinstance(value, date) else str(value)


def _moment(text: str, *, whole_days: bool = True) -> str:
    """A time without trailing zeros; midnight is the day alone."""
    bare = text.rstrip("0").rstrip(".") if "." in text else text
    bare = bare if bare.count(":") == 2 else text[:19]  # rstrip took zeros of the seconds
    return bare[:10] if whole_days and bare[10:] == " 00:00:00" else bare


def _is_plain_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= 18 and str(int(text)) == text


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "strings"
    if isinstance(value, (bool, np.bool_)):
        return "booleans"
    if isinstance(value, (int, float, np.integer, np.floating)):
        return "numbers"
    return "dates" if isinstance(value, (date, np.datetime64)) else f"{type(value).__name__}s"


def _refuse_missing(rows: Sequence[int] | NDArray[Any], total: int, what: str) -> None:
    if len(rows):
        raise DomainDataError(
            f"{what} are missing in {len(rows):,} of {total:,} rows (first: row {int(rows[0])}, "
            f"counted from 0). {ADVICE}"
        )
