"""Bounds that adapt after every domain, for any sequence of risks.

No distribution is assumed: the miss rate in the long run is 1−α because a bound that was missed too
often is raised. Two rules:

- "adaptive" (Gibbs & Candès 2021): the bound is an empirical quantile of recent risks, at a level
  1 − a_t that is adapted, a_{t+1} = a_t + γ(1 − α − miss_t); beyond 0 and 1 it is ±∞.
- "tracking" (Angelopoulos, Candès & Tibshirani 2023): the bound itself is adapted,
  b_{t+1} = b_t + η(miss_t − (1 − α)), for risks within stated limits.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqrm.checks import POSITIVE, integer, one_of, optional
from eqrm.errors import DomainDataError, SettingError
from eqrm.evaluation.inference.risk_checks import (
    Finding,
    LevelLike,
    checked_alpha,
    checked_range,
    checked_risks,
    refuse_first,
)
from eqrm.evaluation.rounding import as_percent, rounded_up
from eqrm.text import counted

ADAPTIVE, TRACKING = "adaptive", "tracking"
STEPS = {ADAPTIVE: 0.02, TRACKING: 0.05}
FORMAT = 1
SETTINGS = ("alpha", "method", "step", "window", "limits")
COUNTS = ("domains", "misses", "infinite", "empty", "worst_recently")
"""What a state holds: how the bound was made, and what it has counted."""


@dataclass(frozen=True, kw_only=True)
class OnlineReport(Finding):
    """What an :class:`OnlineBound` has done so far.

    ``miss_rate`` is the share of domains above their bound, which for any sequence of risks is
    within ``guarantee`` of ``allowed`` = 1−α. ``infinite`` is the share of bounds that allowed
    every risk, ``empty`` of those that allowed none: where they are large, the miss rate is right
    and the bounds are useless. ``recent_miss_rate`` is over the last ``window`` domains,
    ``worst_recent_miss_rate`` the largest that it ever was (0 before there are so many).
    """

    derived = ("sentence",)

    domains: int
    miss_rate: float
    allowed: float
    guarantee: float
    infinite: float
    empty: float
    window: int
    recent_miss_rate: float
    worst_recent_miss_rate: float

    @property
    def sentence(self) -> str:
        """The report in words."""
        if not self.domains:
            return "No domain has come yet."
        rate, recent, infinite, empty = (
            as_percent(round(share, 4))
            for share in (self.miss_rate, self.recent_miss_rate, self.infinite, self.empty)
        )
        points = as_percent(float(rounded_up(self.guarantee, 2))).removesuffix("%")
        return (
            f"{rate} of {counted(self.domains, 'domain')} were above their bounds. For any "
            f"sequence of risks it is {as_percent(round(self.allowed, 10))} in the long run, and "
            f"by now at most {points} percentage points from that. Of the last "
            f"{min(self.window, self.domains)}, {recent}. {infinite} of the bounds allowed every "
            f"risk, {empty} none."
        )


class OnlineBound:
    """A bound on the risk of the next domain that is missed by a share 1−α in the long run.

    ``bound`` is the bound for the next domain; ``update(risk)`` says what its risk was.
    ``method`` is "adaptive" or "tracking". ``step`` is γ (by default 0.02), or η as a share of the
    range of risks (0.05): large steps adapt fast and vary much. ``window`` is the number of recent
    risks whose quantiles the adaptive bounds are, and over which recent miss rates are taken.
    ``limits`` are the smallest and the largest possible risk, which tracking needs.

    For any sequence of risks, an adversary's too, after T domains the miss rate is within
    (max(α, 1−α) + γ)/(γT) of 1−α, or with tracking (1 + step)/(step·T): see ``guarantee``.

    >>> bound = OnlineBound(alpha=0.5, method="tracking", limits=(0, 1), step=0.1)
    >>> bound.bound, bound.update(0.7), round(bound.bound, 2)
    (1.0, False, 0.95)
    """

    def __init__(
        self,
        alpha: LevelLike = 0.9,
        method: str = ADAPTIVE,
        step: float | None = None,
        window: int = 500,
        limits: tuple[float, float] | None = None,
    ) -> None:
        self.alpha = checked_alpha(alpha)
        self.method = one_of(method, STEPS, "method")
        self.step = float(optional(POSITIVE).check(step, "step") or STEPS[method])
        self.window = int(integer(10).check(window, "window"))
        self.limits = None if limits is None else checked_range(limits, "limits")
        if method == TRACKING and self.limits is None:
            raise SettingError(
                "method='tracking' needs limits=(smallest, largest possible risk), got None. "
                "method='adaptive' needs no limits."
            )
        tracked = self.limits if method == TRACKING else None
        # The adapted number is a_t, or the bound itself; it moves by γ, or by η.
        self._allowed = 1.0 - self.alpha
        self._state = tracked[1] if tracked else self._allowed
        self._move = self.step * (tracked[1] - tracked[0]) if tracked else self.step
        # From the highest on a bound allows every risk, below the lowest none.
        self._lowest, self._highest = tracked or (-1e308, math.inf)
        self.domains = self.misses = self.infinite = self.empty = 0
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []
        self._recent_misses: deque[bool] = deque()
        self._missed_recently = self.worst_recently = 0

    @property
    def bound(self) -> float:
        """The bound on the risk of the next domain; ∞ allows every risk, −∞ none."""
        if self.method == TRACKING:
            return self._state
        known = len(self._ordered)
        # Up to rounding: (n+1)(1−a_t) that is an integer must not become the next one.
        rank = math.ceil((known + 1) * (1.0 - self._state) - 1e-9)
        if self._state <= 0.0 or rank > known:
            return math.inf
        return self._ordered[rank - 1] if rank >= 1 and self._state < 1.0 else -math.inf

    @property
    def guarantee(self) -> float:
        """The largest distance of the miss rate from 1−α by now, for any sequence; at most 1."""
        return self.guarantee_after(self.domains)

    def guarantee_after(self, domains: int) -> float:
        """The same after a number of domains."""
        if domains == 0:
            return 1.0
        if self.method == TRACKING:
            return min(1.0, (1.0 + self.step) / (self.step * domains))
        return min(1.0, (max(self.alpha, 1.0 - self.alpha) + self.step) / (self.step * domains))

    def update(self, risk: float) -> bool:
        """Take the risk of the next domain; returns whether it was above the bound."""
        return bool(self.update_many([risk])[1][0])

    def update_many(self, risks: Any) -> tuple[Any, Any]:
        """Take risks (n,) in the order of time; returns their bounds (n,) and misses (n,).

        The same as n calls of :meth:`update`. Risks that are not finite, or outside the limits,
        are refused, and the state does not change. Errors count domains from 1 since the start.
        """
        if np.size(risks) == 0:
            return np.empty(0), np.empty(0, dtype=bool)
        following = self.domains + 1
        values = checked_risks(risks, "New risks", 1, following)
        if self.limits is not None:
            low, high = self.limits
            message = "The risk of {domain} is {value}, outside " + f"limits=({low:g}, {high:g})."
            refuse_first((values < low) | (values > high), values, message, following)
        bounds = np.fromiter(map(self._advance, values.tolist()), np.float64, values.size)
        return bounds, values > bounds

    def _advance(self, risk: float) -> float:
        bound = self.bound
        missed = risk > bound
        if self.method == TRACKING:
            self._state += self._move * (missed - self._allowed)
        else:
            self._state -= self._move * (missed - self._allowed)
            self._recent.append(risk)
            insort(self._ordered, risk)
            if len(self._recent) > self.window:
                del self._ordered[bisect_left(self._ordered, self._recent.popleft())]
        if bound >= self._highest:
            self.infinite += 1
        elif bound < self._lowest:
            self.empty += 1
        self.domains += 1
        recent = self._recent_misses
        recent.append(missed)
        if missed:
            self.misses += 1
            self._missed_recently += 1
        if self.domains > self.window and recent.popleft():
            self._missed_recently -= 1
        if self._missed_recently > self.worst_recently and self.domains >= self.window:
            self.worst_recently = self._missed_recently
        return bound

    @property
    def report(self) -> OnlineReport:
        """Miss rates, their guarantee, and how many bounds said nothing."""
        seen, recent = max(self.domains, 1), max(len(self._recent_misses), 1)
        return OnlineReport(
            domains=self.domains,
            miss_rate=self.misses / seen,
            allowed=1.0 - self.alpha,
            guarantee=self.guarantee,
            infinite=self.infinite / seen,
            empty=self.empty / seen,
            window=self.window,
            recent_miss_rate=self._missed_recently / recent,
            worst_recent_miss_rate=self.worst_recently / self.window,
        )

    def to_dict(self) -> dict[str, Any]:
        """The state, ready for JSON; its size does not grow beyond the window."""
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in (*SETTINGS, *COUNTS)},
            "state": self._state,
            "recent": list(self._recent),
            "recent_misses": [int(missed) for missed in self._recent_misses],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> OnlineBound:
        """The bound that :meth:`to_dict` described, which goes on where that one stopped."""
        try:
            if state["format"] != FORMAT:
                raise ValueError(state["format"])
            made = cls(**{name: state[name] for name in SETTINGS})
            for name in COUNTS:
                setattr(made, name, int(state[name]))
            made._state = float(state["state"])
            made._recent.extend(float(risk) for risk in state["recent"])
            made._ordered = sorted(made._recent)
            made._recent_misses.extend(bool(missed) for missed in state["recent_misses"])
            made._missed_recently = sum(made._recent_misses)
        except (KeyError, TypeError, ValueError) as error:
            raise DomainDataError(
                f"This is not the state of an online bound (format {FORMAT}): {error!r}. Use what "
                "OnlineBound.to_dict returned."
            ) from error
        return made
