"""Several sets of test domains of one dataset: drawn at random, listed by name, or later ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import comb
from typing import Any

from eqrm.checks import NON_NEGATIVE_INTEGER, OPEN_FRACTION, Rule, integer, optional
from eqrm.data.splits import TimeSplit, later_domains, parts_of_domains, period_split
from eqrm.data.times import domain_spans
from eqrm.domains import NumberedDomains
from eqrm.errors import SettingError
from eqrm.text import counted, did_you_mean

MOST = 1_000_000
"""Limit of sets."""
_COUNT = integer(1, MOST)


@dataclass(frozen=True)
class HeldOutShare:
    """Random sets of test domains: ``splits`` of them, each a ``share`` of all domains."""

    share: Any
    splits: int = 1

    def __post_init__(self) -> None:
        _refuse_all({"share": (OPEN_FRACTION, self.share), "splits": (_COUNT, self.splits)})

    def number(self, names: Sequence[str]) -> int:
        """How many sets there are; raises if there are not so many different ones."""
        size = len(self._drawn(names, 0))
        if self.splits > comb(len(names), size):
            raise SettingError(
                f"splits is {self.splits}, but {counted(len(names), 'domain')} have only "
                f"{counted(comb(len(names), size), 'set')} of {size}. Ask for at most as many."
            )
        return self.splits

    def sets(self, names: Sequence[str], seed: Callable[..., int]) -> list[tuple[str, ...]]:
        """The sets, all different; ``seed`` is that of a set's number, and of further attempts."""
        found: dict[tuple[str, ...], None] = {}
        for number in range(self.number(names)):
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
    last: float | None = None
    origins: int = 1
    window: int | None = None
    gap: int = 0

    def __post_init__(self) -> None:
        if (self.after is None) == (self.last is None):
            raise SettingError("give either after (a date or a number) or last (a share).")
        _refuse_all(
            {
                "last": (optional(OPEN_FRACTION), self.last),
                "origins": (_COUNT, self.origins),
                "window": (optional(integer(1)), self.window),
                "gap": (NON_NEGATIVE_INTEGER, self.gap),
            }
        )

    def splits(
        self, domains: NumberedDomains, times: Any = None, order: str = "domains"
    ) -> list[TimeSplit]:
        """The splits in the order of time; times as for :func:`eqrm.data.splits.split_in_time`.

        >>> import numpy as np
        >>> days = NumberedDomains(np.arange(6), tuple(f"2013-01-0{day}" for day in range(1, 7)))
        >>> for split in HeldOutInTime(last=0.5, origins=3, gap=1).splits(days):
        ...     print(split.train, split.test, split.left_out[:1])
        ('2013-01-01', '2013-01-02') ('2013-01-04',) ('2013-01-03',)
        ('2013-01-01', '2013-01-02', '2013-01-03') ('2013-01-05',) ('2013-01-04',)
        ('2013-01-01', '2013-01-02', '2013-01-03', '2013-01-04') ('2013-01-06',) ('2013-01-05',)
        """
        names = tuple(str(name) for name in domains.names)
        what = f"The {'domains' if times is None else 'order column'} ({order!r})"
        remedy = "Name the column that orders the domains (order: of the dataset's settings)."
        spans = domain_spans(domains.ids, names, times, what, remedy)
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
            found.append(period_split(spans, names, train, test, order))
        return found


def with_parts(
    given: Sequence[Any], parts: Mapping[str, Sequence[str]], names: Sequence[str]
) -> list[Any]:
    """Sets of test domains with the domains of a part, such as ``"test"``, in place of its name.

    >>> with_parts(["a", ["test", "b"]], {"test": ("c", "d")}, ["a", "b", "c", "d"])
    ['a', ['c', 'd', 'b']]
    """

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
    """Sets by the names of their domains: a name, or a list of names, each.

    >>> listed_sets(["a", ["b", "c"]], ["a", "b", "c"])
    [('a',), ('b', 'c')]
    """
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


def _refuse_all(given: dict[str, tuple[Rule, Any]]) -> None:
    """Check all fields, and say all that is wrong at once."""
    wrong = [
        f"{name} must be {rule.words}, got {value!r}."
        for name, (rule, value) in given.items()
        if not rule.holds(value)
    ]
    if wrong:
        raise SettingError(" ".join(wrong))
