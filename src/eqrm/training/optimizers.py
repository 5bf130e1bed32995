"""Every optimizer of a run. Objectives say what to differentiate; only this file takes steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from eqrm.errors import SettingError, did_you_mean
from eqrm.objectives.base import Objective, Update
from eqrm.predictors.base import Predictor
from eqrm.training.processes import average_gradients

OPTIMIZERS = ("adam", "adamw", "sgd")


@dataclass(frozen=True)
class OptimizerChoice:
    """Which optimizer trains the predictor.

    Attributes:
        name: ``"adam"``, ``"adamw"`` or ``"sgd"``.
        weight_decay: Adam adds it to the gradient, AdamW takes it off the weights.
        momentum: of SGD.
        betas: of Adam and AdamW.

    >>> OptimizerChoice("adma")
    Traceback (most recent call last):
        ...
    eqrm.errors.SettingError: There is no optimizer 'adma'. Did you mean 'adam'? ...
    """

    name: str = "adam"
    weight_decay: float = 0.0
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.999)

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise SettingError(
                f"There is no optimizer {self.name!r}. {did_you_mean(self.name, OPTIMIZERS)}"
            )
        for field, value in (("weight_decay", self.weight_decay), ("momentum", self.momentum)):
            if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise SettingError(f"{field} must be a finite number, 0 or more, not {value!r}.")
        object.__setattr__(self, "betas", tuple(self.betas))
        if len(self.betas) != 2 or not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise SettingError(
                f"betas must be two numbers, 0 or more and below 1, not {list(self.betas)}."
            )

    def make(self, parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
        """The optimizer of the predictor's parameters."""
        if self.name == "sgd":
            return torch.optim.SGD(
                parameters, learning_rate, momentum=self.momentum, weight_decay=self.weight_decay
            )
        kind = torch.optim.AdamW if self.name == "adamw" else torch.optim.Adam
        return kind(parameters, learning_rate, betas=self.betas, weight_decay=self.weight_decay)


class Optimizers:
    """The predictor's optimizer and those of the objective's own networks, for one phase.

    ``kept`` is the predictor's optimizer of the phase before, for phases that go on with its
    state; it is kept if it holds the same parameters.
    """

    def __init__(
        self,
        choice: OptimizerChoice,
        learning_rate: float,
        predictor: Predictor,
        objective: Objective,
        kept: torch.optim.Optimizer | None = None,
    ) -> None:
        parameters = [p for p in predictor.parameters() if p.requires_grad]
        if not parameters:
            raise SettingError("The predictor has no parameter that can be trained.")
        if kept is None or not _holds(kept, parameters):
            kept = choice.make(parameters, learning_rate)
        self.by_name: dict[str, torch.optim.Optimizer] = {"predictor": kept}
        self.rates = {"predictor": learning_rate}
        for name, own in objective.optimizer_settings(predictor).items():
            rate = learning_rate if own.learning_rate is None else own.learning_rate
            decay = choice.weight_decay if own.weight_decay is None else own.weight_decay
            self.rates[name] = rate
            self.by_name[name] = torch.optim.Adam(
                own.parameters, rate, betas=own.betas, weight_decay=decay
            )

    def set_rates(self, factor: float) -> None:
        """Multiply every optimizer's learning rate by the schedule's factor."""
        for name, optimizer in self.by_name.items():
            for group in optimizer.param_groups:
                group["lr"] = factor * self.rates[name]

    def apply(self, update: Update, divisor: float, clip: float | None) -> None:
        """Differentiate an update's loss in its own parameters, and take one step."""
        optimizer = self.by_name[update.optimizer]
        parameters = [p for p in update.parameters if p.requires_grad]
        loss = update.loss if divisor == 1.0 else update.loss / divisor
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        optimizer.zero_grad(set_to_none=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        average_gradients(parameters)
        if clip is not None:
            nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """The state of every optimizer, by name."""
        return {name: optimizer.state_dict() for name, optimizer in self.by_name.items()}

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Put every optimizer back where it was."""
        for name, optimizer in self.by_name.items():
            optimizer.load_state_dict(states[name])


def _holds(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> bool:
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    return held == [id(p) for p in parameters]
