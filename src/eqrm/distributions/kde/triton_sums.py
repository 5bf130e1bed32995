"""What the kernels of :mod:`.triton_quantile` are made of.

Programs that share a row meet after every pass over the data: each adds up its part, waits for
the others, and takes the same step from the sums of all. Special functions are written out,
because Triton's interpreter has none.
"""

from __future__ import annotations

import triton
import triton.language as tl

NUMBERS_SHARED = 4
"""Numbers that programs exchange when they meet."""


# fmt: off
# Kernels have long lists of arguments, which read better in lines than in columns.


@triton.jit
def erfcx(x):  # type: ignore[no-untyped-def]
    """exp(x²)·erfc(x) for x ≥ 0, to 5e-16: (1+2x)·erfcx(x) by a polynomial in (x−3)/(x+3)."""
    twice = 1.0 + 2.0 * x
    both = 1.0 / ((x + 3.0) * twice)  # one division instead of two
    u = (x - 3.0) * twice * both
    r = 8.393734858690877e-10 * u + 9.862533510345587e-10
    r = r * u - 8.217595058711455e-09
    r = r * u - 1.3312919661038687e-08
    r = r * u + 4.1064013667940355e-08
    r = r * u + 1.0183620603842736e-07
    r = r * u - 1.4047654315428462e-07
    r = r * u - 6.166011460398726e-07
    r = r * u + 3.5576086684080595e-07
    r = r * u + 3.472370944977168e-06
    r = r * u - 7.308281468783614e-07
    r = r * u - 2.0100542268525612e-05
    r = r * u + 4.949196649968345e-06
    r = r * u + 0.0001250993424583729
    r = r * u - 0.00010515971958448065
    r = r * u - 0.0007798322696543306
    r = r * u + 0.0018886903449991718
    r = r * u + 0.0025293918156939696
    r = r * u - 0.02377051491717134
    r = r * u + 0.0683080273440099
    r = r * u - 0.11927366341538638
    r = r * u + 0.1296451587027594
    r = r * u - 0.0475622943534492
    r = r * u - 0.13562110612458117
    r = r * u + 1.2530080582697296
    return r * ((x + 3.0) * both)


@triton.jit
def single_erfcx(x):  # type: ignore[no-untyped-def]
    """exp(x²)·erfc(x) for x ≥ 0 in float32, to 5e-7: a polynomial in v = 1/(1 + x/2.5), times v."""
    v = 1.0 / (1.0 + 0.4 * x)
    r = 0.05026213079690933 * v - 0.18290148675441742
    r = r * v + 0.16908545792102814
    r = r * v - 0.005607559811323881
    r = r * v + 0.14143143594264984
    r = r * v + 0.16854198276996613
    r = r * v + 0.20784269273281097
    r = r * v + 0.22566959261894226
    r = r * v + 0.22567586600780487
    return r * v


@triton.jit
def log1p(x):  # type: ignore[no-untyped-def]
    """log(1 + x) with the digits of a small x."""
    near = 1.0 + x
    return tl.where(near == 1.0, x, tl.log(near) * (x / tl.where(near == 1.0, 1.0, near - 1.0)))


@triton.jit
def log_of_one_plus(x):  # type: ignore[no-untyped-def]
    """log(1 + x) of one number: a few terms of the series where they suffice, as near a root."""
    found = x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - 0.2 * x))))
    if tl.abs(x) >= 1e-3:
        found = log1p(x)
    return found


@triton.jit  # type: ignore[untyped-decorator]
def _meet(counter, times, BLOCKS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Wait until all programs have come here this many times."""
    tl.debug_barrier()
    tl.atomic_add(counter, 1, sem="release", scope="gpu")
    while tl.atomic_add(counter, 0, sem="acquire", scope="gpu") < times * BLOCKS:
        pass
    tl.debug_barrier()


@triton.jit  # type: ignore[untyped-decorator]
def shared(  # type: ignore[no-untyped-def]
    meeting, times, a, b, c, d, FIRST: tl.constexpr, OTHERS: tl.constexpr, BLOCKS: tl.constexpr
):
    """Of the first number, and of the three others: sums over all programs, or the largest.

    ``FIRST`` and ``OTHERS`` are "sum" or "largest".
    """
    if BLOCKS > 1:
        # The counter stands first. Places alternate: nobody writes where another may still read.
        place = meeting + 1 + (times % 2) * 4 * BLOCKS
        mine = place + tl.program_id(0)
        tl.store(mine, a)
        tl.store(mine + BLOCKS, b)
        tl.store(mine + 2 * BLOCKS, c)
        tl.store(mine + 3 * BLOCKS, d)
        _meet(meeting.to(tl.pointer_type(tl.int32), bitcast=True), times, BLOCKS)
        # From the second-level cache, which all multiprocessors share.
        each = place + tl.arange(0, BLOCKS)
        of_a = tl.load(each, cache_modifier=".cg")
        of_b = tl.load(each + BLOCKS, cache_modifier=".cg")
        of_c = tl.load(each + 2 * BLOCKS, cache_modifier=".cg")
        of_d = tl.load(each + 3 * BLOCKS, cache_modifier=".cg")
        a = tl.sum(of_a, 0) if FIRST == "sum" else tl.max(of_a, 0)
        if OTHERS == "sum":
            b, c, d = tl.sum(of_b, 0), tl.sum(of_c, 0), tl.sum(of_d, 0)
        else:
            b, c, d = tl.max(of_b, 0), tl.max(of_c, 0), tl.max(of_d, 0)
    return a, b, c, d


@triton.jit  # type: ignore[untyped-decorator]
def largest_of(meeting, times, value, BLOCKS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The largest of a number of all programs."""
    none = value * 0.0
    found, _, _, _ = shared(
        meeting, times, value, none, none, none, "largest", "largest", BLOCKS
    )
    return found


@triton.jit  # type: ignore[untyped-decorator]
def weights_at(weights, place, inside, MODE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Weights, in any unit: 1 for every domain, or for those that have examples, or as given."""
    if MODE == 0:
        return inside.to(tl.float64)
    else:
        p = tl.load(weights + place, mask=inside, other=0.0)
        return (p > 0.0).to(tl.float64) if MODE == 2 else p


@triton.jit  # type: ignore[untyped-decorator]
def risks_at(risks, weights, place, inside, MODE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Risks in float64: as given, or sums of losses divided by the numbers of examples."""
    risk = tl.load(risks + place, mask=inside, other=0.0).to(tl.float64)
    if MODE == 2:
        risk = risk / tl.maximum(tl.load(weights + place, mask=inside, other=0.0), 1.0)
    return risk


@triton.jit  # type: ignore[untyped-decorator]
def part_of_row(  # type: ignore[no-untyped-def]
    risks, weights, place, size, pivot, MODE: tl.constexpr
):
    """Differences to the pivot, and weights; both 0 for domains that are absent."""
    inside = place < size
    p = weights_at(weights, place, inside, MODE)
    risk = risks_at(risks, weights, place, inside, MODE)
    return tl.where(p > 0.0, risk - pivot, 0.0), p


@triton.jit
def power_of_two(value):  # type: ignore[no-untyped-def]
    """The power of 2 at or below a value ≥ 0, and its inverse, within the range of both."""
    bits = value.to(tl.int64, bitcast=True) & 0x7FF0000000000000
    bits = tl.maximum(tl.minimum(bits, 0x7FD0000000000000), 0x0010000000000000)
    inverse = 0x7FE0000000000000 - bits
    return bits.to(tl.float64, bitcast=True), inverse.to(tl.float64, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
def centres(differences, origin, scale, inverse, LOWER: tl.constexpr):  # type: ignore[no-untyped-def]
    """Distances to the origin in bandwidths, mirrored for levels under one half.

    ``scale`` is one over the unit of the risks, a power of 2, and ``inverse`` one over the
    bandwidth in this unit; 0 where there is no bandwidth.
    """
    y = (differences - origin) * scale * inverse
    return -y if LOWER else y


@triton.jit  # type: ignore[untyped-decorator]
def next_part(  # type: ignore[no-untyped-def]
    risks, weights, place, size, pivot, d, p, MODE: tl.constexpr, FITS: tl.constexpr
):
    """Differences and weights at these places; where one block holds the row, those at hand."""
    if not FITS:
        d, p = part_of_row(risks, weights, place, size, pivot, MODE)
    return d, p


@triton.jit  # type: ignore[untyped-decorator]
def next_centres(  # type: ignore[no-untyped-def]
    risks, weights, place, size, pivot, origin, scale, inverse, y, p, MODE: tl.constexpr,
    LOWER: tl.constexpr, FITS: tl.constexpr,
):
    """Centres and weights at these places; where one block holds the row, those at hand."""
    if not FITS:
        d, p = part_of_row(risks, weights, place, size, pivot, MODE)
        y = centres(d, origin, scale, inverse, LOWER)
    return y, p


@triton.jit  # type: ignore[untyped-decorator]
def tails(y, p, t, DEEP: tl.constexpr):  # type: ignore[no-untyped-def]
    """Four terms: of the weight of the risks above, of the tail probability less that weight, of
    √2π times the density, and of the latter times z.

    The first sum is exact, so that in a gap between risks, where the tail probability is flat, its
    distance to the target keeps its digits.
    """
    z = t - y
    scaled = erfcx(tl.abs(z) * 0.7071067811865476)
    if DEEP:
        # Relative to the kernel at the origin, the largest: nothing underflows.
        kernel = p * tl.exp(y * (t - 0.5 * y))
        scaled = tl.where(z >= 0.0, scaled, 2.0 * tl.exp(0.5 * z * z) - scaled)
        return p * 0.0, 0.5 * kernel * scaled, kernel, kernel * z
    else:
        kernel = p * tl.exp(-0.5 * z * z)
        tail = 0.5 * kernel * scaled
        return tl.where(z < 0.0, p, 0.0), tl.where(z < 0.0, -tail, tail), kernel, kernel * z
