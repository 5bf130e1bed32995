"""Risks of domains on a GPU: sums of losses, the way back to the losses, and a memory of risks.

Each is a launch. Imported only where triton and a GPU are; Triton's interpreter runs it on a CPU,
for tests.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from eqrm.gpu.launching import Launcher, bits_of, double

BLOCK = 1024
FEW = 16
"""Up to this many domains a program adds up its part before it touches the totals of all."""


@triton.jit(do_not_specialize=["size", "domains"])  # type: ignore[untyped-decorator]
def _add_up(  # type: ignore[no-untyped-def]
    losses, ids, totals, size, domains, FEW: tl.constexpr, BLOCK: tl.constexpr
):
    """Sums per domain, then counts, then the number of domains that are present.

    An id that is out of range makes the risk of the first domain NaN.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    domain = tl.load(ids + at, mask=inside, other=0)
    loss = tl.load(losses + at, mask=inside, other=0.0).to(tl.float64)
    known = (domain >= 0) & (domain < domains)
    loss = tl.where(known, loss, float("nan"))
    domain = tl.where(known, domain, 0)
    if FEW:
        for each in range(domains):
            own = inside & (domain == each)
            count = tl.sum(own.to(tl.float64), 0)
            tl.atomic_add(totals + each, tl.sum(tl.where(own, loss, 0.0), 0))
            before = tl.atomic_add(totals + domains + each, count)
            first = (count > 0.0) & (before == 0.0)
            tl.atomic_add(totals + 2 * domains, first.to(tl.float64))
    else:
        tl.atomic_add(totals + domain, loss, mask=inside)
        one = inside.to(tl.float64)
        before = tl.atomic_add(totals + domains + domain, one, mask=inside)
        first = inside & (before == 0.0)
        tl.atomic_add(totals + 2 * domains, tl.sum(first.to(tl.float64), 0))


@triton.jit(do_not_specialize=["size", "domains"])  # type: ignore[untyped-decorator]
def _spread(  # type: ignore[no-untyped-def]
    slopes, ids, totals, gradient, size, domains, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    domain = tl.load(ids + at, mask=inside, other=0)
    known = inside & (domain >= 0) & (domain < domains)
    count = tl.load(totals + domains + domain, mask=known, other=1.0)
    slope = tl.load(slopes + domain, mask=known, other=0.0).to(tl.float64)
    tl.store(gradient + at, slope / count, mask=inside)


_sums, _slopes = Launcher(_add_up), Launcher(_spread)


def add_up(losses: Tensor, ids: Tensor, domains: int) -> Tensor:
    """Sums of losses (m,), numbers of examples (m,) and how many domains are present."""
    totals = torch.zeros(2 * domains + 1, dtype=torch.float64, device=losses.device)
    size = losses.numel()
    if size:
        own, ids = losses.detach().contiguous(), ids.contiguous()
        few = domains <= FEW
        _sums(triton.cdiv(size, BLOCK), (own, ids, totals), (size, domains), (few, BLOCK))
    return totals


def spread(slopes: Tensor, ids: Tensor, totals: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient in the losses from that in the risks (m,)."""
    gradient = torch.empty(ids.shape, dtype=dtype, device=ids.device)
    size = ids.numel()
    if size:
        tensors = (slopes.contiguous(), ids.contiguous(), totals, gradient)
        _slopes(triton.cdiv(size, BLOCK), tensors, (size, totals.numel() // 2), (BLOCK,))
    return gradient


# fmt: off
# Kernels have long lists of arguments, which read better in lines than in columns.


@triton.jit(do_not_specialize=["size", "rate_bits", "decay_bits"])  # type: ignore[untyped-decorator]
def _enter(  # type: ignore[no-untyped-def]
    totals, remembered, last_seen, step, risks, weights, all_weights, size, rate_bits,
    decay_bits, BLOCK: tl.constexpr,
):
    """R ← R + λ(r − R) for the domains present, and what each counts: 2^(−age/half-life) or 0."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    now = tl.load(step)
    count = tl.load(totals + size + at, mask=inside, other=0.0)
    present = count > 0.0
    fresh = tl.load(totals + at, mask=inside, other=0.0) / tl.maximum(count, 1.0)
    before = tl.load(remembered + at, mask=inside, other=0.0)
    seen = tl.load(last_seen + at, mask=inside, other=-1)
    rate = tl.where(seen >= 0, double(rate_bits), 1.0)
    risk = tl.where(present, before + rate * (fresh - before), before)
    risk = tl.where(present & (rate == 1.0), fresh, risk)
    latest = tl.where(present, now, seen)
    age = (now - latest).to(tl.float64)
    decay = double(decay_bits)
    weight = tl.where(latest >= 0, tl.exp(-decay * age), 0.0)
    tl.store(risks + at, risk, mask=inside)
    tl.store(weights + at, weight, mask=inside)
    tl.atomic_add(all_weights, tl.sum(tl.where(inside, weight, 0.0), 0))
    # What is not finite is not remembered.
    finite = inside & (risk - risk == 0.0)
    tl.store(remembered + at, risk, mask=finite)
    tl.store(last_seen + at, latest, mask=finite)

# fmt: on


_enters = Launcher(_enter)


def enter(
    totals: Tensor,
    remembered: Tensor,
    last_seen: Tensor,
    step: Tensor,
    rate: float,
    decay: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Remember sums of losses (:func:`add_up`) as the risks of this step, in place.

    Returns all risks and their weights, (m,), and the sum of the weights; risks that are not finite
    are not remembered.
    """
    size = remembered.numel()
    risks, weights = torch.empty_like(remembered), torch.empty_like(remembered)
    total = remembered.new_zeros(())
    _enters(
        triton.cdiv(size, BLOCK),
        (totals, remembered, last_seen, step, risks, weights, total),
        (size, bits_of(rate), bits_of(decay)),
        (BLOCK,),
    )
    return risks, weights, total
