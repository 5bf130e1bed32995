"""What objectives warn of: quantiles that do not behave as expected, and batches too small.

The risk of a domain, measured on a few rows, is mostly noise, and the quantile of noise is lowest
for a model that is unsure of everything (docs/many-domains.md has the numbers). What is looked at
are the rows of each domain in the first :data:`LOOKS` batches of a training:

- Where all domains come in every batch with as many rows, and their risks stay alike from one batch
  to the next, these are the whole data, or risks that are not noise: no warning.
- Fewer than :data:`FEWEST_ROWS` rows per domain are warned of. A memory that averages over visits
  multiplies them by 1/(2·``averaging``); one with ``denoise`` needs 2 rows per domain.
- Fewer than :data:`FEWEST_DOMAINS` domains without a memory are warned of, if the batches together
  have shown half as many again: two or three domains that come again and again are all there are.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eqrm.distributions.bandwidths import Bandwidth
from eqrm.errors import EqrmWarning
from eqrm.execution import Fetched, can_fetch
from eqrm.level import Level
from eqrm.measures import warn_below_risks

INVARIANCE_TAIL = -50.0
"""Levels with log(1−α) below this are meant to equalise risks (Proposition A.5)."""
LOOKS = 10
"""Batches that are looked at."""
FEWEST_ROWS, FEWEST_DENOISED = 16.0, 2.0
FEWEST_DOMAINS, MANY_OTHERS = 5.0, 1.5
ALIKE = 0.5
"""The least correlation of the risks of domains between batches that are no noise."""
REMEDY = (
    "Draw some domains and enough rows of each: DataLoader(data, batch_sampler="
    "eqrm.data.DomainBatches(domains, domains_per_batch=20, examples_per_domain=50))"
)


class InvarianceWarning(EqrmWarning):
    """A level near 1 with a bandwidth that need not equalise the risks."""


class SmallBatchWarning(EqrmWarning):
    """Batches hold too few rows per domain, or too few domains, for what is minimised."""


def warn_without_invariance(level: Level, rule: Bandwidth, stacklevel: int) -> None:
    """Warn where h → 0 leaves the risks free to differ and the level wants them equal."""
    if level.log_tail < INVARIANCE_TAIL and not rule.forces_invariance:
        warnings.warn(
            f"At alpha = {level} EQRM is meant to equalise the risks of all domains, but the "
            f"bandwidth rule {rule} can be 0 while they differ (the paper, appendix C). Use "
            "bandwidth='gaussian-optimal' or 'scott'.",
            InvarianceWarning,
            stacklevel=stacklevel + 1,
        )


class LowQuantileWatch:
    """Warns, once, when the quantile falls below every risk (only possible for α < ½).

    On a GPU the numbers are fetched without waiting for them, so the warning comes a step or
    more later. Compiled code and CUDA graphs are not watched.
    """

    possible_below = 0.5

    def __init__(self, level: Level) -> None:
        self.level = level
        self.warned = False
        self._fetched = Fetched()

    def look(self, quantile: Tensor, risks: Tensor, weights: Tensor | None) -> None:
        """Compare a quantile (...) with the risks (..., m) it was estimated from."""
        if self.level.alpha >= self.possible_below or self.warned:
            return
        if not can_fetch(risks) or self._fetched.waiting:
            return
        self._report(self._fetched.take())  # of an earlier step, on a GPU
        with torch.no_grad():
            self._fetched.send(lowest_pair(quantile, risks, weights))
        self._report(self._fetched.take())

    def _report(self, pair: list[float] | None) -> None:
        quantile, smallest = pair or (math.inf, 0.0)
        self.warned = warn_below_risks(self.level, quantile, smallest, stacklevel=4)


def lowest_pair(quantile: Tensor, risks: Tensor, weights: Tensor | None) -> Tensor:
    """(2,): the quantile that lies furthest below its risks, and the smallest of those risks."""
    seen = risks if weights is None else torch.where(weights > 0, risks, math.inf)
    quantiles, smallest = quantile.double().reshape(-1), seen.double().amin(-1).reshape(-1)
    worst = (quantiles - smallest).argmin()
    return torch.stack([quantiles.take(worst), smallest.take(worst)])


class BatchWatch:
    """Warns, once, of batches with few rows per domain or few of many domains.

    On a GPU the numbers are fetched once, without waiting for them, so the warning comes a step or
    more later.
    """

    def __init__(self) -> None:
        self.done = False
        self._seen: list[Tensor] = []
        self._before: tuple[Tensor, Tensor, Sequence[Any] | None] | None = None
        self._places: Tensor | None = None
        self._names: set[Any] = set()
        self._fetched = Fetched()

    @torch.no_grad()
    def look(
        self, risks: Tensor, counts: Tensor, names: Sequence[Any] | None, objective: Any
    ) -> None:
        """The risk and the rows (m,) of each domain in a batch.

        ``names`` are what they are called; None where every batch has the same m places.
        """
        if len(self._seen) < LOOKS:
            self._remember(risks, counts, names)
            if len(self._seen) < LOOKS:
                return
            together = torch.stack(self._seen).sum(0)
            known = together.new_full((), len(self._names))
            if self._places is not None:
                known = self._places.sum().to(known)
            self._fetched.send(torch.cat([together, known.reshape(1)]))
            self._before = self._places = None
        found = self._fetched.take()
        if found is not None:
            self.done = True
            self._report(found, objective)

    def _remember(self, risks: Tensor, counts: Tensor, names: Sequence[Any] | None) -> None:
        """Rows, domains, whether counts differ from those before, and how alike the risks are."""
        present, changes = counts > 0, torch.zeros_like(counts[:1], dtype=torch.bool)
        alike = torch.ones_like(counts[:1], dtype=torch.double)
        if self._before is not None:
            earlier, before, called = self._before
            same = called == names and before.shape == counts.shape
            changes = (before != counts).any() if same else ~changes
            alike = _correlation(earlier, risks, present) if same else alike
        numbers = (counts.sum(), present.sum(), changes, alike)
        self._seen.append(torch.stack([each.double().reshape(()) for each in numbers]))
        self._before = risks.double(), counts, names
        if names is None:
            self._places = present if self._places is None else self._places | present
        else:
            self._names.update(names)

    def _report(self, found: list[float], objective: Any) -> None:
        rows, domains, changes, alike, known = found
        if not changes and alike >= ALIKE * LOOKS:
            return
        memory, name = getattr(objective, "memory", None), type(objective).__name__
        each, together = rows / domains, domains / LOOKS
        needed = FEWEST_ROWS
        if memory is not None:
            averaged = min(1.0, 2.0 * memory.averaging)
            needed = FEWEST_DENOISED if memory.denoise else FEWEST_ROWS * averaged
        if each < needed:
            _warn(
                f"Batches hold about {each:.2g} rows per domain, on which the risk of a domain is "
                f"mostly noise: {name} then trains a model to be unsure of everything. {REMEDY}. "
                "Where domains have no more rows, a memory takes their noise into account: "
                "eqrm.RiskMemory(num_domains, averaging=0.3, denoise=True)."
            )
        elif memory is None and together < FEWEST_DOMAINS and known >= MANY_OTHERS * together:
            _warn(
                f"Batches hold about {together:.2g} of at least {known:.0f} domains: {name} of so "
                f"few risks says little about all of them. {REMEDY}, or remember the risks of the "
                "others: eqrm.EQRM(alpha, memory=eqrm.RiskMemory(num_domains))."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles look for themselves, unless it was done."""
        return {**vars(BatchWatch()), "done": self.done}


def _correlation(one: Tensor, two: Tensor, present: Tensor) -> Tensor:
    """Of the risks of domains that are present in two batches; 1 where all are equal in one."""
    share = present.double() / present.sum()
    centred = [each.double() - (share * each.double()).sum() for each in (one, two)]
    first, second = ((share * each.square()).sum() for each in centred)
    product = (share * centred[0] * centred[1]).sum()
    found = product / (first * second).sqrt()
    return torch.where(first * second > 0.0, found, torch.ones_like(found))


def _warn(message: str) -> None:
    """Warn of the line that calls the objective, however many calls lie between."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals["__name__"].partition(".")[0] in ("eqrm", "torch"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SmallBatchWarning, stacklevel=level)
