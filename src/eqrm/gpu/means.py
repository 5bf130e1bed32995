"""From losses to one risk per domain on a GPU: three launches forward, one backward.

The same numbers as :func:`eqrm.risks.domain_risks` gives in tensors. Imported only where triton
and a GPU are; Triton's interpreter runs it on a CPU, for tests.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from eqrm.gpu.launching import Launcher

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


@triton.jit(do_not_specialize=["domains"])  # type: ignore[untyped-decorator]
def _divide(  # type: ignore[no-untyped-def]
    totals, risks, counts, weights, domains, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < domains
    count = tl.load(totals + domains + at, mask=inside, other=0.0)
    risk = tl.load(totals + at, mask=inside, other=0.0) / tl.maximum(count, 1.0)
    share = 1.0 / tl.load(totals + 2 * domains)
    tl.store(risks + at, risk, mask=inside)
    tl.store(counts + at, count.to(tl.int64), mask=inside)
    tl.store(weights + at, tl.where(count > 0.0, share, 0.0), mask=inside)


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


_sums, _means, _slopes = Launcher(_add_up), Launcher(_divide), Launcher(_spread)


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


class DomainMeans(torch.autograd.Function):
    """Mean losses (m,), counts, and 1/k for each of the k domains present."""

    @staticmethod
    def forward(ctx: Any, losses: Tensor, ids: Tensor, domains: int) -> tuple[Tensor, ...]:
        totals = add_up(losses, ids, domains)
        risks = losses.new_empty(domains, dtype=torch.promote_types(losses.dtype, torch.float32))
        counts, weights = ids.new_empty(domains), totals.new_empty(domains)
        found = (totals, risks, counts, weights)
        _means(triton.cdiv(domains, BLOCK), found, (domains,), (BLOCK,))
        ctx.mark_non_differentiable(counts, weights)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(ids, totals)
        ctx.dtype = losses.dtype
        return risks, counts, weights

    @staticmethod
    def backward(ctx: Any, slopes: Tensor | None, *_: Any) -> tuple[Tensor | None, None, None]:
        ids, totals = ctx.saved_tensors
        if slopes is None:
            return None, None, None
        domains = totals.numel() // 2
        if torch.is_grad_enabled():
            counts = totals[domains : 2 * domains].clamp(min=1.0)
            return (slopes.double() / counts)[ids].to(ctx.dtype), None, None
        return spread(slopes, ids, totals, ctx.dtype), None, None
