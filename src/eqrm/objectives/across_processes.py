"""Risk objectives under ``torch.distributed``: the domains of all processes at once.

Each process sums the losses of its own examples per domain. The sums of all processes are
added, so that every process knows the risk of every domain, wherever its examples are, and
computes the same objective and the same slopes dL/dR. Each then back-propagates through its
own losses with those slopes. No collective takes part in autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.distributed as dist
from torch import Tensor

from eqrm.errors import DomainDataError
from eqrm.risks import DomainRisks, variances_of_means


def several_processes() -> bool:
    """Whether a process group of more than one process is up.

    >>> several_processes()
    False
    """
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


@dataclass(frozen=True, eq=False)
class RisksOfAllProcesses(DomainRisks):
    """The risks over all processes: leaves of a graph that ends here."""

    @cached_property
    def sampling_variances(self) -> Tensor:
        """As for one process, from the squared deviations of all."""
        squares = self.squared_deviations(self.values.detach()).detach()
        dist.all_reduce(squares)
        return variances_of_means(squares, self.counts).requires_grad_()


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
        values=(sums / counts.clamp(min=1)).requires_grad_(),
        counts=counts.to(torch.int64),
        names=local.names,
        all_present=False,
        losses=local.losses.detach(),
        ids=local.ids,
    )
    with torch.enable_grad():
        value = objective(everywhere)
        leaves = [everywhere.values]
        own = [own_sums / counts.clamp(min=1)]
        if "sampling_variances" in vars(everywhere):
            leaves.append(everywhere.sampling_variances)
            squares = local.squared_deviations(everywhere.values.detach())
            # Linear in the squares, and pooled where a domain has one example everywhere.
            several = counts > 1
            own.append(torch.where(several, squares / (counts * (counts - 1.0).clamp(min=1)), 0.0))
        slopes = torch.autograd.grad(value, leaves, materialize_grads=True)
        flow = sum((slope * part).sum() for slope, part in zip(slopes, own, strict=True))
    scaled = dist.get_world_size() * flow
    result: Tensor = value.detach() + (scaled - scaled.detach())
    return result.to(local.values.dtype)
