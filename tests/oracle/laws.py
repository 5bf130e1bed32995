"""Laws of domain risks on which the quantile is compared with 50-digit arithmetic.

Fixed seeds: the same name, number of domains and seed always give the same risks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Risks = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Risks]

RELATIVE_SPREAD_OF_NEARLY_EQUAL = 1e-9


def _lognormal(rng: np.random.Generator, m: int) -> Risks:
    return np.exp(rng.standard_normal(m))


def _uniform(rng: np.random.Generator, m: int) -> Risks:
    return rng.uniform(0.0, 1.0, m)


def _pareto(rng: np.random.Generator, m: int) -> Risks:
    return 1.0 + rng.pareto(1.5, m)


def _student(rng: np.random.Generator, m: int) -> Risks:
    return 3.0 + rng.standard_t(2.0, m)


def _two_clusters(rng: np.random.Generator, m: int) -> Risks:
    """Half of the domains near 1, half near 5: the quantile may fall between them."""
    centres = np.where(np.arange(m) < (m + 1) // 2, 1.0, 5.0)
    return centres + 0.01 * rng.standard_normal(m)


def _outlier(rng: np.random.Generator, m: int) -> Risks:
    """One domain far from all others: with 1 - alpha = 1/m the quantile falls into the gap."""
    risks = 1.0 + 0.1 * rng.standard_normal(m)
    risks[rng.integers(m)] = 1000.0
    return risks


def _nearly_equal(rng: np.random.Generator, m: int) -> Risks:
    """Where training with a level near 1 ends up: a spread of 1e-9 of the risks' size."""
    return 0.7 * (1.0 + RELATIVE_SPREAD_OF_NEARLY_EQUAL * rng.standard_normal(m))


LAWS: dict[str, Draw] = {
    "lognormal": _lognormal,
    "uniform": _uniform,
    "pareto": _pareto,
    "student": _student,
    "two-cluster": _two_clusters,
    "outlier": _outlier,
    "nearly-equal": _nearly_equal,
}


def draw_risks(law: str, m: int, seed: int) -> Risks:
    """Return ``m`` risks of the named law.

    >>> draw_risks("uniform", 2, 0).shape
    (2,)
    """
    rng = np.random.default_rng([zlib.crc32(law.encode()), m, seed])
    return LAWS[law](rng, m)


def draw_weights(m: int, seed: int) -> Risks:
    """Return ``m`` unequal weights that do not sum to 1; every fourth is zero from m = 4 on."""
    rng = np.random.default_rng([zlib.crc32(b"weights"), m, seed])
    weights = rng.uniform(0.1, 2.0, m)
    weights[3::4] = 0.0
    return weights
