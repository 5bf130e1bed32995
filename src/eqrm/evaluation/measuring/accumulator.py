"""Risks gathered batch by batch, in evaluation loops and over several processes."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from eqrm.data.tables.frames import in_memory
from eqrm.domains import Name
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.metrics import as_numbers
from eqrm.risks import MeasuredRisks, Numbers, domain_risks, merged_moments, variances_of


class RiskAccumulator:
    """Count, mean and sum of squared deviations of the losses of each domain, kept up to date.

    Used like a metric of torchmetrics: :meth:`update` with each batch, :meth:`compute` at the
    end, :meth:`reset` before the next use. Under ``torch.distributed``, :meth:`compute` merges
    what all processes gathered, and returns the same on each; every process must call it. A
    domain may be split over processes and batches in any way.

    >>> gathered = RiskAccumulator()
    >>> gathered.update([0.1, 0.3], ["Oslo", "Rome"])
    >>> gathered.update([0.5, 0.7], ["Oslo", "Oslo"])
    >>> risks = gathered.compute()
    >>> risks.domains, risks.counts.tolist(), risks.risks.round(3).tolist()
    (('Oslo', 'Rome'), [3, 1], [0.433, 0.3])
    """

    def __init__(self, *, across_processes: bool = True) -> None:
        self.across_processes = across_processes
        self.reset()

    def reset(self) -> None:
        """Forget everything gathered."""
        self._place: dict[Name, int] = {}
        self._sums: Numbers = np.zeros((3, 0))

    def update(self, losses: Any, domains: Any) -> None:
        """Add a batch: one loss per example (n,), and the domain of each.

        Tensors, arrays and lists are float64 inside, from any device; no gradient is kept.
        """
        values = as_numbers(in_memory(losses))
        if values.ndim == 1 and len(values) == len(domains) == 0:
            return
        batch = domain_risks(values, domains)
        bad = np.flatnonzero(~np.isfinite(batch.values))
        if bad.size:
            name = batch.names[bad[0]]
            raise DomainDataError(
                f"A loss of domain {name!r} is NaN or infinite. The batch was not added: check "
                "where the model produces such a loss."
            )
        squares = batch.squared_deviations(batch.values)
        self._add(list(batch.names), np.stack([batch.counts, batch.values, squares]))

    def merge(self, other: RiskAccumulator) -> None:
        """Add what another accumulator gathered."""
        self._add(list(other._place), other._sums)

    def compute(self) -> MeasuredRisks:
        """The measured risks of all batches of all processes, ready for ``eqrm.evaluate``."""
        whole = self
        if self.across_processes and sys.modules.get("torch"):  # which has made the processes
            from eqrm.objectives.risk_objective import messages_of_all

            whole = RiskAccumulator(across_processes=False)
            own = json.dumps([list(self._place), self._sums.tolist()])
            for names, sums in map(json.loads, messages_of_all(own.encode())):
                whole._add(names, np.array(sums))
        count, mean, squares = whole._sums
        return MeasuredRisks.of(list(whole._place), count, mean, variances_of(squares, count))

    def _add(self, names: list[Name], sums: Numbers) -> None:
        known = np.arange(len(self._place))
        for name in names:
            self._place.setdefault(name, len(self._place))
        ids = np.append(known, [self._place[name] for name in names]).astype(np.int64)
        self._sums = merged_moments(ids, *np.concatenate([self._sums, sums], axis=1))
