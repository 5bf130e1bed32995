"""What the parts say together: changes against ERM with intervals, choices, excesses.

All comparisons are paired: candidates of a split are measured on the same unseen domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eqrm import Level
from eqrm.estimators.selection.surrogates import SurrogateChoice
from eqrm.evaluation.inference.sureness import resampled_smooth_quantiles
from studies.frontiers.experiment import Part, Step
from studies.frontiers.settings import (
    AUTO,
    CORRECTIONS,
    EQRM,
    ERM,
    ERM_SURROGATE,
    METHODS,
    RECALIBRATED,
    Candidate,
    StudySettings,
)
from studies.split_interval import SplitInterval

Array = NDArray[np.float64]


def with_auto(part: Part, settings: StudySettings) -> Part:
    """A part with what ``surrogate="auto"`` takes for each goal, by cross-fitted risks alone."""
    chosen, places = {}, []
    for goal in settings.goals:
        compared = (ERM_SURROGATE, *CORRECTIONS, *settings.surrogates(goal, part.name.model))
        own = [part.candidates.index(Candidate.of(surrogate, goal)) for surrogate in compared]
        choice = SurrogateChoice(Level(goal), compared, part.cross_fitted[own])
        places.append(own[choice.place])
        chosen[goal] = part.candidates[places[-1]]
    return replace(
        part,
        candidates=(*part.candidates, *(Candidate(AUTO, goal) for goal in settings.goals)),
        unseen=np.concatenate([part.unseen, part.unseen[places]]),
        cross_fitted=np.concatenate([part.cross_fitted, part.cross_fitted[places]]),
        chosen=chosen,
    )


@dataclass(frozen=True)
class Excess:
    """What auto and plain EQRM lose for a goal against the best fixed choice in hindsight.

    ``best`` is the best of auto's own candidates, ``overall`` the excess of auto over the best
    candidate of the whole study.
    """

    best: Candidate
    auto: SplitInterval
    plain: SplitInterval
    overall: SplitInterval
    gain: float


@dataclass(frozen=True)
class WithinBudget:
    """A method within a budget of mean risk: changes of quantile and mean against ERM.

    ``reached`` counts the splits in which a candidate kept the budget on the training domains.
    """

    quantile: SplitInterval
    mean: SplitInterval
    reached: int
    splits: int

    @property
    def mostly_reached(self) -> bool:
        """Whether it was kept in more than half of the splits."""
        return 2 * self.reached > self.splits


@dataclass(frozen=True, eq=False)
class TableFindings:
    """All splits of one table and model."""

    table: str
    model: str
    parts: tuple[Part, ...]
    settings: StudySettings
    _unseen: dict[float, Array] = field(default_factory=dict, init=False)
    _left_out: dict[float, Array] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        """For tables: the model where it is not linear."""
        return self.table if self.model == "linear" else f"{self.table}, {self.model}"

    @property
    def source(self) -> str:
        """Whose domains these are: the flights with and without weather are of the same days."""
        return self.table.split("-")[0]

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The same in every part."""
        return self.parts[0].candidates

    def joined(self, other: TableFindings) -> TableFindings:
        """With the splits of other findings of the same pair, for the candidates of those."""
        parts = (*(part.only(other.candidates) for part in self.parts), *other.parts)
        return replace(other, parts=parts)

    @property
    def methods(self) -> list[str]:
        """Those that this model has."""
        present = {candidate.method for candidate in self.candidates}
        return [method for method in METHODS if method in present]

    @property
    def test_to_train(self) -> float:
        """Test domains per training domain."""
        part = self.parts[0]
        return float(part.unseen.shape[1] / part.cross_fitted.shape[1])

    def settings_of(self, method: str) -> list[int]:
        """The places of a method's candidates."""
        return [i for i, candidate in enumerate(self.candidates) if candidate.method == method]

    def place(self, candidate: Candidate) -> int:
        """Among the candidates."""
        return self.candidates.index(candidate)

    @cached_property
    def means(self) -> Array:
        """Mean risks on unseen domains (S, C)."""
        return np.stack([part.unseen.mean(axis=1) for part in self.parts])

    def quantiles(self, goal: float) -> Array:
        """Quantiles over unseen domains (S, C)."""
        if goal not in self._unseen:
            self._unseen[goal] = np.stack([_quantile(part.unseen, goal) for part in self.parts])
        return self._unseen[goal]

    def cross_fitted_quantiles(self, goal: float) -> Array:
        """Quantiles over training domains, left out of the fit (S, C); by Harrell and Davis."""
        if goal not in self._left_out:
            level, risks = Level(goal), [part.cross_fitted for part in self.parts]
            found = [resampled_smooth_quantiles(each, level, 0, seed=0)[0] for each in risks]
            self._left_out[goal] = np.stack(found)
        return self._left_out[goal]

    def interval(self, differences: Array, unit: Array) -> SplitInterval:
        """Of differences (S,), as a share of the mean of ``unit`` (S,)."""
        return SplitInterval.of(differences / unit.mean(), self.test_to_train)

    def chosen(self, method: str, goal: float, budget: float | None = None) -> list[int | None]:
        """The candidate of a method for a goal in each split, by cross-fitted risks alone.

        With a budget, the lowest quantile among those whose mean risk exceeds ERM's by at most
        this share; None where there is none.
        """
        quantiles, places = self.cross_fitted_quantiles(goal), self.settings_of(method)
        found: list[int | None] = []
        for split, part in enumerate(self.parts):
            means = part.cross_fitted.mean(axis=1)
            allowed = places
            if budget is not None:
                most = (1.0 + budget) * means[self.place(Candidate(ERM))] * (1.0 + 1e-6)
                allowed = [place for place in places if means[place] <= most]
            found.append(min(allowed, key=lambda i: quantiles[split, i]) if allowed else None)
        return found

    def own(self, method: str, goal: float) -> list[int]:
        """A method's candidate for a goal in each split: auto's own, others by cross-fitting."""
        if method == AUTO or method in RECALIBRATED.values():
            return [self.place(Candidate(method, goal))] * len(self.parts)
        return [place for place in self.chosen(method, goal) if place is not None]

    def change(self, method: str, against: str, goal: float) -> tuple[SplitInterval, SplitInterval]:
        """Of quantile and mean risk from ``against`` to ``method``, as shares of ERM's."""
        splits, quantiles = np.arange(len(self.parts)), self.quantiles(goal)
        first, second = self.own(against, goal), self.own(method, goal)
        erm = self.place(Candidate(ERM))
        return (
            self.interval(quantiles[splits, second] - quantiles[splits, first], quantiles[:, erm]),
            self.interval(
                self.means[splits, second] - self.means[splits, first], self.means[:, erm]
            ),
        )

    def within(self, method: str, goal: float, budget: float) -> WithinBudget | None:
        """A method within a budget; None where no split reaches it."""
        taken = [(s, p) for s, p in enumerate(self.chosen(method, goal, budget)) if p is not None]
        if not taken:
            return None
        splits, places = (np.array(each) for each in zip(*taken, strict=True))
        erm, quantiles = self.place(Candidate(ERM)), self.quantiles(goal)
        return WithinBudget(
            self.interval(
                quantiles[splits, places] - quantiles[splits, erm], quantiles[splits, erm]
            ),
            self.interval(
                self.means[splits, places] - self.means[splits, erm], self.means[splits, erm]
            ),
            len(taken),
            len(self.parts),
        )

    def excess(self, goal: float) -> Excess:
        """Of auto and of plain EQRM, as shares of ERM's quantile."""
        quantiles = self.quantiles(goal)
        fixed = [
            Candidate(ERM),
            *(Candidate(name, goal) for name in RECALIBRATED.values()),
            *(Candidate.of(s, goal) for s in self.settings.surrogates(goal, self.model)),
        ]
        average = quantiles.mean(axis=0)
        best = min(fixed, key=lambda candidate: average[self.place(candidate)])
        others = [i for i, c in enumerate(self.candidates) if c.method != AUTO]
        overall = min(others, key=lambda i: average[i])
        auto, plain = (quantiles[:, self.place(Candidate(k, goal))] for k in (AUTO, EQRM))
        lowest, erm = quantiles[:, self.place(best)], quantiles[:, self.place(Candidate(ERM))]
        return Excess(
            best,
            self.interval(auto - lowest, erm),
            self.interval(plain - lowest, erm),
            self.interval(auto - quantiles[:, overall], erm),
            float(lowest.mean() / erm.mean() - 1.0),
        )

    @property
    def cost(self) -> float | None:
        """The time of auto in path fits, where it was measured."""
        found = [part.cost for part in self.parts if part.cost is not None]
        return float(np.mean(found)) if found else None

    def stepped(self, step: Step) -> Array:
        """The quantile at its own level of a fit of the gradient study (S,)."""
        place = self.parts[0].steps.index(step)
        return np.array([_quantile(part.stepped, step[0])[place] for part in self.parts])

    def gradient_worth(self, level: float, size: int | None) -> tuple[SplitInterval, ...]:
        """Exact against ERM, published against ERM, exact against published; shares of ERM's."""
        erm = self.quantiles(level)[:, self.place(Candidate(ERM))]
        exact, published = (self.stepped((level, size, g)) for g in ("implicit", "bisection"))
        pairs = ((exact, erm), (published, erm), (exact, published))
        return tuple(self.interval(one - other, erm) for one, other in pairs)


def all_splits(
    findings: Sequence[TableFindings], repeated: Sequence[TableFindings], goal: float
) -> list[TableFindings]:
    """The findings, with the fresh splits of those that were measured again for a goal."""
    fresh = {each.name: each for each in repeated if goal in each.settings.goals}
    return [each.joined(fresh[each.name]) if each.name in fresh else each for each in findings]


def _quantile(risks: Array, level: float) -> Array:
    """The smallest risk that this share of the domains does not exceed, for each row."""
    found: Array = np.quantile(risks, level, axis=1, method="inverted_cdf")
    return found
