"""The result of a backtest: the share of later domains within each bound, by window and pooled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eqrm.evaluation.backtesting.plan import BacktestPlan
from eqrm.evaluation.backtesting.rules import Array, JudgedDomains
from eqrm.evaluation.backtesting.windows import BacktestWindow, OrderedDomains
from eqrm.evaluation.inference.finding import Finding
from eqrm.evaluation.inference.resampling import smooth_quantile
from eqrm.level import Level
from eqrm.text import csv_text

FORMAT = "eqrm backtest 1"


@dataclass(frozen=True, kw_only=True)
class ShareWithin(Finding):
    """How many of ``judged`` domains were ``within`` one bound of one predictor.

    ``certify`` is the length asked for. ``infinite`` judged domains had a bound that allows every
    risk. If all domains are exchangeable, ``expected`` is the share within the plain certificate,
    and ``expected_below`` the number of windows with a share below the level.
    """

    derived = ("share",)

    certify: int
    predictor: str
    kind: str
    level: float
    judged: int
    within: int
    infinite: int = 0
    expected: float | None = None
    expected_below: float | None = None

    @property
    def share(self) -> float:
        """The share of judged domains within the bound; NaN without one."""
        return self.within / self.judged if self.judged else math.nan


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

    @property
    def below(self) -> bool:
        """Whether a smaller share than the level was within the bound."""
        return self.within < self.level * self.judged - 1e-9


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
        """Pool the windows of one predictor, bound and level."""
        held = [row for row in rows if not row.refusal]
        first = rows[0]
        chances = [row.expected_below for row in held if row.expected_below is not None]
        expected = [row.expected * row.judged for row in held if row.expected is not None]
        bounds = [row.bound for row in held if math.isfinite(row.bound)]
        judged = sum(row.judged for row in held)
        return cls(
            certify=first.certify,
            predictor=first.predictor,
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
    """A predictor on the judged domains of all windows.

    ``mean`` and ``quantile`` (at the headline level, a Harrell–Davis estimate) are over all of
    them, ``worst`` is the highest mean risk of a window, which ``worst_window`` numbers.
    """

    derived = ()

    certify: int
    predictor: str
    mean: float
    quantile: float
    worst: float
    worst_window: int


@dataclass(frozen=True, eq=False)
class WindowRisks:
    """The risks of every predictor on the domains of a window, in the order of time."""

    window: BacktestWindow
    past: Mapping[str, Array]
    later: Mapping[str, Array]


@dataclass(frozen=True, eq=False, repr=False)
class JudgedWindows:
    """Bounds from the past beside what came.

    ``references`` are the predictors that are constants. ``shares`` has a row per window,
    predictor, bound and level; ``pooled`` the same over all windows; ``risks`` mean and worst
    window of each predictor. ``notes`` are sentences on what was left out or cannot be certified.
    ``loss`` names the loss.
    """

    measured: tuple[WindowRisks, ...]
    plan: BacktestPlan
    domains: OrderedDomains
    loss: str = "loss"
    notes: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @property
    def predictors(self) -> tuple[str, ...]:
        """The names of all predictors, the references (constants) first."""
        names = dict.fromkeys(name for each in self.measured for name in each.later)
        return tuple(dict.fromkeys([*self.references, *names]))

    def windows(self, certify: int) -> list[WindowRisks]:
        """The windows with this many domains to certify on."""
        return [each for each in self.measured if each.window.certify_size == certify]

    def judged(self, each: WindowRisks, predictor: str, kind: str, level: float) -> JudgedDomains:
        """One bound in one window, domain by domain."""
        rule = next(rule for rule in self.plan.rules if rule.name == kind)
        past, later = each.past[predictor], each.later[predictor]
        short = each.window.short.get((kind, level))
        if short is not None:
            return JudgedDomains(np.full(len(later), np.nan), later, refusal=short)
        return rule.judge(past, later, level, self.plan.confidence)

    @cached_property
    def shares(self) -> tuple[WindowShare, ...]:
        """A row per length of ``certify``, predictor, bound, level and window."""
        return tuple(
            self._share(each, predictor, kind, level)
            for certify in self.plan.certify
            for predictor in self.predictors
            for kind in self.plan.kinds
            for level in self.plan.levels
            for each in self.windows(certify)
            if predictor in each.later
        )

    def _share(self, each: WindowRisks, predictor: str, kind: str, level: float) -> WindowShare:
        found, window = self.judged(each, predictor, kind, level), each.window
        first, last = self.domains.period(window.judge)
        return WindowShare(
            certify=window.certify_size,
            window=window.number,
            first=first,
            last=last,
            predictor=predictor,
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
        """A row per length of ``certify``, predictor, bound and level, over all windows."""
        groups: dict[tuple[Any, ...], list[WindowShare]] = {}
        for row in self.shares:
            groups.setdefault((row.certify, row.predictor, row.kind, row.level), []).append(row)
        return tuple(PooledShare.of(rows) for rows in groups.values())

    @cached_property
    def risks(self) -> tuple[JudgedRisk, ...]:
        """Mean, quantile and worst window of each predictor, per length of ``certify``."""
        return tuple(self._risks())

    def _risks(self) -> Iterator[JudgedRisk]:
        for certify in self.plan.certify:
            for predictor in self.predictors:
                held = [w for w in self.windows(certify) if predictor in w.later]
                means = [float(w.later[predictor].mean()) for w in held]
                judged = np.concatenate([w.later[predictor] for w in held])
                yield JudgedRisk(
                    certify=certify,
                    predictor=predictor,
                    mean=float(judged.mean()),
                    quantile=smooth_quantile(judged, Level(self.plan.headline)),
                    worst=max(means),
                    worst_window=held[int(np.argmax(means))].window.number,
                )

    def find(self, certify: int, predictor: str, kind: str, level: float) -> PooledShare | None:
        """One row of ``pooled``; None where the predictor is in no window."""
        wanted = (certify, predictor, kind, level)
        rows = (p for p in self.pooled if (p.certify, p.predictor, p.kind, p.level) == wanted)
        return next(rows, None)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: numbers that are not finite are None."""
        return {
            "format": FORMAT,
            "plan": self.plan.to_dict(),
            "loss": self.loss,
            "order": self.domains.order,
            "domains": len(self.domains.names),
            "predictors": list(self.predictors),
            "pooled": [row.to_dict() for row in self.pooled],
            "risks": [row.to_dict() for row in self.risks],
            "windows": [row.to_dict() for row in self.shares],
            "notes": list(self.notes),
        }

    def to_csv(self) -> str:
        """A row per window, predictor, bound and level."""
        rows = [row.to_dict() for row in self.shares]
        return csv_text([list(rows[0]), *(row.values() for row in rows)])
