"""Every optimizer of a run, and the average of the weights over its steps.

Objectives say what to differentiate; only this file takes steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from eqrm.errors import SettingError
from eqrm.objectives.base import Objective, Update
from eqrm.objectives.optimizers import OptimizerChoice as OptimizerChoice
from eqrm.predictors.base import Predictor
from eqrm.training.processes import average_gradients

HOW = {"capturable": False, "fused": None, "foreach": None}
"""How an optimizer computes, which is no part of its state: settings and torch's defaults."""


class Optimizers:
    """The predictor's optimizer and those of the objective's own networks, for one phase.

    ``kept`` is the predictor's optimizer of the phase before, for phases that keep its state; it
    is used if it holds the same parameters. ``captured``: steps may be captured as CUDA graphs.
    """

    def __init__(
        self,
        choice: OptimizerChoice,
        learning_rate: float,
        predictor: Predictor,
        objective: Objective,
        kept: torch.optim.Optimizer | None = None,
        captured: bool = False,
    ) -> None:
        choice = objective.predictor_optimizer(choice, learning_rate)
        parameters = [p for p in predictor.parameters() if p.requires_grad]
        if not parameters:
            raise SettingError("The predictor has no parameter that can be trained.")
        held = [] if kept is None else [p for g in kept.param_groups for p in g["params"]]
        if kept is None or [id(p) for p in held] != [id(p) for p in parameters]:
            kept = choice.make(parameters, learning_rate, captured)
        self.by_name: dict[str, torch.optim.Optimizer] = {"predictor": kept}
        self.rates = {"predictor": learning_rate}
        for name, own in objective.optimizer_settings(predictor).items():
            rate = learning_rate if own.learning_rate is None else own.learning_rate
            used = own.choice or OptimizerChoice(weight_decay=choice.weight_decay)
            self.rates[name] = rate
            self.by_name[name] = used.make(own.parameters, rate)

    def set_rates(self, factor: float) -> None:
        """Multiply every optimizer's learning rate by the schedule's factor."""
        for name, optimizer in self.by_name.items():
            for group in optimizer.param_groups:
                if isinstance(group["lr"], Tensor):  # which a captured step reads
                    group["lr"].fill_(factor * self.rates[name])
                else:
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
        """The state of every optimizer, by name; the same whether or not steps are captured."""
        states = {name: optimizer.state_dict() for name, optimizer in self.by_name.items()}
        for state in states.values():
            for group in state["param_groups"]:
                group["lr"] = float(group["lr"])
                group.update({key: default for key, default in HOW.items() if key in group})
        return states

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        for name, optimizer in self.by_name.items():
            own = [  # settings are those of this run
                {key: value for key, value in group.items() if key != "params"}
                for group in optimizer.param_groups
            ]
            optimizer.load_state_dict(states[name])
            for group, kept_settings in zip(optimizer.param_groups, own, strict=True):
                group.update(kept_settings)
            _put_in_place(optimizer)
            for parameter, state in optimizer.state.items():
                for kept in state.values():
                    if isinstance(kept, Tensor) and kept.shape not in ((), parameter.shape):
                        raise ValueError(f"the optimizer {name!r} is of other weights")


def _put_in_place(optimizer: torch.optim.Optimizer) -> None:
    """Counters of steps on the device where the optimizer expects them, and averages in the memory
    format of the weights."""
    for group in optimizer.param_groups:
        counters = "cpu" if not group.get("capturable", False) else None
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            for name, value in state.items():
                if name == "step" and isinstance(value, Tensor):
                    state[name] = value.to(counters or parameter.device)
                elif isinstance(value, Tensor) and value.shape == parameter.shape:
                    state[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


class WeightAverage:
    """An average of the weights, which often predicts better than the last ones.

    θ̄ ← d·θ̄ + (1 − d)·θ after every step, with d = min(decay, (1 + t)/(10 + t)). The smaller d of
    the first steps lets the average forget the random weights it began with.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.weights: dict[str, Tensor] = {
            name: parameter.detach().clone() for name, parameter in network.named_parameters()
        }

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        self.steps += 1
        keep = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, parameter in network.named_parameters():
            self.weights[name].lerp_(parameter.detach(), 1 - keep)

    @torch.no_grad()
    def put_into(self, network: nn.Module) -> None:
        for name, parameter in network.named_parameters():
            parameter.copy_(self.weights[name])

    @contextmanager
    def in_place_of(self, network: nn.Module) -> Iterator[None]:
        """Inside, the network has the average weights."""
        own = WeightAverage(network, self.decay)  # a copy of the weights as they are
        self.put_into(network)
        try:
            yield
        finally:
            own.put_into(network)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "weights": self.weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = state["steps"]
        for name, weight in self.weights.items():
            weight.copy_(state["weights"][name])
