"""Fuzzed risk vectors, in batches that are made from their seed alone.

A batch holds vectors of one kind, length, dtype, weighting and bandwidth, so that they are solved
as rows of one tensor as well as one by one, with the C part and without it
(:mod:`adversarial.roads`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import eqrm
from eqrm.distributions.bandwidths import BANDWIDTHS

Floats = npt.NDArray[np.float64]

ROWS = 200
"""Vectors in a batch."""

DTYPES = (torch.float64, torch.float64, torch.float64, torch.float32, torch.bfloat16, torch.float16)
LARGEST_EXPONENT = {torch.float64: 300.0, torch.float32: 37.0, torch.bfloat16: 37.0}
NEAR = 30.0
"""Exponents of ten up to which the magnitudes of three of four batches go; those of the others go
to the ends of their dtype."""
LOG_TAILS = (-20.0, -745.0, -1e3, -1e6, -1e15, -1e30)


@dataclass
class Batch:
    """Vectors and how their quantiles are asked for.

    Weights are (m,), or (rows, m) where each vector has its own.
    """

    seed: int
    kind: str
    risks: Tensor
    weights: Floats | None
    bandwidth: str | float
    levels: list[eqrm.Level]

    def __str__(self) -> str:
        weights = "" if self.weights is None else ", weighted"
        own = "" if self.weights is None or self.weights.ndim == 1 else " each in its own way"
        return (
            f"seed {self.seed}: {self.kind}, {tuple(self.risks.shape)} {self.risks.dtype}"
            f"{weights}{own}, {self.bandwidth}, {self.levels}"
        )

    def weights_of(self, place: int) -> Floats | None:
        """Those of one vector."""
        alike = self.weights is None or self.weights.ndim == 1
        return self.weights if self.weights is None or alike else self.weights[place]

    def part(self, places: npt.NDArray[np.intp]) -> Batch:
        """Some of the vectors."""
        weights = self.weights
        if weights is not None and weights.ndim == 2:
            weights = weights[places]
        return replace(self, risks=self.risks[torch.from_numpy(places)], weights=weights)


def _shapes(kind: str, rng: np.random.Generator, rows: int, m: int) -> Floats:
    """Rows of risks of one kind, of any size."""
    size = (rows, m)
    if kind == "log-normal":
        return rng.lognormal(size=size)
    if kind == "both signs":
        return rng.normal(size=size)
    if kind == "ties":
        return rng.integers(0, rng.integers(2, 5), size) * rng.normal(size=(rows, 1))
    if kind == "two values":
        values = rng.normal(size=(2, rows, 1))
        return np.where(rng.random(size) < rng.random(), *values)
    if kind == "equal":
        return np.broadcast_to(rng.normal(size=(rows, 1)), size).copy()
    if kind == "one outlier":
        risks = rng.normal(size=size)
        risks[:, rng.integers(m)] *= 10.0 ** rng.uniform(0.0, 20.0)
        return risks
    if kind == "nearly equal":
        return 1.0 + rng.integers(-3, 4, size) * np.finfo(np.float64).eps
    if kind == "any magnitude":
        return rng.choice([-1.0, 1.0], size) * 10.0 ** rng.uniform(-300.0, 0.0, size)
    if kind == "zeros":
        return np.where(rng.random(size) < 0.7, 0.0, rng.normal(size=size))
    return rng.integers(-9, 10, size) * math.ulp(0.0)


KINDS = (
    *("log-normal", "both signs", "ties", "two values", "equal", "one outlier"),
    *("nearly equal", "any magnitude", "zeros", "denormal"),
)


def _weights(rng: np.random.Generator, size: tuple[int, ...]) -> Floats | None:
    kind = rng.integers(7)
    if kind < 3:
        return None
    if kind == 3:
        return rng.random(size) + 1e-3
    if kind == 4:
        return 10.0 ** rng.uniform(-30.0, 0.0, size)
    if kind == 5:
        some = np.where(rng.random(size) < 0.3, 0.0, rng.random(size) + 1e-3)
        return some + np.eye(size[-1])[0]
    return np.full(size, 10.0 ** rng.uniform(-200.0, 200.0, (*size[:-1], 1)))


def _level(rng: np.random.Generator, m: int) -> eqrm.Level:
    kind = rng.integers(5)
    if kind == 0:
        return eqrm.Level(rng.uniform(1e-3, 1.0 - 1e-3))
    if kind == 1:  # where the quantile may fall between two risks
        return eqrm.Level(int(rng.integers(1, max(m, 2))) / max(m, 2))
    if kind == 2:
        return eqrm.Level(10.0 ** rng.uniform(-12.0, -1.0))
    if kind == 3:
        return eqrm.Level(log_tail=-(10.0 ** rng.uniform(-1.0, 4.0)))
    return eqrm.Level(log_tail=LOG_TAILS[rng.integers(len(LOG_TAILS))])


def batch_of(seed: int, rows: int = ROWS, mixed: bool = True) -> Batch:
    """The batch of a seed.

    Of ``mixed`` batches three quarters have magnitudes up to ``NEAR``, and half of the weighted
    ones have other weights in each row. Otherwise all have magnitudes up to the ends of their
    dtype, and the same weights in all rows.
    """
    rng = np.random.default_rng(seed)
    sizes, shares = (1, 2, 3, 5, 8, 20, 40, 150), (0.03, 0.12, 0.15, 0.2, 0.2, 0.15, 0.1, 0.05)
    m = int(rng.choice(sizes, p=shares))
    kind = KINDS[rng.integers(len(KINDS))]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    limit = LARGEST_EXPONENT.get(dtype, 4.0)
    if mixed and seed // 2 % 4:
        limit = min(limit, NEAR)
    risks = _shapes(kind, rng, rows, m)
    if kind != "denormal":
        largest = torch.finfo(dtype).max
        with np.errstate(over="ignore"):
            risks = risks * 10.0 ** rng.uniform(-limit, limit, (rows, 1))
        risks = np.clip(risks, -largest, largest)
    named = [*BANDWIDTHS, *BANDWIDTHS, "size", "any"]
    bandwidth: str | float = named[rng.integers(len(named))]
    if bandwidth == "size":
        size = min(max(float(np.abs(risks).max()), 1e-300), 1e300)
        bandwidth = size * 10.0 ** rng.uniform(-4.0, 1.0)
    elif bandwidth == "any":
        bandwidth = 10.0 ** rng.uniform(-limit, limit)
    levels = sorted((_level(rng, m) for _ in range(2)), key=lambda level: -level.log_tail)
    weights = _weights(rng, (rows, m) if mixed and seed // 8 % 2 else (m,))
    return Batch(seed, kind, torch.from_numpy(risks).to(dtype), weights, bandwidth, levels)
