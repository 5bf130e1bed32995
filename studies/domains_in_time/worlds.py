"""Sequences of domain risks with a known law: k-dependent, AR(1), regimes, seasons.

Each function returns the risks of many worlds (worlds, domains). They are built from normal or
uniform numbers with a known stationary law, so that the α-quantile of the risk is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Generator = np.random.Generator
Vector = NDArray[np.float64]
REGIMES = ((0.0, 5.0), (0.0, 1.5), (0.0, 3.0, 6.0, 9.0))
"""Means of regimes: apart, overlapping, four."""


@dataclass(frozen=True)
class Law:
    """A law of the risk by its quantile function; ``quantile`` takes probabilities."""

    name: str
    quantile: Callable[[Any], Any]


def risk_laws() -> list[Law]:
    """Five laws: bounded, skewed, infinite variance, two peaks, nine values."""
    from scipy.special import bdtr, ndtri

    nine = bdtr(np.arange(9), 8, 0.4)
    return [
        Law("uniform", lambda u: u),
        Law("lognormal", lambda u: np.exp(0.8 * ndtri(u))),
        Law("Pareto, infinite variance", lambda u: np.power(1.0 - u, -1.0 / 1.5)),
        Law("exponential mixture", lambda u: np.where(u < 0.5, u, 3.0 - np.log(2.0 - 2.0 * u))),
        Law("nine values", lambda u: np.searchsorted(nine, u) / 8.0),
    ]


def moving_average(generator: Generator, worlds: int, domains: int, dependence: int) -> Vector:
    """Uniform numbers, k-dependent: each is the mean of k+1 consecutive normal ones."""
    from scipy.special import ndtr

    normal = generator.normal(size=(worlds, domains + dependence))
    sums = np.cumsum(np.pad(normal, ((0, 0), (1, 0))), axis=1)
    width = dependence + 1
    return np.asarray(ndtr((sums[:, width:] - sums[:, :-width]) / np.sqrt(width)))


def moving_maximum(generator: Generator, worlds: int, domains: int, dependence: int) -> Vector:
    """Uniform numbers, k-dependent: each is the largest of k+1 consecutive ones, so that high
    risks come in runs of k+1."""
    width = dependence + 1
    drawn = generator.random((worlds, domains + dependence))
    windows = np.lib.stride_tricks.sliding_window_view(drawn, width, axis=1)
    return np.asarray(windows.max(axis=2) ** width)


@dataclass(frozen=True)
class InTime:
    """A stationary world: ``draw(generator, worlds, domains)``, and the CDF of its risks."""

    name: str
    draw: Callable[[Generator, int, int], Vector]
    cdf: Callable[[float], float]
    expected: str = ""
    """"given" where a bound should be given, "refused" where not, "" where nothing is promised."""

    def quantile(self, alpha: float) -> float:
        """The α-quantile of a domain's risk."""
        from scipy.optimize import brentq

        return float(brentq(lambda risk: self.cdf(risk) - alpha, -50.0, 50.0, xtol=1e-12))


def autoregressive(generator: Generator, worlds: int, domains: int, correlation: float) -> Vector:
    """AR(1): standard normal risks, neighbours with this correlation."""
    from scipy.signal import lfilter

    noise = generator.normal(size=(worlds, domains))
    noise[:, 1:] *= np.sqrt(1.0 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))


def ar_world(correlation: float, expected: str = "") -> InTime:
    """AR(1) with a correlation between neighbours."""
    from scipy.special import ndtr

    return InTime(
        f"AR(1), correlation {correlation:g}",
        lambda generator, worlds, domains: autoregressive(generator, worlds, domains, correlation),
        lambda risk: float(ndtr(risk)),
        expected,
    )


def regime_world(means: Sequence[float], stay: float, expected: str = "") -> InTime:
    """Regimes that are equally likely and last ``stay`` domains on average, with normal risks."""
    return _regimes(
        f"{len(means)} regimes, {'apart' if means[1] >= 3 else 'overlapping'}, stay {stay:g}",
        means,
        [1.0 / len(means)] * len(means),
        [1.0 / stay] * len(means),
        expected,
    )


def rare_world(share: float, stay: float) -> InTime:
    """A bad regime that rules a small share of the time, and lasts ``stay`` domains on average."""
    leave = [share / ((1.0 - share) * stay), 1.0 / stay]
    name = f"bad regime {100 * share:g}% of the time, stay {stay:g}"
    return _regimes(name, [0.0, 5.0], [1.0 - share, share], leave, "")


def _regimes(
    name: str,
    means: Sequence[float],
    shares: Sequence[float],
    leave: Sequence[float],
    expected: str,
) -> InTime:
    from scipy.special import ndtr

    def draw(generator: Generator, worlds: int, domains: int) -> Vector:
        kinds, going = len(means), np.array(leave)
        regime = generator.choice(kinds, size=worlds, p=shares)
        found = np.empty((worlds, domains), dtype=np.int64)
        for t in range(domains):
            found[:, t] = regime
            moves = generator.random(worlds) < going[regime]
            regime = np.where(
                moves, (regime + generator.integers(1, kinds, worlds)) % kinds, regime
            )
        return np.asarray(np.array(means)[found] + generator.normal(size=found.shape))

    weights, centres = np.array(shares), np.array(means)
    return InTime(name, draw, lambda risk: float(weights @ ndtr(risk - centres)), expected)


def seasonal_world(period: float, amplitude: float) -> InTime:
    """A sine wave of random phase with normal noise."""
    from scipy.special import ndtr

    wave = amplitude * np.sin(2.0 * np.pi * np.arange(2000) / 2000.0)

    def draw(generator: Generator, worlds: int, domains: int) -> Vector:
        phases = np.arange(domains) / period + generator.random((worlds, 1))
        noise = generator.normal(size=(worlds, domains))
        return np.asarray(amplitude * np.sin(2.0 * np.pi * phases) + noise)

    name = f"season of {period:g} domains, amplitude {amplitude:g}"
    return InTime(name, draw, lambda risk: float(ndtr(risk - wave).mean()))


def spell_worlds() -> list[InTime]:
    """The worlds in which bounds for spells are tried."""
    apart, near, four = REGIMES
    return [
        *(ar_world(r, "given") for r in (0.0, 0.3, 0.5, 0.7)),
        *(ar_world(r) for r in (0.8, 0.9, 0.95)),
        *(regime_world(means, s, "given") for means in (apart, near, four) for s in (2, 3, 5)),
        *(regime_world(means, s, "refused") for means in (apart, near, four) for s in (10, 20, 40)),
        *(rare_world(0.1, s) for s in (3, 10)),
        *(seasonal_world(p, a) for p in (7, 30, 365) for a in (1, 3)),
    ]
