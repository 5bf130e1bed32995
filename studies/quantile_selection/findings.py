"""What the selection rules take in each split, and what that gives on unseen days.

The rules are those of :mod:`eqrm.sweeps.selection`. They also measure: the score of a record whose
unseen days stand in the place of its validation days is minus the mean, or the quantile, of the
risk over unseen days.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eqrm.errors import EqrmError
from eqrm.sweeps.records import Checkpoint, RunRecord
from eqrm.sweeps.selection import (
    Candidates,
    QuantileSelection,
    Selected,
    SelectionRule,
    TrainingDomainValidation,
)
from studies.quantile_selection.experiment import SplitRuns
from studies.quantile_selection.settings import (
    EITHER,
    EQRM,
    ERM,
    GROUPS,
    LEVELS,
    LINEAR,
    WITH_ERM_PHASE,
    SelectionSettings,
)
from studies.split_interval import SplitInterval

Array = NDArray[np.float64]
MEAN = "mean"
VALIDATION, TEST = "validation", "test"


def quantile_name(level: float) -> str:
    """What a quantile is called, as a measure and as a rule."""
    return f"{level:g}-quantile"


RULES: Mapping[str, SelectionRule] = {
    MEAN: TrainingDomainValidation(metric="risk"),
    **{quantile_name(level): QuantileSelection(alpha=level) for level in LEVELS},
}
"""The rules, and the measures of what they select."""
MEASURES = tuple(RULES)
HINDSIGHT, RANDOM, DEFAULTS = "best in hindsight", "random draw", "defaults"
REFERENCES = (HINDSIGHT, RANDOM, DEFAULTS)


def measures_of(run: RunRecord, checkpoints: Sequence[Checkpoint], split: str) -> Array:
    """Every measure (checkpoints, measures) of the risks over the domains of a split."""
    shown = [
        replace(each, risks={VALIDATION: each.risks[split]}, accuracies={}) for each in checkpoints
    ]
    alone = Candidates(frozenset(), {run.draw: run})
    scores = [rule.scores(run, shown, alone) for rule in RULES.values()]
    return -np.array(scores, dtype=np.float64).T


@dataclass(frozen=True)
class SplitSelection:
    """The candidates of one split: all draws and checkpoints of an objective, or of both."""

    runs: tuple[RunRecord, ...]

    @cached_property
    def selected(self) -> dict[str, Selected]:
        """What each rule takes by validation days. Equal scores go to the first run."""
        candidates = Candidates(frozenset(self.runs[0].held_out), dict(enumerate(self.runs)))
        choices = {name: rule.select(candidates) for name, rule in RULES.items()}
        for name, choice in choices.items():
            if choice.unjudged or choice.selected is None:
                raise EqrmError(f"Selection by the {name} cannot judge runs: {choice.unjudged}")
        return {name: c.selected for name, c in choices.items() if c.selected is not None}

    @cached_property
    def unseen(self) -> dict[str, Array]:
        """The measures (4,) on unseen days of what each rule takes, and of references."""
        everything = [measures_of(run, run.checkpoints, TEST) for run in self.runs]
        found = {
            name: measures_of(chosen.run, [chosen.checkpoint], TEST)[0]
            for name, chosen in self.selected.items()
        }
        found[HINDSIGHT] = np.concatenate(everything).min(axis=0)
        found[RANDOM] = np.mean([each[-1] for each in everything], axis=0)
        found[DEFAULTS] = next(
            (e[-1] for r, e in zip(self.runs, everything, strict=True) if r.draw == 0),
            np.full(len(MEASURES), np.nan),
        )
        return found


@dataclass(frozen=True)
class SelectionFindings:
    """All splits together; everything is computed from the records of the runs."""

    settings: SelectionSettings
    splits: tuple[SplitRuns, ...]

    @cached_property
    def selections(self) -> dict[str, tuple[SplitSelection, ...]]:
        """For each group the candidates of every split; ERM's come first where both are."""
        runs = [(split.runs[ERM], split.runs[EQRM]) for split in self.splits]
        return {
            ERM: tuple(SplitSelection(erm) for erm, _ in runs),
            EQRM: tuple(SplitSelection(tuple(map(self._after_erm, eqrm))) for _, eqrm in runs),
            WITH_ERM_PHASE: tuple(SplitSelection(eqrm) for _, eqrm in runs),
            EITHER: tuple(SplitSelection((*erm, *eqrm)) for erm, eqrm in runs),
        }

    def _after_erm(self, run: RunRecord) -> RunRecord:
        kept = (each for each in run.checkpoints if each.step > self.settings.erm_steps)
        return replace(run, checkpoints=tuple(kept))

    @cached_property
    def linear(self) -> Array:
        """The measures (splits, 4) of linear ERM, after its last step."""
        return np.stack(
            [measures_of(s.linear, s.linear.checkpoints[-1:], TEST)[0] for s in self.splits]
        )

    def unseen(self, group: str, option: str) -> Array:
        """The measures (splits, 4) on unseen days of a rule or reference in a group."""
        if group == LINEAR:
            return self.linear
        return np.stack([each.unseen[option] for each in self.selections[group]])

    def change(self, of: tuple[str, str], against: tuple[str, str], measure: str) -> SplitInterval:
        """The relative difference of a measure between two pairs of group and option."""
        place = MEASURES.index(measure)
        first, second = self.unseen(*of)[:, place], self.unseen(*against)[:, place]
        return SplitInterval.of(first / second - 1.0, self.settings.test_to_train)

    def from_mean(self, group: str, option: str, measure: str) -> SplitInterval:
        """The same against selection by the mean in the same group."""
        return self.change((group, option), (group, MEAN), measure)

    def agreement(self, group: str, rule: str) -> tuple[int, int]:
        """In how many splits a rule takes the same run as the mean, and the same checkpoint too."""
        pairs = [(s.selected[rule], s.selected[MEAN]) for s in self.selections[group]]
        same = [(a, b) for a, b in pairs if a.run.run == b.run.run]
        return len(same), sum(a.checkpoint.step == b.checkpoint.step for a, b in same)

    @cached_property
    def drifts(self) -> Array:
        """The change of every run's mean validation risk before its end, as a share."""
        runs = [run for split in self.splits for run in split.all_runs]
        risks = np.stack([measures_of(run, run.checkpoints[-2:], VALIDATION)[:, 0] for run in runs])
        return np.abs(risks[:, 1] / risks[:, 0] - 1.0)


def groups_and_rules() -> list[tuple[str, str]]:
    """Every pair of a group and a rule, in the order of the tables."""
    return [(group, rule) for group in GROUPS for rule in RULES]
