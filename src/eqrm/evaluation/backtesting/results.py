"""The windows of a backtest, and the share of later domains within each bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eqrm.data.times import DomainSpans, domain_spans, order_remedy, shown_time
from eqrm.data.windows import Places, refuse_longer, refuse_unfit_times, rolling_windows
from eqrm.domains import Name, NumberedDomains
from eqrm.errors import SettingError, TooFewDomainsError
from eqrm.evaluation.backtesting.plan import NEVER, Array, BacktestPlan, JudgedDomains
from eqrm.evaluation.inference.risk_checks import Finding
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.level import Level
from eqrm.text import csv_text

FORMAT = "eqrm backtest 2"


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
        spans = domain_spans(domains.ids, domains.names, times, what, order_remedy())
        by_row = spans.first[domains.ids]
        ascending = bool((by_row[1:] >= by_row[:-1]).all())
        return cls(order, tuple(domains.names), spans, times is None, ascending)

    def period(self, places: Places) -> tuple[str, str]:
        """The first and the last time of some domains, in words."""
        return shown_time(self.spans.first[places].min()), shown_time(self.spans.last[places].max())


@dataclass(frozen=True, eq=False)
class BacktestWindow:
    """Numbers of domains in the order of time; ``train`` is None where nothing is fitted."""

    certify_size: int
    number: int
    train: Places | None
    certify: Places
    judge: Places
    left_out: Places


def windows_of(plan: BacktestPlan, domains: OrderedDomains) -> list[BacktestWindow]:
    """All windows of a plan, those of the first ``certify`` first; problems are raised at once."""
    shortest = min(min(plan.parts(size).values()) for size in plan.certify)
    refuse_unfit_times(domains.spans, domains.names, shortest, named=domains.named)
    refuse_longer(len(domains.names), plan.parts(max(plan.certify)), plan.gap)
    found: list[BacktestWindow] = []
    for size in plan.certify:
        sizes = tuple(plan.parts(size).values())
        slid = rolling_windows(
            domains.spans, sizes, gap=plan.gap, step=plan.step, expanding=plan.expanding
        )
        for number, window in enumerate(slid, start=1):
            *trained, certify, judge = window.parts
            if trained and plan.refit == NEVER:
                trained = [slid[0].parts[0]]
            train = trained[0] if trained else None
            found.append(BacktestWindow(size, number, train, certify, judge, window.left_out))
    _refuse_empty(plan, found, domains)
    return found


def short_windows(plan: BacktestPlan, windows: Sequence[BacktestWindow]) -> list[str]:
    """Sentences on the windows whose domains are too few for a bound, with the number needed."""
    return [f"Window {w.number}: {text}" for w in windows for text in plan.too_few(len(w.certify))]


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
    least = max(len(window.certify) for window in windows)
    if least < plan.needed:
        raise TooFewDomainsError(
            f"No window can be certified: {len(windows[0].left_out)} domains of the first one last "
            f"into the next part, and {least} are left at most where {plan.needed} are needed. Use "
            "a longer certify, or domains that end before later ones begin.",
            domains=least,
            needed=plan.needed,
        )


@dataclass(frozen=True, kw_only=True)
class ShareWithin(Finding):
    """How many of ``judged`` domains were ``within`` one bound of one model.

    ``certify`` is the length asked for. ``infinite`` judged domains had a bound that allows every
    risk. If all domains are exchangeable, ``expected`` is the share within the plain certificate,
    and ``expected_below`` the number of windows with a share below the level.
    """

    derived = ("share",)

    certify: int
    model: str
    kind: str
    level: float
    judged: int
    within: int
    infinite: int = 0
    expected: float | None = None
    expected_below: float | None = None

    @property
    def about(self) -> tuple[int, str, str, float]:
        """Which bound of which model."""
        return self.certify, self.model, self.kind, self.level

    @property
    def share(self) -> float:
        """The share of judged domains within the bound; NaN without one."""
        return self.within / self.judged if self.judged else math.nan

    @property
    def below(self) -> bool:
        """Whether a smaller share than the level was within the bound."""
        return self.within < self.level * self.judged - 1e-9


@dataclass(frozen=True, kw_only=True)
class WindowShare(ShareWithin):
    """One bound in one window.

    ``first`` and ``last`` are when the window is judged, ``certified`` is how many domains the
    bound rests on. ``bound`` is NaN where there is none: ``refusal`` says why, and no domain
    counts as judged.
    """

    window: int
    first: str
    last: str
    refusal: str | None = None
    bound: float
    certified: int


@dataclass(frozen=True, kw_only=True)
class PooledShare(ShareWithin):
    """One bound over all windows that have it; ``refused`` do not.

    ``lowest`` is the smallest share of a window, ``windows_below`` how many have a share below
    the level. There is no interval: windows share domains, and domains that follow each other
    resemble each other.
    """

    windows: int
    refused: int
    lowest: float
    windows_below: int
    mean_bound: float

    @classmethod
    def of(cls, rows: Sequence[WindowShare]) -> PooledShare:
        """Pool the windows of one model, bound and level."""
        held, first = [row for row in rows if not row.refusal], rows[0]
        chances = [row.expected_below for row in held if row.expected_below is not None]
        expected = [row.expected * row.judged for row in held if row.expected is not None]
        bounds = [row.bound for row in held if math.isfinite(row.bound)]
        judged = sum(row.judged for row in held)
        return cls(
            certify=first.certify,
            model=first.model,
            kind=first.kind,
            level=first.level,
            windows=len(held),
            refused=len(rows) - len(held),
            judged=judged,
            within=sum(row.within for row in held),
            lowest=min((row.share for row in held), default=math.nan),
            windows_below=sum(row.below for row in held),
            mean_bound=float(np.mean(bounds)) if bounds else math.nan,
            infinite=sum(row.infinite for row in held),
            expected=sum(expected) / judged if expected else None,
            expected_below=sum(chances) if chances else None,
        )


@dataclass(frozen=True, kw_only=True)
class JudgedRisk(Finding):
    """A model on the judged domains of all windows.

    ``mean`` and ``quantile`` (at the headline level, a Harrell–Davis estimate) are over all of
    them, ``worst`` is the highest mean risk of a window, which ``worst_window`` numbers.
    """

    derived = ()

    certify: int
    model: str
    mean: float
    quantile: float
    worst: float
    worst_window: int


@dataclass(frozen=True, eq=False)
class WindowRisks:
    """The risks of every model on the domains of a window, in the order of time."""

    window: BacktestWindow
    past: Mapping[str, Array]
    later: Mapping[str, Array]


@dataclass(frozen=True, eq=False, repr=False)
class JudgedWindows:
    """Bounds from the past beside what came.

    ``references`` are the models that are constants, ``notes`` sentences on what was left out
    or cannot be certified. ``loss`` names the loss.
    """

    measured: tuple[WindowRisks, ...]
    plan: BacktestPlan
    domains: OrderedDomains
    loss: str = "loss"
    notes: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The names of all models, the references (constants) first."""
        names = dict.fromkeys(name for each in self.measured for name in each.later)
        return tuple(dict.fromkeys([*self.references, *names]))

    def windows(self, certify: int) -> list[WindowRisks]:
        """The windows with this many domains to certify on."""
        return [each for each in self.measured if each.window.certify_size == certify]

    def judged(self, each: WindowRisks, model: str, kind: str, alpha: float) -> JudgedDomains:
        """One bound in one window, domain by domain."""
        rule = next(rule for rule in self.plan.rules if rule.name == kind)
        return rule.judge(each.past[model], each.later[model], alpha, self.plan.confidence)

    @cached_property
    def shares(self) -> tuple[WindowShare, ...]:
        """A row per length of ``certify``, model, bound, level and window."""
        return tuple(
            self._share(each, model, kind, level)
            for certify in self.plan.certify
            for model in self.models
            for kind in self.plan.kinds
            for level in self.plan.quantiles
            for each in self.windows(certify)
            if model in each.later
        )

    def _share(self, each: WindowRisks, model: str, kind: str, level: float) -> WindowShare:
        found, window = self.judged(each, model, kind, level), each.window
        first, last = self.domains.period(window.judge)
        return WindowShare(
            certify=window.certify_size,
            window=window.number,
            first=first,
            last=last,
            model=model,
            kind=kind,
            level=level,
            certified=len(window.certify),
            bound=found.bound,
            judged=0 if found.refusal else len(window.judge),
            within=found.within,
            infinite=found.infinite,
            expected=found.expected,
            expected_below=found.chance_below(level),
            refusal=found.refusal,
        )

    @cached_property
    def pooled(self) -> tuple[PooledShare, ...]:
        """A row per length of ``certify``, model, bound and level, over all windows."""
        groups: dict[tuple[Any, ...], list[WindowShare]] = {}
        for row in self.shares:
            groups.setdefault(row.about, []).append(row)
        return tuple(PooledShare.of(rows) for rows in groups.values())

    @cached_property
    def risks(self) -> tuple[JudgedRisk, ...]:
        """Mean, quantile and worst window of each model, per length of ``certify``."""
        return tuple(
            self._risk(certify, name) for certify in self.plan.certify for name in self.models
        )

    def _risk(self, certify: int, model: str) -> JudgedRisk:
        held = [w for w in self.windows(certify) if model in w.later]
        means = [float(w.later[model].mean()) for w in held]
        judged = np.concatenate([w.later[model] for w in held])
        return JudgedRisk(
            certify=certify,
            model=model,
            mean=float(judged.mean()),
            quantile=smooth_quantile(judged, Level(self.plan.headline)),
            worst=max(means),
            worst_window=held[int(np.argmax(means))].window.number,
        )

    def find(self, certify: int, model: str, kind: str, alpha: float) -> PooledShare | None:
        """One row of ``pooled``; None where the model is in no window."""
        wanted = (certify, model, kind, alpha)
        return next((row for row in self.pooled if row.about == wanted), None)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: numbers that are not finite are None."""
        return {
            "format": FORMAT,
            "plan": self.plan.to_dict(),
            "loss": self.loss,
            "order": self.domains.order,
            "domains": len(self.domains.names),
            "models": list(self.models),
            "pooled": [row.to_dict() for row in self.pooled],
            "risks": [row.to_dict() for row in self.risks],
            "windows": [row.to_dict() for row in self.shares],
            "notes": list(self.notes),
        }

    def to_csv(self) -> str:
        """A row per window, model, bound and level."""
        rows = [row.to_dict() for row in self.shares]
        return csv_text([list(rows[0]), *(row.values() for row in rows)])
