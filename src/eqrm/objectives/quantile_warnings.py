"""Warnings of EQRM about quantiles that do not behave as expected."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from eqrm.distributions.bandwidths import Bandwidth
from eqrm.errors import EqrmWarning
from eqrm.execution import Fetched, can_fetch
from eqrm.level import Level

INVARIANCE_TAIL = -50.0
"""Levels with log(1−α) below this are meant to equalise risks (Proposition A.5)."""


class InvarianceWarning(EqrmWarning):
    """A level near 1 with a bandwidth that need not equalise the risks."""


class QuantileBelowRisksWarning(EqrmWarning):
    """The quantile that is minimised lies below every risk."""


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

    >>> watch = LowQuantileWatch(Level(0.1))
    >>> watch.look(torch.tensor(0.9), torch.tensor([1.0, 2.0]), None)
    Traceback (most recent call last):
        ...
    eqrm.objectives.quantile_warnings.QuantileBelowRisksWarning: The quantile at alpha = 0.1 ...
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
        if quantile < smallest:
            self.warned = True
            warnings.warn(
                f"The quantile at alpha = {self.level} is {quantile:.6g}, below the smallest "
                f"risk {smallest:.6g}. Minimising it rewards risks that are far apart, and it "
                "may have no minimum. Use distribution='empirical' or a higher alpha.",
                QuantileBelowRisksWarning,
                stacklevel=4,
            )


def lowest_pair(quantile: Tensor, risks: Tensor, weights: Tensor | None) -> Tensor:
    """(2,): the quantile that lies furthest below its risks, and the smallest of those risks.

    >>> lowest_pair(torch.tensor(0.5), torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0]))
    tensor([0.5000, 2.0000], dtype=torch.float64)
    """
    seen = risks if weights is None else torch.where(weights > 0, risks, math.inf)
    quantiles, smallest = quantile.double().reshape(-1), seen.double().amin(-1).reshape(-1)
    worst = (quantiles - smallest).argmin()
    return torch.stack([quantiles.take(worst), smallest.take(worst)])
