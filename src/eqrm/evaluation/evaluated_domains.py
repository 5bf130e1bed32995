"""Which of the measured domains are evaluated: unseen in training, of the period asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.data.splits import later_domains
from eqrm.data.times import DomainSpans, as_times, order_remedy, shown_time
from eqrm.domains import DomainKey, Name, named_domains
from eqrm.errors import DomainDataError, Setting, SettingError
from eqrm.evaluation.inference.in_time.ordered import DomainOrder
from eqrm.evaluation.measuring.domain_columns import DomainFacts
from eqrm.risks import FEWEST_DOMAINS, MeasuredRisks
from eqrm.text import counted, listed


@dataclass(frozen=True)
class Period:
    """Which domains to evaluate: those that begin ``after`` a moment, or the ``last`` share."""

    after: Any = None
    last: float | None = None

    def __post_init__(self) -> None:
        if self.after is not None and self.last is not None:
            raise SettingError(
                f"Evaluate the domains after a moment ({Setting('after')}) or the last share of "
                f"them ({Setting('last')}), not both."
            )


ALL_DOMAINS = Period()
TRAINED = "training has seen them"


@dataclass(frozen=True, eq=False)
class EvaluatedDomains:
    """Predictors on the domains that are evaluated, the others by name, and the order of time.

    ``order`` is None where no column gives one; domains that are dates have one none the less.
    """

    predictors: dict[str, MeasuredRisks]
    seen: tuple[Name, ...] = ()
    earlier: tuple[Name, ...] = ()
    order: DomainOrder | None = None

    @classmethod
    def of(
        cls,
        predictors: Mapping[str, MeasuredRisks],
        facts: Sequence[DomainFacts],
        period: Period,
        order: str | None = None,
        nesting: DomainKey | None = None,
    ) -> EvaluatedDomains:
        """Leave out the domains that a predictor has seen in training, then those of other times.

        ``facts`` are those of each predictor, ``order`` names the column that orders the domains.
        Of nested domains, a whole group is left out where training has seen one of its members:
        certificates are about new groups.
        """
        names = next(iter(predictors.values())).domains
        known = frozenset[str]().union(*(each.seen or () for each in facts))
        unseen = np.array([str(name) not in known for name in names])
        if nesting is not None and known:
            groups = [nesting.group_of(name) for name in names]
            begun = {group for group, new in zip(groups, unseen, strict=True) if not new}
            unseen = np.array([group not in begun for group in groups])
        _refuse_all_seen(names, unseen)
        times = _times(names, facts, order or "domains")
        kept = np.flatnonzero(unseen)
        if period != ALL_DOMAINS:
            times = times or DomainOrder(as_times(list(names), "The domains", order_remedy()))
            kept = kept[_of_period(times.only(kept), period)]
        chosen = [names[i] for i in kept]
        left = set(kept.tolist())
        return cls(
            dict(predictors)
            if len(kept) == len(names)
            else {name: risks.only(chosen) for name, risks in predictors.items()},
            tuple(names[i] for i in np.flatnonzero(~unseen)),
            tuple(names[i] for i in np.flatnonzero(unseen) if i not in left),
            None if times is None else times.only(kept),
        )


def left_out_in_words(seen: Sequence[Name], earlier: Sequence[Name], nested: bool = False) -> str:
    """Which domains are not evaluated and why, as sentences that begin with a blank.

    >>> left_out_in_words(["a"], [])
    " Left out because training has seen them: 1 domain ('a')."
    """
    trained = "training has seen them or others of their group" if nested else TRAINED
    why = {trained: seen, "they began before the period asked for": earlier}
    return "".join(
        f" Left out because {reason}: {counted(len(names), 'domain')} ({listed(names, 3)})."
        for reason, names in why.items()
        if names
    )


def _refuse_all_seen(names: Sequence[Name], unseen: NDArray[np.bool_]) -> None:
    left = int(unseen.sum())
    if left == len(names) or left >= FEWEST_DOMAINS:
        return
    seen = [name for name, new in zip(names, unseen, strict=True) if not new]
    remaining = f"{counted(left, 'domain')} left" if left else "none left"
    raise DomainDataError(
        f"Training has seen {len(seen):,} of {counted(len(names), 'domain')}: "
        f"{named_domains(seen)}. Statements about unseen domains cannot be based on them, and "
        f"there is {remaining}, where at least {FEWEST_DOMAINS} are needed. Evaluate predictions "
        "for domains that the model was not trained on."
    )


def _times(names: Sequence[Name], facts: Sequence[DomainFacts], order: str) -> DomainOrder | None:
    """When each domain began, by the earliest of its rows in any file."""
    given = [each.began for each in facts if each.began is not None]
    if not given:
        return None
    first = [min(began[str(name)] for began in given if str(name) in began) for name in names]
    return DomainOrder(np.array(first), order)


def _of_period(order: DomainOrder, period: Period) -> NDArray[np.bool_]:
    spans = DomainSpans(order.times, order.times)
    later = later_domains(spans, order.name, after=period.after, last=period.last)
    if int(later.sum()) < FEWEST_DOMAINS:
        raise DomainDataError(
            f"{counted(int(later.sum()), 'domain')} of {len(later):,} would be evaluated, but at "
            f"least {FEWEST_DOMAINS} are needed: they begin from "
            f"{shown_time(spans.first.min())} to {shown_time(spans.first.max())}. Choose an "
            "earlier moment, or a larger share."
        )
    return later
