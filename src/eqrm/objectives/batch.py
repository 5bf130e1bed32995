"""A batch: examples, and the domain of each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eqrm.errors import DomainDataError
from eqrm.risks import domain_risks


@dataclass(frozen=True)
class Batch:
    """n examples from some of ``num_domains`` domains.

    Attributes:
        x: inputs, first dimension n: whatever the network takes (a batch of graphs, say); Mixup,
            ARM, and whatever calls :meth:`by_domain` need a tensor.
        y: targets, first dimension n.
        domains: (n,) integers from 0 to num_domains − 1. A batch may leave domains out.
        num_domains: how many domains there are in the training data.
        names: the domains' names, used in errors; empty when they have none.
        sizes: where the rows of each domain lie together, how many there are of each, in the order
            of the rows; None where that is not known without a look at ``domains``.
        weights: (n,) by how much each loss counts in the risk of its domain, 1 on average there;
            None where all count the same. Only a ``RiskObjective`` takes them into account.

    >>> batch = Batch(torch.zeros(3, 2), torch.tensor([0, 1, 1]), torch.tensor([4, 0, 4]), 5)
    >>> {domain: rows.tolist() for domain, rows in batch.rows_by_domain().items()}
    {0: [1], 4: [0, 2]}
    """

    x: Any
    y: Tensor
    domains: Tensor
    num_domains: int
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] | None = None
    weights: Tensor | None = None

    def __post_init__(self) -> None:
        if self.domains.ndim != 1 or self.domains.dtype != torch.long:
            raise DomainDataError(
                "domains must be a 1-d tensor of torch.long, one domain per example; got "
                f"{self.domains.dtype} of shape {tuple(self.domains.shape)}."
            )
        if len(self.y) != len(self.domains):
            raise DomainDataError(
                f"y and domains must have the same number of examples, got {len(self.y)} and "
                f"{len(self.domains)}."
            )
        if len(self.domains) == 0:
            raise DomainDataError("The batch is empty: it needs at least one example.")

    def weighted(self, losses: Tensor) -> Tensor:
        """Losses (n,) whose means by domain are the risks."""
        return losses if self.weights is None else losses * self.weights.to(losses.dtype)

    def num_present(self) -> Tensor:
        """How many domains have an example in the batch; does not wait for the device."""
        return self.domains.new_zeros(self.num_domains).index_fill(0, self.domains, 1).sum()

    def rows_by_domain(self) -> dict[int, Tensor]:
        """The rows of each domain that is present, in the order of the domains.

        On CUDA this waits for the device, because which domains are present decides shapes.
        """
        present, counts = torch.unique(self.domains, return_counts=True)
        if int(present[0]) < 0 or int(present[-1]) >= self.num_domains:
            raise DomainDataError(
                f"domains must lie between 0 and {self.num_domains - 1}; "
                f"got {int(present[0])} to {int(present[-1])}."
            )
        order = torch.argsort(self.domains, stable=True)
        return dict(zip(present.tolist(), order.split(counts.tolist()), strict=True))

    def parts(self, values: Tensor) -> list[Tensor]:
        """The rows of (n, …) values that belong to each domain present; waits for a device only
        where ``sizes`` is not known."""
        if self.sizes is not None:
            return list(values.split(self.sizes))
        return [values[rows] for rows in self.rows_by_domain().values()]

    def by_domain(self) -> dict[int, Batch]:
        """The part of the batch that comes from each domain present."""
        return {domain: part_of(self, rows) for domain, rows in self.rows_by_domain().items()}


def part_of(batch: Batch, rows: Tensor | slice) -> Batch:
    """Some rows of a batch, as they are numbered or one after the other."""
    x, y, domains = batch.x[rows], batch.y[rows], batch.domains[rows]
    return Batch(x, y, domains, batch.num_domains, batch.names)


def sizes_of(domains: np.ndarray[Any, Any]) -> tuple[int, ...] | None:
    """How many rows each domain has, where the rows of every domain lie together."""
    ends = np.flatnonzero(np.diff(domains)) + 1
    together = len(np.unique(domains)) == len(ends) + 1
    return tuple(np.diff(ends, prepend=0, append=len(domains)).tolist()) if together else None


def label_weights(y: Tensor, domains: Tensor, num_domains: int) -> Tensor:
    """(n,) the labels of each example over the mean number of labels in its domain.

    y is (n, labels), NaN where a label is missing. With these weights the risk of a domain is the
    mean over all labels there that are present, whichever examples they belong to.
    """
    labels = (~y.isnan()).reshape(len(y), -1).sum(1).to(torch.float32)
    totals = labels.new_zeros(2, num_domains)
    totals = totals.index_add(1, domains, torch.stack([labels, torch.ones_like(labels)]))
    in_domain, examples = totals.index_select(1, domains).unbind(0)
    return labels * examples / in_domain.clamp(min=1.0)


def mean_risk(losses: Tensor, batch: Batch) -> Tensor:
    """ERM's objective, to which other methods add a penalty: each domain of a batch counts once."""
    values: Tensor = domain_risks(losses, batch.domains, batch.num_domains).values
    return values.sum() / batch.num_present()  # the risks of absent domains are 0
