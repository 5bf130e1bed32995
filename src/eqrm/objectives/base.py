"""Objective: what training minimises, and how: its updates, its phases, its optimizers.

Whoever trains owns every optimizer, and applies each update before the next is computed, so
adversarial and meta-learning methods are plain generators. Annealing and burn-in are phases of
training: an objective describes them, and never counts steps itself.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from eqrm.checks import (
    COUNT,
    NON_NEGATIVE,
    POSITIVE,
    Rule,
    check_fields,
    number,
    one_of,
    optional,
    refuse_unknown,
    ruled,
)
from eqrm.errors import DomainDataError, SettingError
from eqrm.objectives.batch import Batch
from eqrm.objectives.hyperparameters import (
    Hyperparameter,
    LogUniformSpace,
    SearchSpace,
    declared_hyperparameters,
)
from eqrm.objectives.registry import OBJECTIVES, PRESETS
from eqrm.predictors.base import Predictor

O = TypeVar("O", bound="Objective")  # noqa: E741

LEARNING_RATE = 1e-3
"""Where neither a phase nor its run says otherwise."""

SCHEDULES = {
    "constant": "the learning rate stays as it is",
    "cosine": "the learning rate falls to 0 along half a cosine, at the end of the phase",
}
LOSS_SCALINGS = {
    "none": "the loss as it is",
    "penalty-weight": "divided by the penalty weight when that exceeds 1",
    "gradient-norm-ratio": "divided by ‖∇objective‖ at the start of its phase over ‖∇ERM‖ at the "
    "first step of the run",
}

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


@dataclass(frozen=True)
class Update:
    """One optimizer step: differentiate ``loss`` with respect to ``parameters``, nothing else.

    ``optimizer`` names who takes the step: ``"predictor"``, or a key of the objective's
    :meth:`Objective.optimizer_settings`.
    """

    loss: Tensor
    parameters: tuple[nn.Parameter, ...]
    optimizer: str = "predictor"


class _Declared:
    """``hyperparameters`` of a class or an object, read from the fields of the class."""

    def __get__(self, objective: object, kind: type) -> Mapping[str, Hyperparameter]:
        return declared_hyperparameters(kind)


@dataclass(eq=False, repr=False)
class Objective(nn.Module, ABC):
    """What training minimises.

    A subclass is a dataclass (``@dataclass(eq=False, repr=False)``) with a ``name``, a
    :func:`~eqrm.objectives.hyperparameters.hyperparameter` per field, and :meth:`updates`. It is
    an ``nn.Module`` whose networks appear in :meth:`prepare`, so load a state after preparing.
    """

    name: ClassVar[str]
    preset: ClassVar[str | None] = None
    """Whose version of the method it is, where it is not ours (:data:`PRESETS`)."""
    hyperparameters = _Declared()
    min_domains: ClassVar[int] = 1
    """How many domains a batch needs for the method to mean anything."""
    capturable: ClassVar[bool] = False
    """Whether every step is the same operations on the device, so that it may be captured as a
    CUDA graph: no choice or random draw outside of it, no look at values."""

    def extra_repr(self) -> str:
        """The level, where there is one: ``EQRM(alpha=0.9)``."""
        level = getattr(self, "level", None)
        return "" if level is None else f"alpha={level}"

    def __new__(cls: type[O], *args: Any, **kwargs: Any) -> O:
        """Name a mistyped hyperparameter before ``__init__`` is called with it."""
        compiling = torch.compiler.is_compiling()
        if not compiling and any(isinstance(value, Field) for value in vars(cls).values()):
            raise TypeError(f"{cls.__name__} needs the decorator @dataclass(eq=False, repr=False)")
        known = list(inspect.signature(cls.__init__).parameters)[1:]
        refuse_unknown(kwargs, known, cls.__name__, "hyperparameter")
        made = super().__new__(cls)
        super(Objective, made).__init__()  # a dataclass sets its fields without calling it
        return made

    def __post_init__(self) -> None:
        if torch.compiler.is_compiling():  # cannot trace the fields of a class
            return
        for name, declared in self.hyperparameters.items():
            declared.check(f"{type(self).__name__}'s {name}", getattr(self, name))

    def prepare(self, predictor: Predictor, num_domains: int) -> Predictor:
        """The predictor that is trained and later predicts; networks of one's own are built here.

        Called once before training.
        """
        self.require_domains(num_domains, "the training data")
        return predictor

    def require_domains(self, number: int, where: str) -> None:
        """Raise ``DomainDataError`` where there are too few domains for this method."""
        if number < self.min_domains:
            raise DomainDataError(
                f"{type(self).__name__} compares domains and needs at least "
                f"{self.min_domains} of them, but {where} has {number}. "
                "Use batches with more domains, or an objective such as ERM."
            )

    def optimizer_settings(self, predictor: Predictor) -> Mapping[str, OptimizerSettings]:
        """Optimizers for the objective's own networks, by the name their updates carry."""
        return {}

    def predictor_optimizer(self, choice: OptimizerChoice, learning_rate: float) -> OptimizerChoice:
        """What trains the predictor in a phase: the run's choice, unless the method has its own."""
        return choice

    def recommended_phases(self) -> tuple[Phase, ...]:
        """The phases that its authors (or DomainBed) use; by default, a single phase."""
        return (Phase(),)

    @abstractmethod
    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """The updates of one training step; each is applied before the next is asked for."""


def objective_class(name: str, preset: str | None = None) -> type[Objective]:
    """The class behind a name, or behind that of somebody else's version (:data:`PRESETS`)."""
    known = OBJECTIVES if preset is None else PRESETS[one_of(preset, PRESETS, "preset")]
    found: type[Objective] = known.load(name)
    return found


def objective(name: str, *, preset: str | None = None, **hyperparameters: Any) -> Objective:
    """An objective by name, with the hyperparameters that differ from its defaults.

    >>> objective("irm", penalty_weight=10.0).penalty_weight
    10.0
    >>> objective("irm", preset="domainbed").unbiased
    True
    """
    return objective_class(name, preset)(**hyperparameters)


@dataclass(frozen=True)
class Phase:
    """A part of training with one objective, one learning rate and one schedule.

    What is left out (None) is the run's own: its objective, its learning rate (0.001 unless it
    has another), its schedule, and the steps that the other phases leave.

    Attributes:
        objective: what is minimised, an :class:`Objective` or its name.
        steps: how many steps, an integer.
        learning_rate: where the schedule begins.
        schedule: ``"constant"``, or ``"cosine"`` to 0 at the end of the phase.
        fresh_optimizer: start with new optimizer state (Adam's moments), or keep that of before.
        loss_scaling: a published scaling of the loss; see :class:`eqrm.objectives.LossScaling`.
        hyperparameters: of the objective, where they differ from the run's own or the defaults.
        search: where a random search draws ``steps`` and ``learning_rate`` from.

    >>> Phase("erm", steps=150, learning_rate=1e-3).minimised
    ERM()
    """

    objective: Objective | str | None = None
    steps: int | None = ruled(None, optional(COUNT))
    learning_rate: float | None = ruled(None, optional(POSITIVE))
    schedule: str | None = None
    fresh_optimizer: bool = True
    loss_scaling: str = "none"
    hyperparameters: dict[str, Any] = field(default_factory=dict, hash=False)
    search: Mapping[str, SearchSpace[float]] = field(
        default_factory=dict, repr=False, hash=False, metadata={"in_files": None}
    )

    def __post_init__(self) -> None:
        if isinstance(self.objective, str):
            objective_class(self.objective)
        elif not isinstance(self.objective, Objective | None):
            raise SettingError(
                "The objective of a phase must be an Objective or its name, got "
                f"{type(self.objective).__name__}."
            )
        check_fields(self, "The {} of a phase")
        one_of(self.schedule or "constant", SCHEDULES, "schedule")
        one_of(self.loss_scaling, LOSS_SCALINGS, "loss scaling")

    @cached_property
    def minimised(self) -> Objective:
        """The objective itself, made once where it was given by name."""
        if self.objective is None:
            raise SettingError("A phase needs an objective, as in Phase('erm', steps=100).")
        if isinstance(self.objective, str):
            return objective(self.objective, **self.hyperparameters)
        if self.hyperparameters:
            return replace(self.objective, **self.hyperparameters)
        return self.objective

    @property
    def length(self) -> int:
        """Its steps, which are known once a run has filled in what was left out."""
        if self.steps is None:
            raise SettingError("A phase needs its steps, as in Phase('erm', steps=100).")
        return self.steps

    def rate_factor(self, step: int) -> float:
        """What the learning rate is multiplied by at a step of this phase, counted from 0."""
        if self.schedule != "cosine":
            return 1.0
        return 0.5 * (1.0 + math.cos(math.pi * min(step, self.length) / self.length))

    def rate(self, step: int = 0) -> float:
        """The learning rate at a step of this phase."""
        base = LEARNING_RATE if self.learning_rate is None else self.learning_rate
        return base * self.rate_factor(step)


def annealing(steps: int = 500) -> tuple[Phase, Phase]:
    """DomainBed's annealing: a penalty weight of 1 at first, then the objective's own.

    Adam is reset in between, because gradients jump when the penalty sets in.
    """
    gentle = Phase(
        steps=steps,
        hyperparameters={"penalty_weight": 1.0},
        search={"steps": LogUniformSpace(10, 0, 4, integer=True)},
    )
    return gentle, Phase()
