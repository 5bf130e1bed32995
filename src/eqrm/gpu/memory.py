"""A batch entered into a risk memory on a GPU, in one kernel launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from eqrm.gpu.doubles import bits_of, double
from eqrm.gpu.launching import Launcher

BLOCK = 1024

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
    """Remember sums of losses (``eqrm.gpu.means.add_up``) as the risks of this step, in place.

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
