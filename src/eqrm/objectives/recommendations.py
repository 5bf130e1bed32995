"""What an objective recommends to whoever trains with it: phases and optimizer settings.

Annealing and burn-in are stretches of training, so an objective describes them here and never
counts steps itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from eqrm.objectives.hyperparameters import SearchSpace


@dataclass(frozen=True)
class OptimizerSettings:
    """Adam's settings for networks that belong to the objective, not to the predictor.

    A ``learning_rate`` or ``weight_decay`` of None means: as for the predictor.
    """

    parameters: tuple[nn.Parameter, ...]
    learning_rate: float | None = None
    weight_decay: float | None = None
    betas: tuple[float, float] = (0.9, 0.999)


@dataclass(frozen=True)
class RecommendedPhase:
    """A stretch of training with one objective and one learning rate.

    Attributes:
        objective_name: the registry's name of what is minimised.
        steps: how long; None means to the end of training.
        hyperparameters: what differs from the hyperparameters the user chose.
        learning_rate: None means the run's own.
        fresh_optimizer: whether the phase starts with new optimizer state.
        loss_scaling: the published scaling, by name (see ``eqrm.objectives.loss_scaling``).
        steps_space, learning_rate_space: where a random search draws them from.
        note: where the recommendation comes from.

    >>> RecommendedPhase("erm", steps=500, note="burn-in").steps
    500
    """

    objective_name: str
    steps: int | None
    note: str = ""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float | None = None
    fresh_optimizer: bool = False
    loss_scaling: str = "none"
    steps_space: SearchSpace[float] | None = None
    learning_rate_space: SearchSpace[float] | None = None
