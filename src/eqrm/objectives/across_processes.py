"""Risk objectives under ``torch.distributed``: the domains of all processes at once.

Each process sums the losses of its own examples per domain, and the sums of all processes are
added: every process then knows the risk of every domain, wherever its examples are, and
computes the same objective. The gradient flows from there into the process's own losses.
No collective takes part in autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from eqrm.errors import DomainDataError
from eqrm.risks import DomainRisks, variances_of


def several_processes() -> bool:
    """Whether a process group of more than one process is up.

    >>> several_processes()
    False
    """
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


@dataclass(frozen=True, eq=False)
class RisksOfAllProcesses(DomainRisks):
    """The risks over all processes, differentiable in the losses of this one."""

    @property
    def loss_variances(self) -> Tensor:
        """As for one process, from the squared deviations of all; every process must ask."""
        own = self.squared_deviations(self.values.detach())
        everywhere = own.detach().clone()
        dist.all_reduce(everywhere)
        return variances_of(flowing_into(own, everywhere), self.counts)


def of_all_processes(objective: Callable[[DomainRisks], Tensor], local: DomainRisks) -> Tensor:
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
        values=flowing_into(own_sums, sums) / counts.clamp(min=1),
        counts=counts.to(torch.int64),
        names=local.names,
        all_present=False,
        losses=local.losses,
        ids=local.ids,
    )
    return objective(everywhere).to(local.values.dtype)


def flowing_into(own: Tensor, total: Tensor) -> Tensor:
    """``total``, a sum over processes, with the gradient into this process's part of it."""
    return total + dist.get_world_size() * (own - own.detach())
