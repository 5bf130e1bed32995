"""From losses to objectives on a GPU: sums by domain, and value and slopes of them, a launch each.

Sums of losses (m,), numbers of examples (m,) and how many domains are present (:func:`add_up`) are
what a memory of risks and objectives take; of these one program does the work, in float64.

Imported only where triton and a GPU are; Triton's interpreter runs it on a CPU, for tests.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from eqrm.gpu.launching import Launcher, bits_of, double, sum_of_three

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


LARGEST_BLOCK = 4096

MOST_SEARCHED = 65_536
"""Domains up to which one program finds the superquantile's place faster than a sort does."""

DIGITS = 16
"""Values of a digit of four bits, by which the superquantile finds its place among the risks."""

# fmt: off
# Kernels have long lists of arguments, which read better in lines than in columns.


@triton.jit  # type: ignore[untyped-decorator]
def _risks(totals, begin, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Places, the risks there, and which domains have examples."""
    at = begin + tl.arange(0, BLOCK)
    count = tl.load(totals + size + at, mask=at < size, other=0.0)
    risk = tl.load(totals + at, mask=at < size, other=0.0) / tl.maximum(count, 1.0)
    return at, risk, count > 0.0


@triton.jit(do_not_specialize=["size", "weight_bits"])  # type: ignore[untyped-decorator]
def _mean_and_variance(  # type: ignore[no-untyped-def]
    totals, value, slopes, size, weight_bits, VARIANCE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """R̄ + β·Σ(R_i − R̄)²/k, and its slopes (1 + 2β(R_i − R̄))/k."""
    weight = double(weight_bits)
    share = 1.0 / tl.load(totals + 2 * size)
    total = tl.zeros([BLOCK], tl.float64)
    for begin in range(0, size, BLOCK):
        at, risk, present = _risks(totals, begin, size, BLOCK)
        total += risk
    mean = tl.sum(total, 0) * share
    found = mean
    if VARIANCE:
        total = tl.zeros([BLOCK], tl.float64)
        for begin in range(0, size, BLOCK):
            at, risk, present = _risks(totals, begin, size, BLOCK)
            total += tl.where(present, (risk - mean) * (risk - mean), 0.0)
        found = mean + weight * tl.sum(total, 0) * share
    tl.store(value, found)
    for begin in range(0, size, BLOCK):
        at, risk, present = _risks(totals, begin, size, BLOCK)
        slope = tl.where(present, share, 0.0)
        if VARIANCE:
            slope = slope * (1.0 + 2.0 * weight * (risk - mean))
        tl.store(slopes + at, slope, mask=at < size)


@triton.jit(do_not_specialize=["size", "rate_bits"])  # type: ignore[untyped-decorator]
def _followed_weights(  # type: ignore[no-untyped-def]
    totals, weights, value, slopes, size, rate_bits, MOVES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """q ← q·exp(ηR)/Σ where that is finite, then (m/k)·Σ q_i R_i, and its slopes."""
    rate = double(rate_bits)
    total = tl.zeros([BLOCK], tl.float64)
    if MOVES:
        largest = total - float("inf")
        for begin in range(0, size, BLOCK):
            at, risk, present = _risks(totals, begin, size, BLOCK)
            largest = tl.maximum(largest, tl.where(at < size, risk, -float("inf")))
        # The largest exponent cancels in the division; with it exp could overflow.
        most = tl.max(largest, 0)
        for begin in range(0, size, BLOCK):
            at, risk, present = _risks(totals, begin, size, BLOCK)
            q = tl.load(weights + at, mask=at < size, other=0.0)
            total += q * tl.exp(rate * (risk - most))
        divisor = tl.sum(total, 0)
        total = tl.zeros([BLOCK], tl.float64)
        if (divisor > 0.0) & (divisor - divisor == 0.0):
            for begin in range(0, size, BLOCK):
                at, risk, present = _risks(totals, begin, size, BLOCK)
                q = tl.load(weights + at, mask=at < size, other=0.0)
                moved = q * tl.exp(rate * (risk - most)) / divisor
                tl.store(weights + at, moved, mask=at < size)
        tl.debug_barrier()
    factor = size / tl.load(totals + 2 * size)
    for begin in range(0, size, BLOCK):
        at, risk, present = _risks(totals, begin, size, BLOCK)
        slope = tl.load(weights + at, mask=at < size, other=0.0) * factor
        slope = tl.where(present, slope, 0.0)
        total += slope * risk
        tl.store(slopes + at, slope, mask=at < size)
    tl.store(value, tl.sum(total, 0))


@triton.jit
def _keys(risk):  # type: ignore[no-untyped-def]
    """Integers in the order of the risks."""
    bits = (risk + 0.0).to(tl.int64, bitcast=True)  # 0 for −0
    return tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFFFFFFFFFF)


@triton.jit(do_not_specialize=["size", "tail_bits"])  # type: ignore[untyped-decorator]
def _worst_share(  # type: ignore[no-untyped-def]
    totals, value, slopes, size, tail_bits, DIGITS: tl.constexpr, BLOCK: tl.constexpr
):
    """The mean of the worst T = (1−α)·k risks; risks equal to the least of them share its part.

    That least one is the largest risk that at least T reach: its bits are found four at a time.
    """
    tail = double(tail_bits)
    worst = tl.maximum(tail * tl.load(totals + 2 * size), 1e-300)
    digits = tl.arange(0, DIGITS).to(tl.int64)
    least = tl.cast(0, tl.int64)
    for number in range(16):
        shift = 60 - 4 * number
        bound = least + ((digits - tl.where(number == 0, 8, 0)) << shift)
        reached = tl.zeros([DIGITS], tl.float64)
        for begin in range(0, size, BLOCK):
            at, risk, present = _risks(totals, begin, size, BLOCK)
            reach = present[:, None] & (_keys(risk)[:, None] >= bound[None, :])
            reached += tl.sum(reach.to(tl.float64), 0)
        # The number that reach a bound falls with the bound.
        fit = tl.sum((reached >= worst).to(tl.int64), 0) - 1
        fit = tl.maximum(fit, 0)  # where risks are not numbers
        least += (fit - tl.where(number == 0, 8, 0)) << shift
    above = tl.zeros([BLOCK], tl.float64)
    equal = tl.zeros([BLOCK], tl.float64)
    all_of_them = tl.zeros([BLOCK], tl.float64)
    for begin in range(0, size, BLOCK):
        at, risk, present = _risks(totals, begin, size, BLOCK)
        key = _keys(risk)
        above += (present & (key > least)).to(tl.float64)
        equal += (present & (key == least)).to(tl.float64)
        all_of_them += risk
    higher, ties, everything = sum_of_three(above, equal, all_of_them)
    # As far above the least as the others are: nearly equal risks keep their digits.
    bits = tl.where(least >= 0, least, least ^ 0x7FFFFFFFFFFFFFFF)
    pivot = bits.to(tl.float64, bitcast=True)
    part = (worst - higher) / tl.maximum(ties, 1.0) / worst
    total = tl.zeros([BLOCK], tl.float64)
    for begin in range(0, size, BLOCK):
        at, risk, present = _risks(totals, begin, size, BLOCK)
        key = _keys(risk)
        slope = tl.where(present & (key > least), 1.0 / worst, 0.0)
        total += slope * tl.where(key > least, risk - pivot, 0.0)
        slope = tl.where(present & (key == least), part, slope)
        tl.store(slopes + at, slope, mask=at < size)
    # A risk that is not finite spoils the value.
    tl.store(value, pivot + tl.sum(total, 0) + (everything - everything))

# fmt: on


_means, _weighted, _worst = map(Launcher, (_mean_and_variance, _followed_weights, _worst_share))


def _launched(
    launch: Launcher,
    totals: Tensor,
    size: int,
    dtype: torch.dtype,
    number: float,
    constant: int,
    *weights: Tensor,
    largest: int = LARGEST_BLOCK,
) -> tuple[Tensor, Tensor]:
    """Value and slopes, from one program with a number and a constant."""
    value, slopes = totals.new_empty((), dtype=dtype), totals.new_empty(size, dtype=dtype)
    block = min(LARGEST_BLOCK, max(32, triton.next_power_of_2(size)))
    warps = max(1, min(8, block // 128))
    tensors = (totals, *weights, value, slopes)
    launch(1, tensors, (size, bits_of(number)), (constant, min(largest, block)), warps)
    return value, slopes


def mean_and_variance(
    totals: Tensor, size: int, weight: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The mean of the risks plus ``weight`` times their variance (divisor k), and its slopes."""
    return _launched(_means, totals, size, dtype, weight, weight != 0.0)


def followed_weights(
    totals: Tensor, size: int, weights: Tensor, rate: float | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """GroupDRO's sum and its slopes; ``weights`` take a step of this rate first, unless None."""
    return _launched(_weighted, totals, size, dtype, rate or 0.0, rate is not None, weights)


def worst_share(
    totals: Tensor, size: int, tail: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The mean of the worst share ``tail`` of the risks, the superquantile, and its slopes."""
    return _launched(_worst, totals, size, dtype, tail, DIGITS, largest=1024)
