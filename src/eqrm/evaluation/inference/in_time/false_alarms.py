"""How often the watch rings by mistake where neighbouring domains resemble each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eqrm.evaluation.inference.certificates import Certificate
from eqrm.evaluation.inference.in_time.watch import Watch
from eqrm.evaluation.rounding import as_percent
from eqrm.level import Level

CORRELATIONS = (0.1, 0.3, 0.5, 0.7)
WORLDS = 200
AT_ONCE = 1000
"""Domains of each interleaved test that are watched before it matters whether the alarm rang."""
_TOLD: dict[tuple[object, ...], str] = {}
"""Sentences by settings of the watch: each is simulated once, in some 0.7 s."""


def autoregressive(
    generator: np.random.Generator, worlds: int, domains: int, correlation: float
) -> npt.NDArray[np.float64]:
    """AR(1): standard normal risks (worlds, domains), neighbours with the given correlation."""
    from scipy.signal import lfilter

    noise = generator.normal(size=(worlds, domains))
    noise[:, 1:] *= np.sqrt(1.0 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))


def false_alarm_rate(
    watch: Watch, correlation: float, domains: int, worlds: int, generator: np.random.Generator
) -> float:
    """The share of AR(1) worlds in which a watch with these settings rings within ``domains``.

    A share α of the domains is within the bound, exactly: every alarm is a mistake.
    """
    known = Certificate(
        bound=Level(watch.alpha).z,
        confidence=watch.confidence,
        achieved=watch.confidence,
        domains=0,
        method="known",
        rank=0,
        alpha=watch.alpha,
    )
    rang = 0
    for _ in range(worlds):
        again = Watch(known, watch.delta, watch.dependence)
        rang += rings(again, autoregressive(generator, 1, domains, correlation)[0])
    return rang / worlds


def rings(watch: Watch, risks: npt.NDArray[np.float64]) -> bool:
    """Whether a new watch rings in the course of these risks (n,); it sees no more after that."""
    step = AT_ONCE * (watch.dependence + 1)
    return any(
        bool((watch.update_many(risks[first : first + step]) >= 1.0 / watch.delta).any())
        for first in range(0, risks.size, step)
    )


def false_alarms_in_words(
    watch: Watch, correlations: Sequence[float] = CORRELATIONS, domains: int = 1000
) -> str:
    """How the rate grows with the correlation of neighbours, as a sentence."""
    key = watch.alpha, watch.delta, watch.dependence, tuple(correlations), domains
    if key not in _TOLD:
        generator = np.random.default_rng(0)
        rates = [
            f"{as_percent(false_alarm_rate(watch, each, domains, WORLDS, generator))} at {each:g}"
            for each in correlations
        ]
        _TOLD[key] = (
            f"In {WORLDS} simulated worlds each (AR(1)), the share of false alarms within "
            f"{domains:,} domains grows with the correlation of neighbouring risks: "
            f"{', '.join(rates)}."
        )
    return _TOLD[key]
