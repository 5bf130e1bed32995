"""Which predictors of the paper's world have the same risk in every domain, by its closed form.

With s = β1 + β2 and t = β2 the risk in a domain is σ1²·a + σY²·b + σ2²·c (appendix G.1.2), where
a = (s − 1)², b = (t − 1)² and c = t². Equal risks in all domains are linear equations for a, b
and c, of as many dimensions as the variances differ in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pair = tuple[float, float]
NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class InvariantRisk:
    """The predictors (β1, β2) with the lowest risk among those with the same one everywhere."""

    predictors: tuple[Pair, ...]
    risk: float

    @property
    def status(self) -> str:
        """Unique, several, or none."""
        return ("none", "unique")[len(self.predictors)] if len(self.predictors) < 2 else "several"

    @property
    def coefficients(self) -> Pair | None:
        """The first of them."""
        return self.predictors[0] if self.predictors else None


def minimal_invariant_risk(variances: Floats) -> InvariantRisk:
    """From σ1², σY² and σ2² of each domain, (m, 3)."""
    _, sizes, rows = np.linalg.svd(variances[1:] - variances[0])
    rank = int((sizes > NEGLIGIBLE * variances.max()).sum())
    rows = np.where(np.abs(rows) < NEGLIGIBLE, 0.0, rows)
    found: list[tuple[float, float]] = []
    if rank == 1:
        found = list(_on_a_curve(rows[0], variances.mean(axis=0)))
    elif rank == 2:
        found = list(_on_a_ray(rows[2]))
    risks = [_risk(variances[0], *each) for each in found]
    least = min(risks, default=float("nan"))
    lowest = [p for p, r in zip(found, risks, strict=True) if r <= least + NEGLIGIBLE * (1 + least)]
    predictors = {(round(s - t, 12) + 0.0, round(t, 12) + 0.0) for s, t in lowest}
    return InvariantRisk(tuple(sorted(predictors)), least)


def _risk(variances: Floats, s: float, t: float) -> float:
    return float(variances @ [(s - 1.0) ** 2, (t - 1.0) ** 2, t**2])


def _on_a_ray(ray: Floats) -> Iterator[tuple[float, float]]:
    """(s, t) with (a, b, c) = k²·ray for some k: t − 1 = ±k√b and t = k√c leave one k each."""
    a, b, c = (ray if ray.sum() > 0.0 else -ray).tolist()
    if min(a, b, c) < 0.0:
        return
    for root in {b**0.5, -(b**0.5)} - {c**0.5}:
        k = 1.0 / (c**0.5 - root)
        yield from ((1.0 + sign * k * a**0.5, k * c**0.5) for sign in (1.0, -1.0))


def _on_a_curve(equation: Floats, mean: Floats) -> Iterator[tuple[float, float]]:
    """(s, t) on u·a + v·b + w·c = 0 at which the mean risk may be lowest."""
    u, v, w = equation.tolist()
    b, c = Polynomial([1.0, -2.0, 1.0]), Polynomial([0.0, 0.0, 1.0])
    rest = v * b + w * c
    if u == 0.0:
        yield from ((1.0, t) for t in _real_roots(rest))
        return
    a = rest * (-1.0 / u)
    risk = mean[0] * a + mean[1] * b + mean[2] * c
    for t in (*_real_roots(risk.deriv()), *_real_roots(a)):
        if a(t) >= -NEGLIGIBLE:
            root = max(float(a(t)), 0.0) ** 0.5
            yield from ((1.0 + sign * root, t) for sign in (1.0, -1.0))


def _real_roots(of: Polynomial) -> list[float]:
    return [float(root.real) for root in of.roots() if abs(root.imag) < NEGLIGIBLE]
