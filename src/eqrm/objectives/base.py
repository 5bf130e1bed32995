"""Objective: what training minimises. RiskObjective: one that is a function of the risks.

Whoever trains owns every optimizer. An objective says, update by update, which loss to
differentiate with respect to which parameters; each update is applied before the next is
computed, so adversarial and meta-learning methods are plain generators.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from eqrm.errors import DomainDataError, SettingError, did_you_mean
from eqrm.objectives.across_processes import of_all_processes, several_processes
from eqrm.objectives.batch import Batch
from eqrm.objectives.hyperparameters import Hyperparameter, Hyperparameters
from eqrm.objectives.recommendations import OptimizerSettings, RecommendedPhase
from eqrm.predictors.base import Predictor
from eqrm.risks import DomainRisks, domain_risks

__all__ = [
    "Batch",
    "Hyperparameter",
    "Hyperparameters",
    "Objective",
    "OptimizerSettings",
    "RecommendedPhase",
    "RiskObjective",
    "Update",
    "mean_risk",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Update:
    """One optimizer step: differentiate ``loss`` with respect to ``parameters``, nothing else.

    ``optimizer`` names who takes the step: ``"predictor"``, or a key of the objective's
    :meth:`Objective.optimizer_settings`.
    """

    loss: Tensor
    parameters: tuple[nn.Parameter, ...]
    optimizer: str = "predictor"


class Objective(nn.Module, ABC):
    """What training minimises.

    A subclass gives ``name``, ``hyperparameters``, an ``__init__`` with one typed argument per
    hyperparameter (stored under the same name), and :meth:`updates`. It is an ``nn.Module`` so
    that its own networks and buffers move with ``.to`` and are saved with ``state_dict``;
    networks appear in :meth:`prepare`, so load a state after preparing.
    """

    name: ClassVar[str]
    hyperparameters: ClassVar[Hyperparameters] = {}
    min_domains: ClassVar[int] = 1
    """How many domains a batch needs for the method to mean anything."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Name a mistyped hyperparameter before ``__init__`` is called with it."""
        known = list(inspect.signature(cls.__init__).parameters)[1:]
        for name in kwargs:
            if name not in known:
                raise SettingError(
                    f"{cls.__name__} has no hyperparameter {name!r}. {did_you_mean(name, known)}"
                )
        return super().__new__(cls)

    def checked(self, name: str, value: T) -> T:
        """The value, if this hyperparameter may take it; otherwise a ``SettingError``."""
        self.hyperparameters[name].check(f"{type(self).__name__}'s {name}", value)
        return value

    @classmethod
    def sample_hyperparameters(cls, generator: np.random.Generator) -> dict[str, Any]:
        """One random draw of all hyperparameters, for ``cls(**draw)``."""
        return {name: each.sample(generator) for name, each in cls.hyperparameters.items()}

    def prepare(self, predictor: Predictor, num_domains: int) -> Predictor:
        """The predictor that is trained and later predicts; the same one unless overridden.

        Called once before training. Objectives with networks of their own build them here.
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

    def recommended_phases(self) -> tuple[RecommendedPhase, ...]:
        """How its authors (or DomainBed) train with it; by default, one phase to the end."""
        return (RecommendedPhase(self.name, steps=None),)

    @abstractmethod
    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """The updates of one training step; each is applied before the next is asked for."""


class RiskObjective(Objective):
    """A function of the domains' risks: one line of maths in :meth:`of_risks`.

    ``objective(losses, domains)`` takes one loss and one domain per example, for people with
    their own training loop; ``objective.of_risks(risks)`` takes the risks themselves.

    With several ``torch.distributed`` processes the domains of all of them count, and the loss
    is that of one process with all the data (its gradient is meant for
    DistributedDataParallel); set ``across_processes`` to False to keep to one's own.
    """

    across_processes: bool = True

    @abstractmethod
    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """The objective as a function of the risks (m,), with optional weights (m,)."""

    def forward(self, losses: Tensor, domains: Any, num_domains: int | None = None) -> Tensor:
        """The objective of a batch: losses (n,), one domain (integer or string) per example.

        With ``num_domains`` the domains are integers below it, domains absent from the batch
        have weight 0, and nothing waits for the device.
        """
        risks = domain_risks(losses, domains, num_domains)
        if torch.compiler.is_compiling():  # cannot trace the naming of errors
            return self._of_processes(risks)
        with risks.naming_errors():
            return self._of_processes(risks)

    def _of_processes(self, own: DomainRisks) -> Tensor:
        if self.across_processes and several_processes():
            return of_all_processes(self.of_batch, own)
        return self.of_batch(own)

    def of_batch(self, risks: DomainRisks) -> Tensor:
        """The objective of one batch's risks, already gathered from all processes."""
        refuse_bad_risks(risks.values)
        return self.of_risks(risks.values, risks.weights)

    if TYPE_CHECKING:  # nn.Module's own __call__ is typed as returning Any

        def __call__(self, losses: Tensor, domains: Any, num_domains: int | None = None) -> Tensor:
            """The objective of a batch, see :meth:`forward`."""
            ...

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        """One update of the whole predictor."""
        losses = predictor.losses(predictor(batch.x, batch.domains), batch.y)
        with batch.naming_errors():
            loss = self(losses, batch.domains, batch.num_domains)
        yield Update(loss, tuple(predictor.parameters()))


def keep_state(module: nn.Module, name: str, value: Tensor) -> None:
    """Give a buffer a new value, in a way that CUDA graphs and ``torch.compile`` both honour.

    A captured CUDA graph needs the buffer changed in place. Compiled code must not do that:
    its backward pass may compute things again from the buffer, and would find the new value.

    >>> module = nn.BatchNorm1d(1)
    >>> keep_state(module, "running_mean", torch.tensor([3.0]))
    >>> module.running_mean
    tensor([3.])
    """
    if torch.compiler.is_compiling():
        setattr(module, name, value.detach())
    else:
        with torch.no_grad():
            module.get_buffer(name).copy_(value)


def refuse_bad_risks(risks: Tensor) -> None:
    """Name the first risk that is not finite; on the CPU only, where looking costs nothing.

    >>> refuse_bad_risks(torch.tensor([0.5, float("nan")]))
    Traceback (most recent call last):
        ...
    eqrm.errors.DomainDataError: The risk of domain 1 is nan. Risks must be finite: ...
    """
    if risks.device.type != "cpu" or torch.compiler.is_compiling():
        return
    finite = risks.detach().isfinite()
    if bool(finite.all()):
        return
    position = int((~finite).nonzero()[0])
    value = float(risks.detach()[position])
    raise DomainDataError(
        f"The risk of domain {position} is {value}. Risks must be finite: "
        "check the losses of this domain for NaN or overflow.",
        index=(position,),
    )


def mean_risk(losses: Tensor, batch: Batch) -> Tensor:
    """The mean of the risks of the domains in a batch, each domain counting once.

    This is ERM's objective, to which the other methods add a penalty. It equals the mean over
    examples when the domains have equally many.
    """
    risks = domain_risks(losses, batch.domains, batch.num_domains)
    return risks.values.sum() / batch.num_present()  # the risks of absent domains are 0
