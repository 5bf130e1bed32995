"""Phases one after the other: what a run fills into them, and which of them a step belongs to.

Burn-in is a phase, annealing is a phase, and so is what follows them. Steps are integers and a
phase ends when the step counter has *reached* its end (>=): a burn-in of 316.2 steps that is
compared by == never ends, which is what happened in the published sweeps.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from eqrm.checks import is_integer, naming_field
from eqrm.errors import SettingError
from eqrm.objectives.base import Objective
from eqrm.objectives.base import Phase as Phase
from eqrm.objectives.registry import OBJECTIVES


@dataclass(frozen=True)
class Place:
    """Where in the phases a step lies: the phase's number, and the step within it."""

    phase: int
    step: int


class Phases:
    """Phases one after the other, and which of them a step belongs to.

    >>> phases = Phases([Phase("erm", 3), Phase("eqrm", 2)])
    >>> phases.steps, [phases.place(step).phase for step in range(5)]
    (5, [0, 0, 0, 1, 1])
    """

    def __init__(self, phases: Sequence[Phase]) -> None:
        listed = isinstance(phases, (list, tuple))
        if not listed or not all(isinstance(phase, Phase) for phase in phases):
            raise SettingError(f"phases must be a list of Phase(objective, steps), got {phases!r}.")
        if not phases:
            raise SettingError("phases is empty: training needs at least one phase.")
        self.phases = tuple(phases)
        self.ends = tuple(accumulate(phase.length for phase in self.phases))

    def __len__(self) -> int:
        return len(self.phases)

    def __getitem__(self, number: int) -> Phase:
        return self.phases[number]

    @property
    def steps(self) -> int:
        """The steps of all phases together."""
        return self.ends[-1]

    def place(self, step: int) -> Place:
        """The first phase whose end is not reached yet; the last one from there on."""
        number = sum(step >= end for end in self.ends[:-1])
        begin = self.ends[number - 1] if number else 0
        return Place(number, step - begin)


def completed_phases(
    phases: Sequence[Phase],
    objective: Objective,
    steps: int,
    learning_rate: float,
    schedule: str = "constant",
) -> tuple[Phase, ...]:
    """Phases with the run's own objective, rate, schedule and steps where they left them out."""
    given = sum(phase.steps for phase in phases if phase.steps is not None)
    open_ended = sum(phase.steps is None for phase in phases)
    if open_ended > 1:
        raise SettingError("phases: only one phase may leave out its steps.")
    left = steps - given
    if left < open_ended or (left != 0 and not open_ended):
        raise SettingError(
            f"phases: their steps add up to {given}, which does not fit steps: {steps}. "
            "Change one of them, or leave out the steps of one phase."
        )
    made = []
    for number, phase in enumerate(phases):
        with naming_field(f"phases[{number}]"):
            made.append(
                replace(
                    phase,
                    objective=_objective_of(phase, objective),
                    hyperparameters={},
                    steps=left if phase.steps is None else phase.steps,
                    learning_rate=phase.learning_rate or learning_rate,
                    schedule=phase.schedule or schedule,
                )
            )
    return tuple(made)


def _objective_of(phase: Phase, own: Objective) -> Objective:
    """The run's objective, one of its kind with other hyperparameters, or another by name."""
    named = phase.objective
    if named is not None and (not isinstance(named, str) or OBJECTIVES.name_of(named) != own.name):
        return phase.minimised
    if not phase.hyperparameters:
        return own
    return replace(copy.deepcopy(own), **phase.hyperparameters)


def recommended_phases(
    objective: Objective, steps: int, learning_rate: float, schedule: str = "constant"
) -> tuple[Phase, ...]:
    """The phases that an objective recommends, fitted into ``steps``.

    The phase that lasts to the end takes what the others leave. ``learning_rate`` and
    ``schedule`` are the run's own; a recommended learning rate takes precedence.

    >>> from eqrm.objectives import VREx
    >>> for phase in recommended_phases(VREx(10.0), steps=2000, learning_rate=1e-3):
    ...     print(phase.steps, phase.objective.penalty_weight, phase.fresh_optimizer)
    500 1.0 True
    1500 10.0 True
    """
    recommended = objective.recommended_phases()
    fixed = sum(each.steps for each in recommended if each.steps is not None)
    if not is_integer(steps) or steps <= fixed:
        raise SettingError(
            f"The phases that {type(objective).__name__} recommends need more than {fixed} steps, "
            f"got {steps!r}. Train longer, choose `phases: single` (the objective alone), or give "
            "phases of your own."
        )
    return completed_phases(recommended, objective, steps, learning_rate, schedule)
