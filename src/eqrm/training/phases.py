"""Phases: stretches of training with one objective, one learning rate and one schedule.

Burn-in is a phase, annealing is a phase, and so is what follows them. Steps are whole numbers
and a phase ends when the step counter has *reached* its end (>=): a burn-in of 316.2 steps
that is compared by == never ends, which is what happened in the published sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from eqrm.errors import SettingError, did_you_mean
from eqrm.objectives.base import Objective
from eqrm.objectives.loss_scaling import LossScaling
from eqrm.objectives.registry import objective as objective_by_name

SCHEDULES = {
    "constant": "the learning rate stays as it is",
    "cosine": "the learning rate falls to 0 along half a cosine, at the end of the phase",
}


@dataclass(frozen=True)
class Phase:
    """A stretch of training.

    Attributes:
        objective: what is minimised; a name stands for the objective with its defaults.
        steps: how many steps, a whole number.
        learning_rate: where the schedule begins.
        schedule: ``"constant"`` or ``"cosine"`` (to 0 at the end of the phase).
        fresh_optimizer: start with new optimizer state (Adam's moments), or keep what the
            phase before it gathered.
        loss_scaling: a published scaling of the loss, by name, as
            :class:`eqrm.objectives.loss_scaling.LossScaling` describes them.

    >>> Phase("erm", steps=150, learning_rate=1e-3).objective
    ERM()
    >>> Phase("erm", steps=316.2)
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: A phase's steps must be a whole number, 1 or more, not 316.2.
    """

    objective: Objective | str
    steps: int
    learning_rate: float = 1e-3
    schedule: str = "constant"
    fresh_optimizer: bool = True
    loss_scaling: str = "none"

    def __post_init__(self) -> None:
        if isinstance(self.objective, str):
            object.__setattr__(self, "objective", objective_by_name(self.objective))
        if not isinstance(self.objective, Objective):
            raise SettingError(
                "A phase's objective must be an Objective or its name, not "
                f"{type(self.objective).__name__}."
            )
        if not _is_whole(self.steps) or self.steps < 1:
            raise SettingError(
                f"A phase's steps must be a whole number, 1 or more, not {self.steps!r}."
            )
        if not _is_number(self.learning_rate) or not 0 < self.learning_rate < math.inf:
            raise SettingError(
                "A phase's learning_rate must be a finite number above 0, not "
                f"{self.learning_rate!r}."
            )
        if self.schedule not in SCHEDULES:
            raise SettingError(
                f"There is no schedule {self.schedule!r}. {did_you_mean(self.schedule, SCHEDULES)}"
            )
        LossScaling(self.loss_scaling)

    @property
    def minimised(self) -> Objective:
        """The objective, which a name has been replaced by."""
        if isinstance(self.objective, str):
            raise TypeError("a phase replaces names when it is made")
        return self.objective

    def rate_factor(self, step: int) -> float:
        """What the learning rate is multiplied by at a step of this phase, counted from 0.

        >>> phase = Phase("erm", steps=4, schedule="cosine")
        >>> [round(phase.rate_factor(step), 3) for step in range(4)]
        [1.0, 0.854, 0.5, 0.146]
        """
        if self.schedule == "constant":
            return 1.0
        return 0.5 * (1.0 + math.cos(math.pi * min(step, self.steps) / self.steps))


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
            raise SettingError(f"phases must be a list of Phase(objective, steps), not {phases!r}.")
        if not phases:
            raise SettingError("There is no phase: training needs at least one.")
        self.phases = tuple(phases)
        self.ends = tuple(accumulate(phase.steps for phase in self.phases))

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


def recommended_phases(
    objective: Objective,
    steps: int,
    learning_rate: float,
    schedule: str = "constant",
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
    if not _is_whole(steps) or steps <= fixed:
        raise SettingError(
            f"The phases that {type(objective).__name__} recommends need more than {fixed} steps, "
            f"but there are {steps!r}. Train longer, choose "
            "`phases: single` (the objective alone), or give phases of your own."
        )
    return tuple(
        Phase(
            _objective_of(objective, each.objective_name, dict(each.hyperparameters)),
            steps - fixed if each.steps is None else each.steps,
            learning_rate if each.learning_rate is None else each.learning_rate,
            schedule,
            each.fresh_optimizer or number == 0,
            each.loss_scaling,
        )
        for number, each in enumerate(recommended)
    )


def _objective_of(chosen: Objective, name: str, changes: dict[str, object]) -> Objective:
    """The objective itself, one of its kind with other hyperparameters, or another by name."""
    if name != chosen.name:
        return objective_by_name(name, **changes)
    if not changes:
        return chosen
    own = {key: getattr(chosen, key) for key in chosen.hyperparameters}
    made: Objective = type(chosen)(**{**own, **changes})
    return made


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
