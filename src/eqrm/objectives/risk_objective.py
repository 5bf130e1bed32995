"""RiskObjective: a function of the domains' risks, whichever process their examples are in.

Under ``torch.distributed`` each process sums the losses of its own examples per domain, and the
sums of all processes are added: every process then knows the risk of every domain, wherever its
examples are, and computes the same objective. The gradient flows from there into the process's
own losses. No collective takes part in autograd.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from eqrm.distributions.kde.native import total
from eqrm.errors import DomainDataError, naming_domains
from eqrm.execution import being_transformed, can_fetch, can_look, has_kernels
from eqrm.objectives.base import Objective, Update
from eqrm.objectives.batch import Batch
from eqrm.objectives.training_warnings import BatchWatch
from eqrm.predictors.base import Predictor
from eqrm.risks import (
    DomainRisks,
    Numbers,
    checked_batch,
    checked_losses,
    domain_risks,
    variances_of,
)

M = TypeVar("M")


class KernelResult(NamedTuple):
    """What a kernel on a GPU found: the objective and its slopes in the risks (m,).

    ``again`` is the same objective made of differentiable operations, for second derivatives.
    """

    value: Tensor
    slopes: Tensor
    again: Callable[[DomainRisks], Tensor]


Kernel = Callable[[Tensor, int, torch.dtype], KernelResult]
"""From sums of losses per domain, the number of domains and a dtype to the objective."""


class RiskObjective(Objective):
    """A function of the domains' risks: one line of maths in :meth:`of_risks`.

    ``objective(losses, domains)`` takes one loss and one domain per example, for people with
    their own training loop; ``objective.of_risks(risks)`` takes the risks themselves.
    """

    across_processes: bool = True
    """Whether the domains of all ``torch.distributed`` processes count; the gradient is then meant
    for DistributedDataParallel."""
    watches_batches: bool = True
    """Whether to warn of batches that are too small to measure risks in."""

    @abstractmethod
    def of_risks(self, risks: Tensor, weights: Tensor | None = None) -> Tensor:
        """The objective as a function of the risks (m,), with optional weights (m,)."""

    def value_and_slope(self, risks: Numbers) -> tuple[float, Numbers]:
        """The objective of some risks (m,) in float64, and its slope in each of them."""
        given = torch.tensor(risks, requires_grad=True)
        value = self.of_risks(given)
        if not value.requires_grad:
            return float(value), np.zeros(len(risks))
        (slope,) = torch.autograd.grad(value, given)
        return float(value.detach()), slope.numpy()

    def forward(self, losses: Tensor, domains: Any, num_domains: int | None = None) -> Tensor:
        """The objective of a batch: losses (n,), one domain (integer or string) per example.

        With ``num_domains`` the domains are integers below it, domains absent from the batch
        have weight 0, and nothing waits for the device.
        """
        if num_domains is not None and self._may_use_kernels(losses):
            kernel = self.kernel(num_domains)
            if kernel is not None:
                losses, ids = checked_batch(losses, domains, num_domains)
                if self._looks_at(losses):
                    seen = domain_risks(losses.detach(), ids, num_domains)
                    self._batches.look(seen.values, seen.counts, None, self)
                value: Tensor = OnTotals.apply(losses, ids, num_domains, kernel)  # type: ignore[no-untyped-call]
                return value
        risks = domain_risks(torch.as_tensor(checked_losses(losses)), domains, num_domains)
        if torch.compiler.is_compiling():  # cannot trace the naming of errors
            return self._of_processes(risks)
        with naming_domains(risks.names):
            return self._of_processes(risks)

    def kernel(self, num_domains: int) -> Kernel | None:
        """What does the same as :meth:`of_batch` on a GPU, in few launches; None without one.

        Used only for the class that defines it, and for those that take over its ``of_risks``.
        """
        return None

    def _may_use_kernels(self, losses: Any) -> bool:
        if being_transformed() or not isinstance(losses, Tensor) or not has_kernels(losses):
            return False
        return _has_own_kernel(type(self)) and not (self.across_processes and several_processes())

    def _of_processes(self, own: DomainRisks) -> Tensor:
        of_batch = self._of_watched_batch if self._looks_at(own.values) else self.of_batch
        if self.across_processes and several_processes():
            return over_all_processes(of_batch, own)
        return of_batch(own)

    def _looks_at(self, values: Tensor) -> bool:
        """Whether to look how many rows and domains batches hold: in training's first steps."""
        if torch.compiler.is_compiling() or not self.watches_batches or not self.training:
            return False
        return not self._batches.done and values.requires_grad and can_fetch(values)

    @cached_property
    def _batches(self) -> BatchWatch:
        return BatchWatch()

    def _of_watched_batch(self, risks: DomainRisks) -> Tensor:
        names = risks.names if risks.all_present else None
        self._batches.look(risks.values, risks.counts, names, self)
        return self.of_batch(risks)

    def of_batch(self, risks: DomainRisks) -> Tensor:
        """The objective of one batch's risks, already gathered from all processes."""
        refuse_bad_risks(risks.values)
        return self.of_risks(risks.values, risks.weights)

    if TYPE_CHECKING:  # nn.Module's own __call__ is typed as returning Any

        def __call__(self, losses: Tensor, domains: Any, num_domains: int | None = None) -> Tensor:
            """The objective of a batch, see :meth:`forward`."""
            ...

    def updates(self, batch: Batch, predictor: Predictor, step: int) -> Iterator[Update]:
        losses = batch.weighted(predictor.losses(predictor(batch.x, batch.domains), batch.y))
        with naming_domains(batch.names):
            loss = self(losses, batch.domains, batch.num_domains)
        yield Update(loss, tuple(predictor.parameters()))


@cache
def _has_own_kernel(kind: type[RiskObjective]) -> bool:
    defining = next(vars(c) for c in kind.__mro__ if {"of_risks", "of_batch"} & vars(c).keys())
    return "kernel" in defining


class OnTotals(torch.autograd.Function):
    """From losses to the objective on a GPU: sums per domain, a kernel, and the gradient at once.

    All launches but a product are made forward, where each costs the host much less.
    """

    @staticmethod
    def forward(ctx: Any, losses: Tensor, ids: Tensor, domains: int, kernel: Kernel) -> Tensor:
        from eqrm.gpu.objectives import add_up, spread

        totals = add_up(losses, ids, domains)
        dtype = torch.promote_types(losses.dtype, torch.float32)
        found = kernel(totals, domains, dtype)
        if ctx.needs_input_grad[0]:
            gradient = spread(found.slopes, ids, totals, dtype)
            ctx.save_for_backward(losses, ids, gradient)
            ctx.again, ctx.domains = found.again, domains
        return found.value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        losses, ids, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():
            risks = domain_risks(losses.view_as(losses), ids, ctx.domains)
            composed = ctx.again(risks)
            (gradient,) = torch.autograd.grad(composed, risks.losses, create_graph=True)
        product = grad * gradient
        same = product.dtype == losses.dtype
        return product if same else product.to(losses.dtype), None, None, None


def keep_state(module: nn.Module, name: str, value: Tensor) -> None:
    """Give a buffer a new value, in a way that CUDA graphs and ``torch.compile`` both honour.

    A captured CUDA graph needs the buffer changed in place. Compiled code must not do that:
    its backward pass may compute things again from the buffer, and would find the new value.
    """
    if torch.compiler.is_compiling():
        setattr(module, name, value.detach())
    else:
        with torch.no_grad():
            module.get_buffer(name).copy_(value)


def refuse_bad_risks(risks: Tensor) -> None:
    """Name the first risk that is not finite; where looking costs nothing."""
    if not can_look(risks):
        return
    values = risks.detach()
    plain = values.dtype in (torch.float32, torch.float64) and not being_transformed()
    if math.isfinite(total(values.numpy()) if plain else float(values.sum())):
        return  # much cheaper than a look at each
    finite = values.isfinite()
    if bool(finite.all()):
        return
    position = int((~finite).nonzero()[0])
    value = float(values[position])
    raise DomainDataError(
        f"The risk of {{domain}} is {value}. Risks must be finite: "
        "check the losses of this domain for NaN or overflow.",
        index=(position,),
    )


def several_processes() -> bool:
    """Whether a process group of more than one process is up."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def messages_of_all(message: M) -> list[M]:
    """The messages of all processes, in the order of their ranks: whatever can be pickled."""
    if not several_processes():
        return [message]
    gathered = [message] * dist.get_world_size()
    dist.all_gather_object(gathered, message)
    return gathered


@dataclass(frozen=True, eq=False)
class RisksOfAllProcesses(DomainRisks):
    """The risks over all processes, differentiable in the losses of this one."""

    @property
    def loss_variances(self) -> Tensor:
        """As for one process, from the squared deviations of all; every process must ask."""
        own = self.squared_deviations(self.values.detach())
        everywhere = own.detach().clone()
        dist.all_reduce(everywhere)
        squares = flowing_into(own, everywhere, dist.get_world_size())
        variances: Tensor = variances_of(squares, self.counts)
        return variances


def over_all_processes(objective: Callable[[DomainRisks], Tensor], local: DomainRisks) -> Tensor:
    """The objective of the risks over all processes, the same value on each.

    The gradient on each process is multiplied by the number of processes, because
    DistributedDataParallel divides the sum of the gradients by it.
    """
    if local.all_present:
        raise DomainDataError(
            "With several processes a domain must have the same number everywhere: "
            "pass integer ids and num_domains, the number of domains in the training data."
        )
    own_counts = local.counts.to(torch.float64)
    own_sums = local.values.to(torch.float64) * own_counts
    totals = torch.stack([own_sums.detach(), own_counts])
    dist.all_reduce(totals)
    sums, counts = totals
    everywhere = RisksOfAllProcesses(
        values=flowing_into(own_sums, sums, dist.get_world_size()) / counts.clamp(min=1),
        counts=counts.to(torch.int64),
        names=local.names,
        all_present=False,
        losses=local.losses,
        ids=local.ids,
    )
    return objective(everywhere).to(local.values.dtype)


def flowing_into(own: Tensor, value: Tensor, factor: Tensor | int) -> Tensor:
    """``value``, with a gradient that flows into ``own``, times a factor."""
    return value + factor * (own - own.detach())
