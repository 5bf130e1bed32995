"""The risk of every domain, when a batch holds only a few of them.

With thousands of domains, the quantile of the few risks in a batch is a poor and biased
estimate of the quantile over all. The memory keeps the latest risk of every domain, the
distribution is estimated from all of them, and the gradient flows through the domains of the
batch, weighted so that its expectation is the gradient of the full quantile.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eqrm.errors import DomainDataError, SettingError
from eqrm.risks import DomainRisks

OfRisks = Callable[[Tensor, Tensor], Tensor]

SMALLEST_RELIABILITY = 0.05
"""Below it, the spread of the risks is taken for noise to 95%, never to 100%."""


@dataclass(frozen=True)
class Staleness:
    """How old the remembered risks are, in steps."""

    mean_age: float
    max_age: int
    never_seen: int
    num_domains: int

    def __str__(self) -> str:
        seen = self.num_domains - self.never_seen
        return (
            f"{seen} of {self.num_domains} domains remembered, "
            f"{self.mean_age:.1f} steps old on average, {self.max_age} at most"
        )


class RiskMemory(nn.Module):
    """The latest risk of each of ``num_domains`` domains.

    Args:
        num_domains: how many domains the training data has; batches carry their integer ids.
        averaging: the share of the newest measurement in the remembered risk; 1 keeps only
            the newest, smaller values average over visits and so remove sampling noise.
        half_life: steps after which a remembered risk counts half; None for no ageing.
        denoise: estimate how much of the spread of the remembered risks is sampling noise,
            and shrink their distribution towards its mean by what remains
            (:func:`denoised`). For batches with few examples per domain.

    The gradient through a domain i of the batch is weighted by 1/(k·p_i), with k the domains
    in the batch and p_i its weight in the estimate. For batches that draw domains uniformly,
    the expected gradient is then that of the quantile over all remembered domains, each
    counting once.

    >>> from eqrm.objectives.risk_based import EQRM
    >>> eqrm = EQRM(0.9, memory=RiskMemory(4))
    >>> losses = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> _ = eqrm(losses, torch.tensor([0, 1]))
    >>> _ = eqrm(losses, torch.tensor([2, 3]))
    >>> print(eqrm.memory.staleness())
    4 of 4 domains remembered, 0.5 steps old on average, 1 at most
    """

    risks: Tensor
    variances: Tensor
    last_seen: Tensor
    step: Tensor

    def __init__(
        self,
        num_domains: int,
        averaging: float = 1.0,
        half_life: float | None = None,
        denoise: bool = False,
    ) -> None:
        super().__init__()
        if num_domains < 1:
            raise SettingError(f"A risk memory needs at least one domain, not {num_domains}.")
        if not 0.0 < averaging <= 1.0:
            raise SettingError(f"averaging must lie in (0, 1], but it is {averaging!r}.")
        if half_life is not None and not half_life > 0.0:
            raise SettingError(f"half_life must be positive or None, but it is {half_life!r}.")
        self.num_domains = num_domains
        self.averaging = averaging
        self.half_life = half_life
        self.denoise = denoise
        zeros = torch.zeros(num_domains, dtype=torch.float64)
        self.register_buffer("risks", zeros)
        self.register_buffer("variances", zeros.clone())
        self.register_buffer("last_seen", torch.full((num_domains,), -1))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def estimate(self, of_risks: OfRisks, batch: DomainRisks) -> Tensor:
        """Remember the batch, and return the objective over all remembered domains.

        Its value is ``of_risks(risks, weights)`` of the whole memory; its gradient flows into
        the risks of the batch.
        """
        if len(batch.values) != self.num_domains:
            raise DomainDataError(
                f"The risk memory holds {self.num_domains} domains, but the batch was made for "
                f"{len(batch.values)}. Build it as RiskMemory(num_domains) with the number of "
                "domains of the training data."
            )
        self._remember(batch)
        weights = self._weights()
        risks = self.risks.clone().requires_grad_()
        variances = self.variances.clone().requires_grad_()
        with torch.enable_grad():
            if self.denoise:
                value = denoised(of_risks, risks, variances, weights)
            else:
                value = of_risks(risks, weights)
            slopes = torch.autograd.grad(value, (risks, variances), materialize_grads=True)
        present = batch.counts > 0
        # Each slope is proportional to the domain's weight p_i; dividing by k·p_i makes the
        # batch a sample of domains that count alike.
        share = torch.where(present, weights, 1.0) * present.sum()
        corrected = [torch.where(present, slope / share, 0.0) for slope in slopes]
        flow = (corrected[0] * batch.values).sum()
        if self.denoise:
            flow = flow + (corrected[1] * batch.sampling_variances).sum()
        return (value.detach() + (flow - flow.detach())).to(batch.values.dtype)

    @torch.no_grad()
    def _remember(self, batch: DomainRisks) -> None:
        self.step += 1
        present = batch.counts > 0
        known = self.last_seen >= 0
        rate = torch.where(known, self.averaging, 1.0)
        fresh = batch.values.to(torch.float64)
        mixed = self.risks + rate * (fresh - self.risks)
        self.risks = torch.where(present, mixed, self.risks)
        if self.denoise:
            noise = batch.sampling_variances.to(torch.float64)
            mixed = (1.0 - rate) ** 2 * self.variances + rate**2 * noise
            self.variances = torch.where(present, mixed, self.variances)
        self.last_seen = torch.where(present, self.step, self.last_seen)

    def _weights(self) -> Tensor:
        """p over all domains: 0 for those never seen, smaller for old ones."""
        weights = (self.last_seen >= 0).to(torch.float64)
        if self.half_life is not None:
            age = (self.step - self.last_seen).to(torch.float64)
            weights = weights * torch.exp2(-age / self.half_life)
        return weights / weights.sum()

    def staleness(self) -> Staleness:
        """How old the remembered risks are; looks at the device, so not for every step."""
        seen = self.last_seen >= 0
        ages = (self.step - self.last_seen)[seen]
        return Staleness(
            mean_age=float(ages.double().mean()) if ages.numel() else math.nan,
            max_age=int(ages.max()) if ages.numel() else 0,
            never_seen=int((~seen).sum()),
            num_domains=self.num_domains,
        )


def denoised(of_risks: OfRisks, risks: Tensor, variances: Tensor, weights: Tensor) -> Tensor:
    """The objective of the risks' distribution, shrunk to the spread that is not noise.

    Measured risks spread by S² = V + N: the true spread V and the mean sampling variance
    N = Σp_i·v_i. Their quantile q is therefore drawn back towards their mean by √(V/S²), the
    root of their reliability, which makes the variance of the shrunk risks V. Differentiable
    in risks and variances: noise that a predictor could remove is not worth removing.

    >>> from eqrm.distributions import Gaussian
    >>> risks = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    >>> third = torch.full((3,), 1 / 3, dtype=torch.float64)
    >>> q = denoised(lambda r, p: Gaussian(r, weights=p).quantile(0.9), risks, third * 2.25, third)
    >>> round(q.item(), 4)  # S² = 1, N = 0.75: half of 1.2816 is left
    2.6408
    """
    mean = (weights * risks).sum()
    spread = (weights * (risks - mean) ** 2).sum() / (1.0 - (weights * weights).sum())
    noise = (weights * variances).sum()
    if float(spread.detach()) <= 0.0:
        return of_risks(risks, weights)
    reliability = (1.0 - noise / spread).clamp(min=SMALLEST_RELIABILITY)
    return mean + reliability.sqrt() * (of_risks(risks, weights) - mean)
