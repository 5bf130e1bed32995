"""Which domains are held out: by share or name, in time, and several sets of them for sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, count
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import (
    NON_NEGATIVE_INTEGER,
    OPEN_FRACTION,
    POSITIVE_INTEGER,
    check_fields,
    integer,
    optional,
    ruled,
)
from eqrm.data.times import (
    DomainSpans,
    Times,
    domain_spans,
    last_moment_of,
    order_remedy,
    shown_time,
)
from eqrm.domains import NumberedDomains
from eqrm.errors import DataFileError, Setting, SettingError
from eqrm.text import counted, did_you_mean

IN_TIME = ("order", "test_after", "test_last")
"""Settings that hold out later domains."""
PARTS = ("train", "validation", "test")


def parts_of_domains(
    given: Mapping[str, Sequence[int] | float | None], names: Sequence[str], seed: int
) -> dict[str, list[int]]:
    """The domains of each part: as listed, drawn by share, or (train) what is left.

    A share is of all domains, rounded, at least one. Domains that a list names are never drawn.
    """
    parts = {name: list(part) for name, part in given.items() if isinstance(part, Sequence)}
    taken: dict[int, str] = {}
    for name, numbers in parts.items():
        for number in numbers:
            if number in taken:
                raise SettingError(
                    f"The domain {names[number]!r} is in {taken[number]} and in {name}. "
                    "Each domain can be in only one part: remove it from the other."
                )
            taken[number] = name
    free = [number for number in range(len(names)) if number not in taken]
    order = np.random.default_rng(seed).permutation(free).tolist()
    for name in ("test", "validation"):
        share = given[name]
        if isinstance(share, float):
            if not 0.0 <= share < 1.0:
                raise SettingError(
                    f"The {name} share must be a number from 0 to below 1, got {share:g}. "
                    "To select domains by name, pass a list."
                )
            wanted = max(1, round(share * len(names))) if share > 0 else 0
            if wanted > len(order):
                raise SettingError(
                    f"A {name} share of {share:g} is {wanted} of {len(names)} domains, but only "
                    f"{len(order)} are not used elsewhere. Lower the share."
                )
            parts[name], order = sorted(order[:wanted]), order[wanted:]
    if given["train"] is None:
        parts["train"] = sorted(order)
    return {name: parts[name] for name in PARTS}


@dataclass(frozen=True, eq=False)
class TimeSplit:
    """Domains to train on, later ones to test on, and those that belong to neither, by name.

    Every row of the first is earlier than every row of the second. A domain with rows on both sides
    of the cut is in ``left_out``: to train on it would be to train on the future. ``trained`` and
    ``tested`` are the first and the last time of both parts in words, ``order`` the column that the
    times are from, and ``test_times`` (number of test domains,) when each of them began.
    """

    train: tuple[str, ...]
    test: tuple[str, ...]
    left_out: tuple[str, ...]
    trained: tuple[str, str]
    tested: tuple[str, str]
    order: str
    test_times: Times = field(repr=False)


def split_in_time(
    domains: NumberedDomains,
    times: Any = None,
    *,
    after: Any = None,
    last: float | None = None,
    order: str = "domains",
) -> TimeSplit:
    """Train on the past, test on domains that begin later.

    ``times`` holds a time per row; without them the domains' names are the times. ``after`` and
    ``last`` are those of ``Table.in_time``; domains of the same time stay together.
    """
    if (after is None) == (last is None):
        raise SettingError("A split in time needs either 'after' or 'last', and not both.")
    names, spans = _spans(domains, times, order, order_remedy())
    test = later_domains(spans, order, after=after, last=last)
    if last is None:
        train = spans.last <= last_moment_of(after, spans.first, repr(order))
    else:
        train = spans.last < spans.first[test].min()
    _refuse_empty(train, test, spans, f"after {after}" if last is None else f"the last {last:g}")
    return _period_split(spans, names, np.flatnonzero(train), np.flatnonzero(test), order)


def _spans(
    domains: NumberedDomains, times: Any, order: str, remedy: str
) -> tuple[tuple[str, ...], DomainSpans]:
    """The names of the domains, and when each of them was."""
    names = tuple(str(name) for name in domains.names)
    what = f"The {'domains' if times is None else 'order column'} ({order!r})"
    return names, domain_spans(domains.ids, names, times, what, remedy)


def _period_split(
    spans: DomainSpans,
    names: Sequence[str],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    order: str,
) -> TimeSplit:
    """The split into these domains, by number; the others are left out."""
    if not train.size:
        raise SettingError(
            f"No domain is left to train on before {shown_time(spans.first[test].min())}, when the "
            "test domains begin. Test on later ones, or use a smaller gap."
        )

    def period(part: NDArray[np.int64]) -> tuple[str, str]:
        return shown_time(spans.first[part].min()), shown_time(spans.last[part].max())

    used = {*train.tolist(), *test.tolist()}
    test = np.sort(test)
    return TimeSplit(
        tuple(names[number] for number in np.sort(train)),
        tuple(names[number] for number in test),
        tuple(name for number, name in enumerate(names) if number not in used),
        period(train),
        period(test),
        order,
        spans.first[test],
    )


def later_domains(
    spans: DomainSpans, order: str, *, after: Any = None, last: float | None = None
) -> NDArray[np.bool_]:
    """(m,) which domains begin strictly after a moment, or are the last share to begin."""
    if last is None:
        return np.asarray(spans.first > last_moment_of(after, spans.first, repr(order)))
    OPEN_FRACTION.check(last, "The share of domains to test on")
    domains = len(spans.first)
    starts = spans.starts([domains - max(1, round(last * domains))])
    if not starts:
        raise SettingError(
            f"All {domains} domains begin at {shown_time(spans.first[0])}: there is no earlier and "
            "no later. To judge domains that last as long as each other, leave the order out (each "
            "is judged by the others); to judge later times, make the time the domain, such as "
            f"{Setting('domain', 'week')} with {Setting('order', 'week')}."
        )
    return np.asarray(spans.first >= spans.first[spans.order[starts[0]]])


def _refuse_empty(
    train: NDArray[np.bool_], test: NDArray[np.bool_], spans: DomainSpans, cut: str
) -> None:
    for part, what in ((train, "train on"), (test, "test on")):
        if not part.any():
            both = int((~(train | test)).sum())
            raise SettingError(
                f"No domain is left to {what} when testing on {cut}: the times go from "
                f"{shown_time(spans.first.min())} to {shown_time(spans.last.max())}, and {both} of "
                f"{len(train)} domains have rows on both sides. "
                + (
                    "A split in time needs domains that end before others begin, such as days or "
                    "hospital and month together."
                    if both
                    else "Choose another cut."
                )
            )


MOST = 1_000_000
"""Limit of sets."""
_COUNT = integer(1, MOST)


@dataclass(frozen=True)
class HeldOutShare:
    """Random sets of test domains: ``splits`` of them, each a ``share`` of all domains."""

    share: Any = field(metadata={"rule": OPEN_FRACTION})
    splits: int = ruled(1, _COUNT)

    def __post_init__(self) -> None:
        check_fields(self)

    def sets(self, names: Sequence[str], seed: Callable[..., int]) -> list[tuple[str, ...]]:
        """The sets, all different; ``seed`` is that of a set's number, and of further attempts."""
        size = len(self._drawn(names, 0))
        if self.splits > comb(len(names), size):
            raise SettingError(
                f"splits is {self.splits}, but {counted(len(names), 'domain')} have only "
                f"{counted(comb(len(names), size), 'set')} of {size}. Ask for at most as many."
            )
        found: dict[tuple[str, ...], None] = {}
        for number in range(self.splits):
            for attempt in count():
                drawn = self._drawn(names, seed(number, *([attempt] if attempt else [])))
                if drawn not in found:
                    break
            found[drawn] = None
        return list(found)

    def _drawn(self, names: Sequence[str], seed: int) -> tuple[str, ...]:
        shares: dict[str, Any] = {"train": None, "validation": [], "test": self.share}
        return tuple(names[at] for at in parts_of_domains(shares, names, seed)["test"])


@dataclass(frozen=True)
class HeldOutInTime:
    """Later domains as test domains, and earlier ones to train on.

    Tested are the domains that begin ``after`` a moment, or the ``last`` share of them. With
    several ``origins`` these are cut into as many parts, one after the other, and each is tested by
    what was trained on domains that end before it begins: all of them (an expanding window), or
    the latest ``window`` (a rolling one). ``gap`` domains before a part are left out.
    """

    after: Any = None
    last: float | None = ruled(None, optional(OPEN_FRACTION))
    origins: int = ruled(1, _COUNT)
    window: int | None = ruled(None, optional(POSITIVE_INTEGER))
    gap: int = ruled(0, NON_NEGATIVE_INTEGER)

    def __post_init__(self) -> None:
        if (self.after is None) == (self.last is None):
            raise SettingError("give either after (a date or a number) or last (a share).")
        check_fields(self)

    def splits(
        self, domains: NumberedDomains, times: Any = None, order: str = "domains"
    ) -> list[TimeSplit]:
        """The splits in the order of time; times as for :func:`split_in_time`."""
        remedy = "Name the column that orders the domains (order: of the dataset's settings)."
        names, spans = _spans(domains, times, order, remedy)
        later = int(later_domains(spans, order, after=self.after, last=self.last).sum())
        first = len(names) - later
        if first == 0:
            raise SettingError(
                f"all {counted(later, 'domain')} are later than {self.after}: none is left to "
                "train on. Choose a later moment."
            )
        wanted = [first + round(part * later / self.origins) for part in range(self.origins)]
        starts = spans.starts(wanted) if later else []
        if len(set(starts)) < self.origins:
            raise SettingError(
                f"{counted(later, 'domain')} of {len(names)} are later: too few, or too many begin "
                f"at the same time, for {counted(self.origins, 'origin')}."
            )
        found = []
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            test = spans.order[start:end]
            train = spans.latest_before(spans.first[test[0]], self.gap, self.window)
            found.append(_period_split(spans, names, train, test, order))
        return found


def with_parts(
    given: Sequence[Any], parts: Mapping[str, Sequence[str]], names: Sequence[str]
) -> list[Any]:
    """Sets of test domains with the domains of a part, such as ``"test"``, in place of its name."""

    def is_part(name: Any) -> bool:
        return isinstance(name, str) and name in parts and name not in names

    found: list[Any] = []
    for each in given:
        named = each if isinstance(each, list) else [each]
        sets = [parts[name] if is_part(name) else [name] for name in named]
        whole = [domain for domains in sets for domain in domains]
        found.append(whole if any(map(is_part, named)) else each)
    return found


def listed_sets(given: Sequence[Any], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Sets by the names of their domains: a name, or a list of names, each."""
    sets = [
        tuple(str(name) for name in (each if isinstance(each, list) else [each])) for each in given
    ]
    wrong = [
        f"the domain {name!r} does not exist. {did_you_mean(name, names)}"
        for name in sorted({name for each in sets for name in each} - set(names))
    ]
    same = Counter(map(frozenset, sets))
    for each in {frozenset(each): each for each in sets}.values():
        if not each or len(set(each)) < len(each) or same[frozenset(each)] > 1:
            wrong.append(f"{list(each)} is empty, is listed twice, or lists a domain twice.")
    if wrong:
        raise SettingError(" ".join(wrong))
    return sets


def refuse_shared(parts: Mapping[str, Collection[str]], what: str) -> None:
    """Raise if published parts share a domain: models would be tested on their training data."""
    for first, second in combinations(parts, 2):
        both = sorted(set(parts[first]) & set(parts[second]))
        if both:
            raise DataFileError(f"{what} {both[0]!r} is in {first} and in {second}.")


def conflicting_splits(given: Mapping[str, Any]) -> list[str]:
    """What is wrong with settings that choose the held-out domains in two ways."""
    named = [name for name, value in given.items() if value is not None]
    ways = [name for name in named if name != "order"]
    if [name for name in named if name in IN_TIME] == ["order"]:
        ways.append("order")
    if len(ways) < 2:
        return []
    *some, last = (str(Setting(name)) for name in ways)
    return [
        f"{', '.join(some)} and {last} cannot be combined: each of them chooses the "
        "held-out domains. Use one."
    ]
