"""Stop when a quantile of the risk over validation domains, or its mean, no longer falls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from eqrm.checks import COUNT, NON_NEGATIVE, check_fields, ruled
from eqrm.level import Level


@dataclass(frozen=True)
class EarlyStopping:
    """When to stop.

    Attributes:
        level: which quantile of the risk over the domains of ``split`` is watched; None for its
            mean.
        patience: how many evaluations in a row without improvement are allowed.
        split: the held-out data that is watched.
        smallest_gain: by how much the quantile must fall to count as an improvement.

    Only the last phase is watched: burn-in must not end a run before its objective began. The
    weights of the best evaluation are those that the run ends with.

    >>> EarlyStopping(level=0.9, patience=0)
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: patience must be an integer from 1 to 1,000,000,000, got 0.
    """

    level: Level | float | str | None = 0.9
    patience: int = ruled(5, COUNT)
    split: str = "validation"
    smallest_gain: float = ruled(0.0, NON_NEGATIVE)

    def __post_init__(self) -> None:
        if self.level is not None:
            object.__setattr__(self, "level", Level.of(self.level))
        check_fields(self)


class StoppingWatch:
    """The best evaluation so far, its weights, and how long ago it was.

    >>> network = nn.Linear(1, 1)
    >>> watch = StoppingWatch(EarlyStopping(0.5, patience=2))
    >>> for step, quantile in enumerate([0.5, 0.4, 0.45, 0.41]):
    ...     watch.look(step, quantile, network)
    >>> watch.best_step, watch.over
    (1, True)
    """

    def __init__(self, rule: EarlyStopping) -> None:
        self.rule = rule
        self.best = math.inf
        self.best_step = -1
        self.waited = 0
        self.weights: dict[str, Tensor] = {}

    @property
    def over(self) -> bool:
        """Whether patience has run out."""
        return self.waited >= self.rule.patience

    def look(self, step: int, watched: float, network: nn.Module) -> None:
        """Take in one evaluation."""
        if watched < self.best - self.rule.smallest_gain or self.best_step < 0:
            self.best, self.best_step, self.waited = watched, step, 0
            self.weights = {key: value.clone() for key, value in network.state_dict().items()}
        else:
            self.waited += 1

    def restore(self, network: nn.Module) -> None:
        """Give the network the weights of the best evaluation, if there was one."""
        if self.weights:
            network.load_state_dict(self.weights)

    def state_dict(self) -> dict[str, Any]:
        """Everything the watch remembers."""
        return {key: value for key, value in vars(self).items() if key != "rule"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Remember what ``state`` holds."""
        self.best, self.best_step = float(state["best"]), int(state["best_step"])
        self.waited = int(state["waited"])
        self.weights = dict(state["weights"])
