"""Windows that slide over domains in time: parts that follow each other, with gaps between them.

With a *rolling* origin every part keeps its length; with an *expanding* one the first part always
begins with the first domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import numpy as np
from numpy.typing import NDArray

from eqrm.data.times import MOMENT, DomainSpans, shown_time
from eqrm.domains import Name, named_domains
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.text import counted

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TimeWindow:
    """Parts of the domains (their numbers, in the order of time), each later than the one before.

    ``left_out`` are domains that begin in a part and last into the next one: in the earlier part
    they would tell about the future.
    """

    parts: tuple[Places, ...]
    left_out: Places


def rolling_windows(
    spans: DomainSpans,
    sizes: Sequence[int],
    *,
    gap: int = 0,
    step: int | None = None,
    expanding: bool = False,
) -> list[TimeWindow]:
    """All windows that fit, from the earliest domains to the latest.

    ``sizes`` are the numbers of domains in the parts, ``gap`` how many domains lie between two
    parts, and ``step`` how many domains later the next window begins, by default the length of the
    last part. Domains that begin at the same time stay together: a part then ends a little later.
    """
    step = sizes[-1] if step is None else step
    order, limits = spans.order, spans.limits
    found: dict[tuple[int, ...], TimeWindow] = {}
    start = 0
    while True:
        cuts = _cuts(start, sizes, gap, limits)
        if cuts is None:
            return list(found.values())
        if expanding:
            cuts = (0, *cuts[1:])
        parts = [order[low:high] for low, high in zip(cuts[::2], cuts[1::2], strict=True)]
        if all(len(part) for part in parts):  # domains of one time may leave nothing for a part
            found.setdefault(cuts, _separated(spans, parts))
        start += step


def _cuts(start: int, sizes: Sequence[int], gap: int, limits: Places) -> tuple[int, ...] | None:
    """Where each part begins and ends; None where the domains end before the last part does."""
    places, at = [], start
    for size in sizes:
        places += [at, at + size]
        at += size + gap
    if places[-1] > limits[-1]:
        return None
    return tuple(limits[np.searchsorted(limits, places)].tolist())


def _separated(spans: DomainSpans, parts: Sequence[Places]) -> TimeWindow:
    """The parts without the domains that last into the next one."""
    kept, left_out = [], []
    for part, later in zip(parts, [*parts[1:], None], strict=True):
        ends = np.ones(len(part), dtype=bool)
        if later is not None and len(later):
            ends = spans.last[part] < spans.first[later].min()
        kept.append(part[ends])
        left_out.append(part[~ends])
    return TimeWindow(tuple(kept), np.concatenate(left_out))


def refuse_longer(domains: int, sizes: Mapping[str, int], gap: int) -> None:
    """Raise if not even one window fits."""
    gaps = len(sizes) - 1
    length = sum(sizes.values()) + gaps * gap
    if length > domains:
        parts = [f"{name} {size}" for name, size in sizes.items()]
        parts += [f"{counted(gaps, 'gap')} of {gap}"] if gap else []
        raise SettingError(
            f"A window of {length} domains ({', '.join(parts)}) does not fit: there are "
            f"{counted(domains, 'domain')}. Shorten it by at least {length - domains}."
        )


def refuse_unfit_times(
    spans: DomainSpans, names: Sequence[Name], shortest: int, *, named: bool
) -> None:
    """Raise if times are unfit for windows: in the future, repeated, or spread out.

    ``shortest`` is the length of the shortest part; ``named`` says that the names are the times.
    """
    found = []
    if spans.last.dtype.kind == "M":
        tomorrow = datetime.now(timezone.utc).replace(tzinfo=None) + timedelta(days=1)
        ahead = np.flatnonzero(spans.last > np.datetime64(tomorrow).astype(MOMENT))
        if ahead.size:
            latest = shown_time(spans.last[ahead].max())
            who = named_domains([names[int(i)] for i in ahead])
            found.append(f"The times of {who} are in the future ({latest}). Correct the dates.")
    if named:
        again = np.flatnonzero(np.diff(spans.limits) > 1)
        if again.size:
            first = spans.limits[again[0]]
            one, other = (names[int(i)] for i in spans.order[first : first + 2])
            pairs = len(spans.order) - len(spans.limits) + 1
            found.append(
                f"Domains are repeated: {one!r} and {other!r} are the same time, as are "
                f"{counted(pairs, 'pair')} in all. Give each domain one name, or name the column "
                f"that orders them ({Setting('order', 'COLUMN')})."
            )
    else:
        found += _spread_out(spans, names, shortest)
    if found:
        raise DomainDataError(" ".join(found))


def _spread_out(spans: DomainSpans, names: Sequence[Name], shortest: int) -> list[str]:
    """Domains that are still there when a whole part of others has begun."""
    at_once = int(np.diff(spans.limits).max())
    reach = np.searchsorted(spans.first[spans.order], spans.last[spans.order], side="right")
    long = np.flatnonzero(reach - np.arange(len(reach)) > max(shortest, at_once))
    if not long.size:
        return []
    who = [names[i] for i in spans.order[long]]
    first, last = (shown_time(t[spans.order[long[0]]]) for t in (spans.first, spans.last))
    return [
        f"Rows of {named_domains(who)} come again after {counted(shortest, 'other domain')} or "
        f"more have begun ({who[0]!r}: {first} to {last}). Windows need domains that end before "
        "later ones begin, such as days, or hospital and month together."
    ]
