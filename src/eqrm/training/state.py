"""Everything that changes while training, so that a checkpoint can hold all of it.

Objectives say what to differentiate; only this file takes steps.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eqrm.errors import CheckpointError, DomainDataError, EqrmError, SettingError
from eqrm.objectives.base import Objective, Update
from eqrm.objectives.base import OptimizerChoice as OptimizerChoice
from eqrm.objectives.risk_objective import messages_of_all
from eqrm.predictors.base import Predictor
from eqrm.training.device_data import Batches
from eqrm.training.phases import Phases
from eqrm.training.processes import average_gradients, rank
from eqrm.training.training_settings import EarlyStopping, TrainingSettings

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


@dataclass(eq=False)
class StoppingWatch:
    """The best evaluation so far, its weights, and how long ago it was."""

    rule: EarlyStopping
    best: float = math.inf
    best_step: int = -1
    waited: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.waited >= self.rule.patience

    def look(self, step: int, watched: float, network: nn.Module) -> None:
        if watched < self.best - self.rule.smallest_gain or self.best_step < 0:
            self.best, self.best_step, self.waited = watched, step, 0
            self.weights = {key: value.clone() for key, value in network.state_dict().items()}
        else:
            self.waited += 1

    def state_dict(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "rule"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best, self.best_step = float(state["best"]), int(state["best_step"])
        self.waited = int(state["waited"])
        self.weights = dict(state["weights"])


@dataclass(eq=False)
class TrainingState:
    """Predictor, objective, optimizers, sampler, averages and counters of a run.

    ``phase`` is −1 before the first, ``divisor`` what the phase's losses are divided by (None until
    its first batch), ``erm_norm`` the norm of ERM's gradient at the first step, where it is needed.
    """

    predictor: Predictor
    phases: Phases
    batches: Batches
    num_domains: int
    settings: TrainingSettings
    average: WeightAverage | None = None
    optimizers: Optimizers | None = None
    divisor: float | None = None
    erm_norm: float | None = None
    step: int = 0
    phase: int = -1

    def __post_init__(self) -> None:
        rule = self.settings.early_stopping
        self.stopping = None if rule is None else StoppingWatch(rule)

    @property
    def objective(self) -> Objective:
        """What the present phase minimises."""
        return self.phases[max(self.phase, 0)].minimised

    def enter_phase(self, number: int) -> None:
        """Prepare predictor, objective and optimizers for a phase."""
        phase = self.phases[number]
        device = next(self.predictor.parameters()).device
        prepared = phase.minimised.prepare(self.predictor, self.num_domains).to(device)
        phase.minimised.to(device)
        kept = None
        if self.optimizers is not None and not phase.fresh_optimizer:
            kept = self.optimizers.by_name["predictor"]
        captured = self.settings.cuda_graph and device.type == "cuda"
        self.optimizers = Optimizers(
            self.settings.optimizer, phase.rate(), prepared, phase.minimised, kept, captured
        )
        decay = self.settings.weight_average
        if decay is not None and (self.average is None or prepared is not self.predictor):
            self.average = WeightAverage(prepared, decay)
        self.predictor, self.phase, self.divisor = prepared, number, None

    def state_dict(self) -> dict[str, Any]:
        """The whole state; with several processes all must ask."""
        return {
            "step": self.step,
            "phase": self.phase,
            "divisor": self.divisor,
            "erm_norm": self.erm_norm,
            "predictor": dict(self.predictor.state_dict()),
            "objective": dict(self.objective.state_dict()),
            "optimizers": None if self.optimizers is None else self.optimizers.state_dict(),
            "batches": self.batches.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "stopping": None if self.stopping is None else self.stopping.state_dict(),
            "random": messages_of_all(random_states()),  # by rank
        }

    def refuse_bad_weights(self) -> None:
        """Raise if weights are not finite, before they replace a good checkpoint."""
        for name, parameter in self.predictor.named_parameters():
            if not bool(parameter.isfinite().all()):
                raise DomainDataError(
                    f"The weights {name!r} are not finite after step {self.step}. Lower the "
                    "learning rate, set clip_gradients, or check the data; the checkpoints before "
                    "this step are kept."
                )

    def load_state_dict(self, state: Any) -> None:
        """Continue from where ``state`` was saved. Phases before it are entered, not trained."""
        try:
            for number in range(int(state["phase"]) + 1):
                self.enter_phase(number)
            self.predictor.load_state_dict(state["predictor"])
            self.objective.load_state_dict(state["objective"])
            for name in ("optimizers", "batches", "average", "stopping"):
                part = getattr(self, name)
                if (part is None) != (state[name] is None):
                    raise CheckpointError(f"It was written by a run with different {name}.")
                if part is not None:
                    part.load_state_dict(state[name])
            self.divisor, self.erm_norm = (
                None if state[name] is None else float(state[name])
                for name in ("divisor", "erm_norm")
            )
            self.step = int(state["step"])
            if not 0 <= self.step <= self.phases.steps:
                raise CheckpointError(
                    f"It was written at step {self.step}, but this run has {self.phases.steps}."
                )
            if rank() < len(state["random"]):
                set_random_states(state["random"][rank()])
            else:  # a process that was not there before
                seed_everything(self.settings.seed + self.step, rank())
        except EqrmError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise CheckpointError(f"It does not fit this run ({error}).") from None


def seed_everything(seed: int, process: int = 0) -> None:
    """Seed every generator; processes draw different numbers (their dropout masks differ)."""
    words = np.random.SeedSequence([seed, process]).generate_state(3)
    torch.manual_seed(int(words[0]))
    np.random.seed(int(words[1]))  # noqa: NPY002 - users' transforms draw from it
    random.seed(int(words[2]))


def random_states() -> dict[str, Any]:
    """The state of every generator of this process."""
    version, internal, gauss = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002
        "python": {"version": version, "internal": np.array(internal), "gauss": gauss},
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Put every generator back where :func:`random_states` found it."""
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(states["numpy"])  # noqa: NPY002
    python = states["python"]
    random.setstate((python["version"], tuple(python["internal"].tolist()), python["gauss"]))
