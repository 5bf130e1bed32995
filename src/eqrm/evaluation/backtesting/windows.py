"""The windows of a backtest: which domains are trained, certified and judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqrm.data.times import DomainSpans, domain_spans, shown_time
from eqrm.data.windows import Places, TimeWindow, refuse_longer, refuse_unfit_times, rolling_windows
from eqrm.domains import Name, NumberedDomains
from eqrm.errors import SettingError, TooFewDomainsError
from eqrm.evaluation.backtesting.plan import NEVER, BacktestPlan, too_few_to_certify
from eqrm.evaluation.measuring.domain_columns import ORDER_REMEDY


@dataclass(frozen=True, eq=False)
class OrderedDomains:
    """Domains by number and when they were; ``order`` names the column of the times.

    ``sorted_rows`` is False where rows or names were given in another order than that of time.
    """

    order: str
    names: tuple[Name, ...]
    spans: DomainSpans
    named: bool
    sorted_rows: bool

    @classmethod
    def of(cls, domains: NumberedDomains, times: Any, order: str) -> OrderedDomains:
        """From the domain of each row and its time (n,), or from names that are times."""
        what = f"The {'domains' if times is None else 'order column'} ({order!r})"
        spans = domain_spans(domains.ids, domains.names, times, what, ORDER_REMEDY)
        by_row = spans.first[domains.ids]
        ascending = bool((by_row[1:] >= by_row[:-1]).all())
        return cls(order, tuple(domains.names), spans, times is None, ascending)

    def period(self, places: Places) -> tuple[str, str]:
        """The first and the last time of some domains, in words."""
        return shown_time(self.spans.first[places].min()), shown_time(self.spans.last[places].max())


@dataclass(frozen=True, eq=False)
class BacktestWindow:
    """One window: numbers of domains in the order of time, ``train`` None where nothing is fitted.

    ``short`` are bounds (kind and level) that its domains are too few for.
    """

    certify_size: int
    number: int
    train: Places | None
    certify: Places
    judge: Places
    left_out: Places
    short: Mapping[tuple[str, float], str] = field(default_factory=dict)


def windows_of(plan: BacktestPlan, domains: OrderedDomains) -> list[BacktestWindow]:
    """All windows of a plan, those of the first ``certify`` first; problems are raised at once."""
    shortest = min(min(plan.parts(size).values()) for size in plan.certify)
    refuse_unfit_times(domains.spans, domains.names, shortest, named=domains.named)
    refuse_longer(len(domains.names), plan.parts(max(plan.certify)), plan.gap)
    found: list[BacktestWindow] = []
    for size in plan.certify:
        slid = rolling_windows(
            domains.spans,
            tuple(plan.parts(size).values()),
            gap=plan.gap,
            step=plan.step,
            expanding=plan.expanding,
        )
        found += [_window(plan, size, number, w, slid[0]) for number, w in enumerate(slid, 1)]
    _refuse_empty(plan, found, domains)
    return found


def short_windows(windows: Sequence[BacktestWindow]) -> list[str]:
    """Sentences on the windows whose domains are too few for a bound, with the number needed."""
    return [f"Window {w.number}: {text}" for w in windows for text in w.short.values()]


def _window(
    plan: BacktestPlan, size: int, number: int, window: TimeWindow, first: TimeWindow
) -> BacktestWindow:
    *trained, certify, judge = window.parts
    if trained and plan.refit == NEVER:
        trained = [first.parts[0]]
    short = {
        (rule.name, level): too_few_to_certify(
            rule.name, len(certify), level, plan.confidence, needed
        )
        for rule in plan.rules
        for level in plan.levels
        if (needed := rule.needed(level, plan.confidence)) > len(certify)
    }
    train = trained[0] if trained else None
    return BacktestWindow(size, number, train, certify, judge, window.left_out, short)


def _refuse_empty(
    plan: BacktestPlan, windows: Sequence[BacktestWindow], domains: OrderedDomains
) -> None:
    """Raise if domains of one time leave no window, or domains that last long no bound."""
    if {window.certify_size for window in windows} != set(plan.certify):
        raise SettingError(
            f"No window has domains in every part: {len(domains.names)} domains begin at "
            f"{len(np.unique(domains.spans.first))} different times, and those of the same time "
            "stay together. Use longer windows."
        )
    bounds = len(plan.rules) * len(plan.levels)
    if all(len(window.short) == bounds for window in windows):
        least = max(len(window.certify) for window in windows)
        needed = min(
            rule.needed(level, plan.confidence) for rule in plan.rules for level in plan.levels
        )
        raise TooFewDomainsError(
            f"No window can be certified: {len(windows[0].left_out)} domains of the first one last "
            f"into the next part, and {least} are left at most where {needed} are needed. Use a "
            "longer certify, or domains that end before later ones begin.",
            domains=least,
            needed=needed,
        )
