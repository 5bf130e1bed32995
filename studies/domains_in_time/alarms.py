"""How often the watch rings when it should not, and how soon when it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from eqrm import Level, Watch
from eqrm.evaluation import Certificate, quantile_bound
from eqrm.evaluation.inference.in_time.evidence import miss_rate_interval
from studies.domains_in_time.settings import ALPHA, CONFIDENCE, DELTA, POWER
from studies.domains_in_time.worlds import (
    Generator,
    Vector,
    autoregressive,
    moving_average,
    moving_maximum,
)

EXACT = Certificate(
    bound=ALPHA,
    confidence=CONFIDENCE,
    achieved=CONFIDENCE,
    domains=0,
    method="known",
    rank=0,
    alpha=ALPHA,
)
"""Uniform risks exceed 0.9 with a probability of exactly 0.1."""
CERTIFIED_ON = 100
AT_ONCE = 1000
"""Domains of each interleaved test that are watched before it matters whether it rang."""


@dataclass(frozen=True)
class Alarms:
    """The share of worlds in which the alarm rang by mistake, and what was promised at most."""

    what: str
    dependence: int
    rang: float
    promised: float | None


def independent_alarms(worlds: int, domains: int, seed: int) -> Alarms:
    """Independent domains that exceed b with a probability of exactly 1−α."""
    generator = np.random.default_rng([seed, 1])
    rang = _share(worlds, lambda: _rang(EXACT, 0, generator.random(domains)))
    return Alarms("independent domains, F(b) = α", 0, rang, DELTA)


def dependent_alarms(dependence: int, worlds: int, domains: int, seed: int) -> list[Alarms]:
    """k-dependent domains of two kinds, watched with ``dependence=k``, and as if independent."""
    found = []
    for name, draw in (("average", moving_average), ("maximum", moving_maximum)):
        generator = np.random.default_rng([seed, 2, dependence, len(name)])
        rang = np.zeros(2)
        for _ in range(worlds):
            risks = draw(generator, 1, domains, dependence)[0]
            rang += [_rang(EXACT, dependence, risks), _rang(EXACT, 0, risks)]
        what = f"{dependence}-dependent domains (moving {name}), F(b) = α"
        found += [
            Alarms(what, dependence, float(rang[0]) / worlds, DELTA),
            Alarms(what, 0, float(rang[1]) / worlds, None),
        ]
    return found


def certified_alarms(worlds: int, domains: int, seed: int) -> Alarms:
    """Independent domains, and b certified on 100 of them."""
    generator = np.random.default_rng([seed, 3])

    def one() -> bool:
        certificate = quantile_bound(generator.random(CERTIFIED_ON), ALPHA, CONFIDENCE)
        return _rang(certificate, 0, generator.random(domains))

    what = f"independent domains, b certified on {CERTIFIED_ON}"
    return Alarms(what, 0, _share(worlds, one), DELTA + 1.0 - CONFIDENCE)


def correlated_alarms(correlation: float, worlds: int, domains: int, seed: int) -> Alarms:
    """AR(1) domains with F(b) = α, watched as if they were independent: nothing is promised."""
    generator = np.random.default_rng([seed, 4, round(100 * correlation)])
    normal = replace(EXACT, bound=Level(ALPHA).z)
    rang = _share(
        worlds,
        lambda: _rang(normal, 0, autoregressive(generator, 1, domains, correlation)[0]),
    )
    return Alarms(f"AR(1), correlation {correlation:g}, F(b) = α", 0, rang, None)


def drift_alarms(worlds: int, domains: int, seed: int) -> Alarms:
    """The test of any change, on independent domains without one, with 100 earlier risks."""
    generator = np.random.default_rng([seed, 5])

    def one() -> bool:
        watch = Watch(EXACT, DELTA, reference=generator.normal(size=CERTIFIED_ON))
        watch.update_many(generator.normal(size=domains))
        return watch.report.drift_alarm is not None

    return Alarms("any change of the distribution, none present", 0, _share(worlds, one), DELTA)


def interval_misses(worlds: int, domains: int, seed: int) -> Alarms:
    """Worlds in which the limits of the miss rate ever exclude the true one, at 60 moments."""
    generator = np.random.default_rng([seed, 7])
    moments = np.unique(np.geomspace(1, domains, 60).astype(int)).tolist()
    limits_of = cache(miss_rate_interval)  # worlds have the same counts again and again

    def one() -> bool:
        counts = np.cumsum(generator.random(domains) < 1.0 - ALPHA)
        limits = (limits_of(int(counts[t - 1]), t, 1.0 - ALPHA, DELTA) for t in moments)
        return any(not low <= 1.0 - ALPHA <= high for low, high in limits)

    return Alarms("limits of the miss rate exclude the true one", 0, _share(worlds, one), DELTA)


def _share(worlds: int, rang: Callable[[], bool]) -> float:
    return sum(rang() for _ in range(worlds)) / worlds


def _rang(certificate: Certificate, dependence: int, risks: Vector) -> bool:
    """Whether a new watch rings in the course of these risks; it sees no more after that."""
    watch = Watch(certificate, DELTA, dependence)
    step = AT_ONCE * (dependence + 1)
    return any(
        bool((watch.update_many(risks[first : first + step]) >= 1.0 / DELTA).any())
        for first in range(0, risks.size, step)
    )


@dataclass(frozen=True)
class Delay:
    """Domains until the alarm: of the watch, and of the best test of one size chosen before."""

    miss_rate: float
    good_before: int
    median: float
    by_power: float
    fixed: int


def detection_delay(miss_rate: float, good_before: int, worlds: int, seed: int) -> Delay:
    """The alarm when misses become more frequent, after domains of which half as many miss.

    ``median`` and ``by_power`` (80% of worlds) count from the change; an alarm before it counts as
    0, and there are so few that they do not matter. ``fixed`` is the smallest number of domains
    at which the binomial test at level δ has a power of 80%; it may be looked at once.
    """
    generator = np.random.default_rng([seed, 6, round(100 * miss_rate), good_before])
    longest, delays = good_before + 4000, []
    for _ in range(worlds):
        missing = np.where(np.arange(longest) < good_before, 0.5 * (1.0 - ALPHA), miss_rate)
        delays.append(_delay(generator, missing) - good_before)
    median, by_power = np.quantile(np.maximum(delays, 0), [0.5, POWER], method="higher").tolist()
    return Delay(miss_rate, good_before, median, by_power, best_fixed_size(miss_rate))


def _delay(generator: Generator, missing: Vector) -> int:
    watch = Watch(EXACT, DELTA)
    risks = np.where(generator.random(missing.size) < missing, 1.0, 0.0)
    for first in range(0, risks.size, 200):
        reached = watch.update_many(risks[first : first + 200]) >= 1.0 / DELTA
        if reached.any():
            return first + int(reached.argmax()) + 1
    return int(missing.size)


def best_fixed_size(miss_rate: float) -> int:
    """The fewest domains at which the one-sided binomial test at level δ has a power of 80%."""
    from scipy.stats import binom

    for domains in range(1, 10_000):
        critical = int(binom.isf(DELTA, domains, 1.0 - ALPHA)) + 1
        if binom.sf(critical - 1, domains, miss_rate) >= POWER:
            return domains
    return 10_000
