"""When each domain was: dates, moments or numbers, from any input.

A time is a number, or a date in ISO form: ``2013-01-31``, ``2013-01`` (its first moment) or
``2013-01-31 17:45:00``, in UTC where there is a time zone. A domain lasts from the earliest to the
latest time of its rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_integer, is_missing, is_number
from eqrm.data.tables.frames import in_memory
from eqrm.domains import Name, domain_names
from eqrm.errors import DomainDataError, Setting
from eqrm.text import counted, listed

Times = NDArray[Any]
"""int64 or float64 for numbers, datetime64[us] for dates: they are compared, nothing else."""
MOMENT = "datetime64[us]"
_ISO = re.compile(
    r"\d{4}-\d{2}(-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?)?"
)
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER, _DATE, _ZONED = "numbers", "dates", "dates with a time zone"


@dataclass(frozen=True, eq=False)
class DomainSpans:
    """The earliest and the latest time of each of m domains, ``first`` (m,) and ``last`` (m,)."""

    first: Times
    last: Times

    @property
    def order(self) -> NDArray[np.int64]:
        """(m,) the domains by their earliest time; those of the same time keep their order."""
        return np.argsort(self.first, kind="stable")

    def starts(self, wanted: Sequence[int]) -> list[int]:
        """The places but 0 at which a new time begins (:attr:`limits`) nearest to those wanted."""
        places = self.limits[1:-1]
        return [int(places[np.abs(places - place).argmin()]) for place in wanted if places.size]

    @property
    def limits(self) -> NDArray[np.int64]:
        """The places in :attr:`order` at which a time begins, from 0, and the end."""
        arranged = self.first[self.order]
        inner = np.flatnonzero(arranged[1:] != arranged[:-1]) + 1
        return np.concatenate([[0], inner, [len(arranged)]])

    def latest_before(
        self, moment: Any, gap: int = 0, most: int | None = None
    ) -> NDArray[np.int64]:
        """The latest ``most`` domains that end before a moment, less the last ``gap``."""
        by_end = np.argsort(self.last, kind="stable")
        earlier: NDArray[np.int64] = by_end[self.last[by_end] < moment]
        return earlier[: max(0, len(earlier) - gap)][-(most or 0) :]


def domain_spans(
    ids: NDArray[np.int64], names: Sequence[Name], times: Any, what: str, remedy: str
) -> DomainSpans:
    """From when to when each domain lasts: by the times of its rows (n,), or else by its name.

    ``what`` names them in errors, and ``remedy`` is what to do where names are no times.
    """
    if times is None:
        named = as_times(names, what, remedy)
        return DomainSpans(named, named)
    moments = as_times(times, what)
    if moments.shape != ids.shape:
        raise DomainDataError(
            f"{what} must hold one time per row: there are {len(ids):,} rows, got the shape "
            f"{moments.shape}."
        )
    order = np.lexsort((moments, ids))
    ends = np.cumsum(np.bincount(ids, minlength=len(names)))
    starts = np.concatenate([[0], ends[:-1]])
    return DomainSpans(moments[order[starts]], moments[order[ends - 1]])


def order_remedy() -> str:
    """What to do where the names of domains do not tell their order."""
    return f"Name the column that orders the domains ({Setting('order', 'COLUMN')})."


def as_times(values: Any, what: str, remedy: str = "") -> Times:
    """Times (n,) that can be compared; missing ones and other things are refused by their rows."""
    array = in_memory(values)
    if array.ndim != 1:
        raise DomainDataError(f"{what}: one time per row is needed, got the shape {array.shape}.")
    if array.dtype.kind in "fM":
        _refuse_missing(np.flatnonzero(array != array), array, what)
    if array.dtype.kind == "M":
        return array.astype(MOMENT)
    if array.dtype.kind == "i" or (array.dtype.kind == "f" and np.isfinite(array).all()):
        return array.astype(np.int64 if array.dtype.kind == "i" else np.float64)
    objects = array.tolist()
    try:
        places = {value: place for place, value in enumerate(dict.fromkeys(objects))}
    except TypeError:
        raise DomainDataError(f"{what} must be dates or numbers, one per row.") from None
    ids = np.fromiter(map(places.__getitem__, objects), dtype=np.int64, count=len(objects))
    missing = [place for value, place in places.items() if is_missing(value)]
    _refuse_missing(np.flatnonzero(np.isin(ids, missing)), array, what)
    parsed = [_parsed(value) for value in places]
    wrong = np.flatnonzero(np.array([each is None for each in parsed])[ids])
    if wrong.size:
        raise DomainDataError(
            f"{what} must be dates such as 2013-01-31 or numbers, got {objects[wrong[0]]!r}"
            + (f". {remedy}" if remedy else f" ({_rows(wrong)}).")
        )
    kinds = sorted({each[0] for each in parsed if each is not None})
    if len(kinds) > 1:
        raise DomainDataError(f"{what} must be of one kind, got {' and '.join(kinds)}.")
    return np.array([each[1] for each in parsed if each is not None])[ids]


def last_moment_of(given: Any, times: Times, what: str) -> Any:
    """The last moment of a day, a month or a year, or the moment itself, like ``times``."""
    dates = times.dtype.kind == "M"
    if dates and re.fullmatch(r"\d{4}", str(given)):
        period = np.datetime64(str(given))
    else:
        found = _parsed(given)
        if found is None or (found[0] == _NUMBER) is dates:
            kind = "a date such as 2013-09-30" if dates else "a number"
            raise DomainDataError(
                f"Cannot test after {given!r}: the times of {what} are "
                f"{'dates' if dates else 'numbers'}, so {kind} is needed."
            )
        whole = isinstance(given, str) and len(given.strip()) <= len("2013-09-30")
        if not dates or not (whole or type(given) is date):
            return found[1]
        period = np.datetime64(str(given).strip())
    return (period + 1).astype(MOMENT) - np.timedelta64(1, "us")


def shown_time(time: Any) -> str:
    """A time in words."""
    if is_integer(time) or not is_number(time):
        return str(domain_names([time.item()])[0])
    return f"{time:.15g}"


def moment_of(value: Any) -> np.datetime64 | None:
    """The moment of a date or of a date in text, NaT of None; None where it is anything else."""
    if value is None:
        return np.datetime64("NaT", "us")
    found = _parsed(value)
    return None if found is None or found[0] == _NUMBER else found[1]


def _parsed(value: Any) -> tuple[str, Any] | None:
    """Kind and time of one value; None where it is neither a date nor a finite number."""
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return _DATE, np.datetime64(value, "us")
        utc = value.astimezone(timezone.utc).replace(tzinfo=None)
        return _ZONED, np.datetime64(utc, "us")
    if isinstance(value, (date, np.datetime64)):
        return _DATE, np.datetime64(value).astype(MOMENT)
    return (_NUMBER, value) if is_number(value) else None


def _of_text(text: str) -> tuple[str, Any] | None:
    match = _ISO.fullmatch(text)
    try:
        if match is None:
            number = int(text) if _INTEGER.fullmatch(text) else float(text)
            return (_NUMBER, number) if is_number(number) and "_" not in text else None
        zone = match["zone"] or ""
        moment = np.datetime64(text.removesuffix(zone), "us")
    except ValueError:
        return None
    if zone in ("", "Z"):
        return (_ZONED if zone else _DATE), moment
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    ahead = np.timedelta64(-minutes if zone[0] == "-" else minutes, "m")
    return _ZONED, moment - ahead


def _refuse_missing(rows: NDArray[np.int64], array: NDArray[Any], what: str) -> None:
    if rows.size:
        raise DomainDataError(
            f"{what} is missing in {rows.size:,} of {counted(len(array), 'row')} ({_rows(rows)}). "
            "Fill it in, or leave these rows out."
        )


def _rows(rows: NDArray[np.int64]) -> str:
    return f"row{'' if rows.size == 1 else 's'} {listed(rows.tolist())}, counted from 0"
