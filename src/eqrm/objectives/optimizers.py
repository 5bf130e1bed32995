"""Which optimizer trains the predictor, and which the networks that an objective owns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from eqrm.checks import NON_NEGATIVE, Rule, check_fields, number, one_of, ruled

OPTIMIZERS = ("adam", "adamw", "sgd")
CAPTURABLE = ("adam", "adamw")
"""Those whose steps can be captured as CUDA graphs."""
_BETA = number(0, below=1)
_BETAS = Rule(
    "two numbers of at least 0 and below 1", lambda v: len(v) == 2 and all(map(_BETA.holds, v))
)


@dataclass(frozen=True)
class OptimizerChoice:
    """An optimizer and its settings, without a learning rate.

    Attributes:
        name: ``"adam"``, ``"adamw"`` or ``"sgd"``.
        weight_decay: Adam adds it to the gradient, AdamW takes it off the weights.
        momentum: of SGD.
        betas: of Adam and AdamW.
    """

    name: str = "adam"
    weight_decay: float = ruled(0.0, NON_NEGATIVE)
    momentum: float = ruled(0.9, number(0, below=1))
    betas: tuple[float, float] = ruled((0.9, 0.999), _BETAS)

    def __post_init__(self) -> None:
        one_of(self.name, OPTIMIZERS, "optimizer")
        object.__setattr__(self, "betas", tuple(self.betas))
        check_fields(self)

    def make(
        self,
        parameters: list[nn.Parameter] | tuple[nn.Parameter, ...],
        learning_rate: float,
        captured: bool = False,
    ) -> torch.optim.Optimizer:
        """The optimizer of some parameters; ``captured``: its steps may go into CUDA graphs."""
        if self.name == "sgd":
            return torch.optim.SGD(
                parameters, learning_rate, momentum=self.momentum, weight_decay=self.weight_decay
            )
        kind = torch.optim.AdamW if self.name == "adamw" else torch.optim.Adam
        settings: dict[str, Any] = {"betas": self.betas, "weight_decay": self.weight_decay}
        if not captured:
            return kind(parameters, learning_rate, **settings)
        rate = torch.tensor(learning_rate, device=parameters[0].device)
        return kind(parameters, rate, capturable=True, fused=True, **settings)


@dataclass(frozen=True)
class OptimizerSettings:
    """How a network that belongs to the objective, not to the predictor, is trained.

    A ``learning_rate`` of None is the phase's own, a ``choice`` of None is Adam with the
    predictor's weight decay.
    """

    parameters: tuple[nn.Parameter, ...]
    learning_rate: float | None = None
    choice: OptimizerChoice | None = None
