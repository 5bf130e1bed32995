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
from typing import NamedTuple

import torch
from torch import Tensor, nn

from eqrm.between_domains import OfRisks, denoised, reliability, with_common_losses
from eqrm.checks import FLAG, POSITIVE, POSITIVE_INTEGER, check_fields, number, optional, ruled
from eqrm.errors import DomainDataError, SettingError
from eqrm.execution import can_look
from eqrm.objectives.risk_objective import Kernel, KernelResult, flowing_into, keep_state
from eqrm.risks import DomainRisks


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


@dataclass(frozen=True)
class MemorySettings:
    """How a :class:`RiskMemory` remembers, where its arguments are described."""

    averaging: float = ruled(1.0, number(above=0, most=1))
    half_life: float | None = ruled(None, optional(POSITIVE))
    denoise: bool = ruled(False, FLAG)

    def __post_init__(self) -> None:
        check_fields(self)


class Recalled(NamedTuple):
    """The memory with a batch in it, all (m,) but the step: what the estimate is made from.

    ``variances`` are the sampling variances of the risks, ``unit_variances`` what they would be
    if losses had the variance 1: 1/n for the mean of n losses. ``newest`` is the share of the
    batch's own noise in the noise of each remembered risk.
    """

    risks: Tensor
    variances: Tensor
    unit_variances: Tensor
    last_seen: Tensor
    step: Tensor
    newest: Tensor


class RiskMemory(nn.Module):
    """The latest risk of each of ``num_domains`` domains.

    Args:
        num_domains: how many domains the training data has; batches carry their integer ids.
        averaging: the share λ of the newest measurement in the remembered risk; 1 keeps only
            the newest, smaller values average over visits and so remove sampling noise.
        half_life: steps after which a remembered risk counts half; None for no ageing.
        denoise: estimate how much of the spread of the remembered risks is sampling noise,
            and shrink each towards their mean so that their distribution has the spread that
            remains (:func:`denoised`). For batches with few examples per domain.
        domain_sizes: how many examples each domain has in the training data, one number or
            (m,). With it, ``denoise`` knows that visits draw from the same n examples, whose
            mean is itself noisy however often one looks. None: each visit has new examples.

    The gradient through a domain i of the batch is weighted by 1/(k·p_i), with k the domains
    in the batch and p_i its weight in the estimate. For batches that draw domains uniformly,
    the expected gradient is then that of the quantile over all remembered domains, each
    counting once.

    A risk that is not finite gives an error (on CUDA, where looking would cost a
    synchronisation, a NaN) and is not remembered.

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
    unit_variances: Tensor
    last_seen: Tensor
    step: Tensor
    domain_sizes: Tensor

    def __init__(
        self,
        num_domains: int,
        averaging: float = MemorySettings.averaging,
        half_life: float | None = MemorySettings.half_life,
        denoise: bool = MemorySettings.denoise,
        domain_sizes: Tensor | int | None = None,
    ) -> None:
        super().__init__()
        self.num_domains = POSITIVE_INTEGER.check(num_domains, "num_domains")
        MemorySettings(averaging, half_life, denoise)
        self.averaging, self.half_life, self.denoise = averaging, half_life, denoise
        zeros = torch.zeros(num_domains, dtype=torch.float64)
        self.register_buffer("risks", zeros)
        self.register_buffer("variances", zeros.clone())
        self.register_buffer("unit_variances", zeros.clone())
        self.register_buffer("last_seen", torch.full((num_domains,), -1))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        sizes = _checked_sizes(domain_sizes, num_domains)
        self.register_buffer("domain_sizes", sizes, persistent=False)

    def estimate(self, of_risks: OfRisks, batch: DomainRisks) -> Tensor:
        """Remember the batch, and return the objective over all remembered domains.

        Its value is ``of_risks(risks, weights)`` of the whole memory, or what :func:`denoised`
        leaves of it; its gradient flows into the risks of the batch, and with ``denoise`` also
        into their sampling variances. Weights are None where all domains count the same.
        """
        if len(batch.values) != self.num_domains:
            raise DomainDataError(
                f"The risk memory holds {self.num_domains} domains, but the batch was made for "
                f"{len(batch.values)}. Build it as RiskMemory(num_domains) with the number of "
                "domains of the training data."
            )
        present = batch.counts > 0
        noise = batch.sampling_variances if self.denoise else None
        recalled = self._recall(batch, present, None if noise is None else noise.detach())
        weights = self._weights(recalled.last_seen, recalled.step)
        share = self._share(present, weights)
        risks = flowing_into(batch.values, recalled.risks, share)
        if noise is not None:
            # The slope in a risk meets the batch's noise only to the share that it has in the
            # memory; no more of it may be taken back.
            variances = flowing_into(noise, recalled.variances, share * recalled.newest)
            variances = with_common_losses(variances, recalled.unit_variances, weights)
            value = denoised(of_risks, risks, variances, weights)
        elif self._count_the_same and can_look(weights) and bool(weights.all()):
            value = of_risks(risks, None)  # quicker, where a look costs nothing
        else:
            value = of_risks(risks, weights)
        self._remember(recalled)
        return value.to(batch.values.dtype)

    @property
    def _count_the_same(self) -> bool:
        """Whether all domains that were seen have the same weight."""
        return self.half_life is None and not self.denoise

    def kernel(
        self,
        num_domains: int,
        of_risks: OfRisks,
        with_slopes: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    ) -> Kernel | None:
        """What does the same as :meth:`estimate` on a GPU; None with ``denoise``.

        ``with_slopes`` gives the value of ``of_risks`` together with its slopes.
        """
        if self.denoise or num_domains != self.num_domains:
            return None
        from eqrm.gpu.objectives import enter

        def remembered(totals: Tensor, size: int, dtype: torch.dtype) -> KernelResult:
            self.step.add_(1)
            decay = math.log(2.0) / (self.half_life or math.inf)
            own = (self.risks, self.last_seen, self.step, self.averaging, decay)
            risks, weights, total = enter(totals, *own)
            value, slopes = with_slopes(risks, weights)
            share = total / totals[2 * size]
            if self.half_life is not None:
                share = share / torch.where(weights > 0.0, weights, 1.0)
            again = lambda batch: of_risks(flowing_into(batch.values, risks, share), weights)  # noqa: E731
            return KernelResult(value.to(dtype), slopes * share, again)

        return remembered

    def _share(self, present: Tensor, weights: Tensor) -> Tensor:
        """1/(k·p_i): what the gradient through the i-th of k domains present is multiplied by.

        A slope of the objective is proportional to the domain's weight p_i; dividing by k·p_i
        makes the batch a sample of domains that all count the same. Without ageing, all p_i are
        equal. No gradient reaches a domain that is not in the batch, whatever its factor.
        """
        number = present.sum()
        if self._count_the_same:
            return weights.sum() / number
        return torch.where(present, 1.0 / (torch.where(present, weights, 1.0) * number), 0.0)

    @torch.no_grad()
    def _recall(self, batch: DomainRisks, present: Tensor, noise: Tensor | None) -> Recalled:
        """R ← R + λ(r − R), with the variance of what noise it then holds.

        r has the variance s²/k, and the covariance s²/n with what was remembered of the same n
        examples (0 without ``domain_sizes``): v ← (1−λ)²v + λ²s²/k + 2λ(1−λ)s²/n. The same with
        s² = 1 gives the unit variances.
        """
        step = self.step + 1
        last_seen = torch.where(present, step, self.last_seen)
        # In float64 also where the memory was cast with its model.
        old_risks, variances, units = (
            each.to(torch.float64) for each in (self.risks, self.variances, self.unit_variances)
        )
        fresh = batch.values.to(torch.float64)
        known = (self.last_seen >= 0).to(torch.float64)
        rate = 1.0 - known * (1.0 - self.averaging)  # λ, and 1 at the first visit
        newest = rate
        if self.averaging < 1.0:
            fresh = old_risks + rate * (fresh - old_risks)
        risks = torch.where(present, fresh, old_risks)
        if noise is not None:
            common = (batch.counts / self.domain_sizes).clamp(max=1.0)  # k/n
            old, new = (1.0 - rate) ** 2, rate * (rate + 2.0 * (1.0 - rate) * common)
            variances = torch.where(present, old * variances + new * noise, variances)
            units = torch.where(present, old * units + new / batch.counts, units)
            newest = rate + (1.0 - rate) * common
        return Recalled(risks, variances, units, last_seen, step, newest)

    def _remember(self, recalled: Recalled) -> None:
        """Keep what is finite."""
        names = ["risks", "last_seen", *(("variances", "unit_variances") if self.denoise else ())]
        finite = recalled.risks.isfinite()
        if self.denoise:
            finite &= recalled.variances.isfinite()
        for name in names:
            new = torch.where(finite, getattr(recalled, name), getattr(self, name))
            keep_state(self, name, new)
        keep_state(self, "step", recalled.step)

    def _weights(self, last_seen: Tensor, step: Tensor) -> Tensor:
        """p over all domains: 0 for those never seen, smaller for old ones.

        Where all others count the same, they are 1, and divided by their sum where they are used.
        """
        weights = (last_seen >= 0).to(torch.float64)
        if self._count_the_same:
            return weights
        if self.half_life is not None:
            age = (step - last_seen).to(torch.float64)
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

    def reliability(self) -> float:
        """The share of the remembered spread that is not sampling noise, with ``denoise``.

        Near 0 the domains hardly differ under this predictor, or are hardly measured. Looks at
        the device.
        """
        if not self.denoise:
            raise SettingError(
                "A risk memory knows the sampling noise of its risks with denoise=True only."
            )
        weights = self._weights(self.last_seen, self.step)
        variances = with_common_losses(self.variances, self.unit_variances, weights)
        return float(reliability(self.risks, variances, weights))


def _checked_sizes(sizes: Tensor | int | None, num_domains: int) -> Tensor:
    """The examples per domain (m,), infinite where there is no end of new ones."""
    if sizes is None:
        return torch.full((num_domains,), math.inf, dtype=torch.float64)
    given = torch.as_tensor(sizes).detach().to(torch.float64)
    if given.ndim > 0 and given.shape != (num_domains,):
        raise SettingError(
            f"domain_sizes must be one number, or one for each of {num_domains} domains, got the "
            f"shape {tuple(given.shape)}."
        )
    if not bool((given >= 1.0).all()):
        raise SettingError("domain_sizes must be at least 1 example for every domain.")
    return given.expand(num_domains).clone()
