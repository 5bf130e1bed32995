"""What the decisions on many tables achieved, kind by kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from studies.policy.settings import BUDGET

Record = dict[str, Any]


@dataclass(frozen=True)
class Played:
    """A table: what was decided, and the truth."""

    record: Record

    @property
    def kind(self) -> str:
        """The kind of world."""
        return str(self.record["kind"])

    @property
    def domains(self) -> int:
        """How many there are in the table."""
        return int(self.record["domains"])

    @property
    def decision(self) -> Record:
        """What was decided."""
        found: Record = self.record["decision"]
        return found

    @property
    def is_plain(self) -> bool:
        """Whether plain training was chosen."""
        return bool(self.decision["chosen"] == self.decision["plain"])

    def truth(self, name: str, what: str = "quantile") -> float:
        """The true quantile, mean or AUC of a model."""
        return float(self.record["models"][name][what])

    @property
    def chosen(self) -> float:
        """The true quantile of the model that was handed over."""
        return self.truth(self.decision["chosen"])

    @property
    def plain(self) -> float:
        """That of plain training."""
        return self.truth(self.decision["plain"])

    @cached_property
    def best(self) -> float:
        """The lowest one of all models whose true mean risk is within the budget."""
        models = self.record["models"]
        most = (1.0 + BUDGET) * self.truth(self.decision["plain"], "mean")
        return float(min(m["quantile"] for m in models.values() if m["mean"] <= most))

    def always(self, way: str) -> float:
        """The true quantile of one way of training, of the family of plain training."""
        family = self.decision["plain"].partition(",")[0]
        for name, model in self.record["models"].items():
            if name.startswith(f"{family}, {way}"):
                return float(model["quantile"])
        return math.nan

    def earlier(self, role: str) -> float:
        """What following version 0.2's first release gave; NaN where that is not stored."""
        found = self.record.get("previous")
        return math.nan if found is None else float(found[role]["quantile"])

    @property
    def regret(self) -> float:
        """By how much the chosen one is above the best, as a share."""
        return self.chosen / self.best - 1.0

    @property
    def gain(self) -> float:
        """The true change from plain training to the chosen one, as a share."""
        return self.chosen / self.plain - 1.0

    @property
    def price(self) -> float:
        """The true change of the mean risk."""
        chosen, plain = self.decision["chosen"], self.decision["plain"]
        return self.truth(chosen, "mean") / self.truth(plain, "mean") - 1.0

    @property
    def covered(self) -> bool:
        """Whether the interval of the change holds the true one."""
        other = self.decision["rival"] if self.is_plain else self.decision["chosen"]
        if other is None:
            return True
        true = self.truth(other) / self.plain - 1.0
        return bool(self.decision["low"] <= true <= self.decision["high"])

    @property
    def bounded(self) -> bool | None:
        """Whether the cross-fitted bound is at least the true quantile; None without a bound."""
        bound = self.record["bound"]
        return None if bound is None else bool(bound >= self.chosen)


def by_kind(played: Sequence[Played]) -> dict[str, list[Played]]:
    """The tables of each kind."""
    found: dict[str, list[Played]] = {}
    for each in played:
        found.setdefault(each.kind, []).append(each)
    return found


def average(of: Callable[[Played], float], played: Sequence[Played]) -> float:
    """The mean of what is known."""
    values = [value for each in played if not math.isnan(value := of(each))]
    return float(np.mean(values)) if values else math.nan


def share(of: Callable[[Played], bool | None], played: Sequence[Played]) -> tuple[float, int]:
    """How often something is so, and of how many."""
    known = [value for each in played if (value := of(each)) is not None]
    return (float(np.mean(known)) if known else math.nan), len(known)


def slack(stated: float, number: int) -> float:
    """By how much a share of so many may be below the stated one by chance: two standard errors."""
    return 2.0 * math.sqrt(stated * (1.0 - stated) / max(number, 1))
