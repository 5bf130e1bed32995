"""Online bounds against adversaries and drifting risks: is the miss rate within the guarantee?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eqrm import OnlineBound
from studies.domains_in_time.settings import ALPHA
from studies.domains_in_time.worlds import Generator, Vector, autoregressive

LOW, HIGH = 0.0, 10.0
ADAPTIVE, TRACKING = "adaptive", "tracking"
"""The methods of an online bound."""


@dataclass(frozen=True)
class Missed:
    """A sequence, its bound at the end, and how far the miss rate ever was beyond the guarantee."""

    kind: str
    method: str
    bound: OnlineBound
    beyond: float


def just_above(bound: OnlineBound, generator: Generator) -> float:
    """An adversary who sees the bound and, where he can, exceeds it by a little."""
    return float(np.clip(bound.bound + 1e-6, LOW, HIGH)) if bound.bound < HIGH else HIGH


def just_below(bound: OnlineBound, generator: Generator) -> float:
    """An adversary who never exceeds the bound where he can avoid it."""
    return float(np.clip(bound.bound - 1e-6, LOW, HIGH))


def flipping(bound: OnlineBound, generator: Generator) -> float:
    """An adversary who jumps to the far end: as high as possible after each low bound."""
    return HIGH if bound.bound < 0.5 * (LOW + HIGH) else LOW


def lying_low(bound: OnlineBound, generator: Generator) -> float:
    """An adversary who stays low for 100 domains, and then high for 100."""
    return HIGH if bound.domains // 100 % 2 else LOW


ADVERSARIES: dict[str, Callable[[OnlineBound, Generator], float]] = {
    "adversary: just above the bound": just_above,
    "adversary: just below the bound": just_below,
    "adversary: to the far end": flipping,
    "adversary: low, then high": lying_low,
}


def trend(generator: Generator, size: int) -> Vector:
    """Risks that grow from low to high."""
    return np.linspace(1.0, 9.0, size) + generator.normal(0.0, 0.3, size)


def walk(generator: Generator, size: int) -> Vector:
    """A random walk between the limits."""
    return 5.0 + np.cumsum(generator.normal(0.0, 0.2, size))


def jumps(generator: Generator, size: int) -> Vector:
    """A new level every 50 domains or so."""
    levels = generator.uniform(1.0, 9.0, size)
    starts = np.maximum.accumulate(
        np.where(generator.random(size) < 0.02, np.arange(size), 0).astype(int)
    )
    return np.asarray(levels[starts] + generator.normal(0.0, 0.3, size))


def correlated(generator: Generator, size: int) -> Vector:
    """AR(1) with a correlation of .95."""
    return np.asarray(5.0 + autoregressive(generator, 1, size, 0.95)[0])


DRIFTING = {
    "trend": trend,
    "random walk": walk,
    "jumps": jumps,
    "AR(1), correlation 0.95": correlated,
}
KINDS = (*ADVERSARIES, *DRIFTING)


def online_misses(kind: str, method: str, domains: int, seed: int) -> Missed:
    """One sequence of risks, bound by bound."""
    generator = np.random.default_rng([seed, KINDS.index(kind), method == TRACKING])
    limits = (LOW, HIGH) if method == TRACKING else None
    bound = OnlineBound(ALPHA, method, window=200, limits=limits)
    drawn = (
        np.clip(DRIFTING[kind](generator, domains), LOW, HIGH)
        if kind in DRIFTING
        else np.zeros(domains)
    )
    missed = np.empty(domains, dtype=bool)
    for t in range(domains):
        risk = drawn[t] if kind in DRIFTING else ADVERSARIES[kind](bound, generator)
        missed[t] = bound.update(risk)
    after = np.arange(1, domains + 1)
    distances = np.abs(np.cumsum(missed) / after - (1.0 - ALPHA))
    guarantees = [bound.guarantee_after(t) for t in after.tolist()]
    return Missed(kind, method, bound, float((distances - guarantees).max()))


def all_sequences(number: int, domains: int, seed: int) -> list[Missed]:
    """``number`` sequences: every kind with both methods, as often as that takes."""
    pairs = [(kind, method) for kind in KINDS for method in (ADAPTIVE, TRACKING)]
    chosen = [(*pairs[i % len(pairs)], seed + i // len(pairs)) for i in range(number)]
    return [online_misses(kind, method, domains, each) for kind, method, each in chosen]
