"""The curves of the report: step CDF with its band, and the density, thinned for drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from eqrm.distributions.kernel import KDE
from eqrm.evaluation.inference.cdf_bands import cdf_band
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.evaluation.presenting.risk_curves import shared_grid, smooth_curve

MOST_STEPS = 500
"""With more domains the CDF is drawn through so many of its steps, dense near both ends."""
DENSITY_POINTS = 200
MOST_SMOOTHED = 20_000
"""With more domains the density is that of so many evenly spaced order statistics."""
FAR = 12.0
EQUAL = 1e-12
"""Risks that differ by less, relatively, are drawn as one."""


def short(number: float, digits: int = 5) -> float:
    """A number with few digits, to keep the file small.

    >>> short(0.123456789)
    0.12346
    """
    return float(f"{number:.{digits}g}")


def shorts(numbers: Any, digits: int = 5) -> list[float]:
    """:func:`short` for many numbers."""
    return [short(number, digits) for number in np.asarray(numbers, dtype=np.float64).tolist()]


def all_equal(risks: Vector) -> bool:
    """Whether risks are the same up to the rounding of their sums."""
    return float(np.ptp(risks)) <= EQUAL * float(np.abs(risks).max())


def digits_of(risks: Any, digits: int = 5) -> int:
    """Digits that tell risks apart: ``digits`` of their spread, not of their distance from 0.

    >>> digits_of(np.array([0.1, 0.4])), digits_of(np.array([1000.001, 1000.009]))
    (5, 10)
    """
    spread, largest = float(np.ptp(risks)), float(np.abs(risks).max())
    if spread <= EQUAL * largest:
        return digits
    return min(17, digits + max(0, math.floor(math.log10(largest / spread))))


def shape_of(risks: Vector, confidence: float, steps: int = MOST_STEPS) -> dict[str, Any]:
    """The step CDF at some or all of its steps, its band there, and the density.

    >>> shape = shape_of(np.array([0.1, 0.2, 0.4]), 0.95)
    >>> shape["risks"], shape["cdf"]
    ([0.1, 0.2, 0.4], [0.33333, 0.66667, 1.0])
    """
    band = cdf_band(risks, confidence)
    ranks = drawn_ranks(risks.size, steps)
    return {
        "risks": shorts(band.risks[ranks - 1], digits_of(risks)),
        "cdf": shorts(ranks / risks.size),
        "lower": shorts([band.lower[0], *band.lower[ranks]]),
        "upper": shorts([band.upper[0], *band.upper[ranks]]),
        "method": band.method,
        "density": _density(band.risks),
    }


def drawn_ranks(domains: int, most: int = MOST_STEPS) -> Any:
    """Ranks from 1 to m, all or ``most`` of them, evenly in arcsin √p.

    >>> drawn_ranks(3).tolist(), len(drawn_ranks(10_000)) <= MOST_STEPS
    ([1, 2, 3], True)
    """
    if domains <= most:
        return np.arange(1, domains + 1)
    angles = np.linspace(0.0, np.pi / 2.0, max(most, 2))
    return np.unique(1 + np.rint((domains - 1) * np.sin(angles) ** 2).astype(np.int64))


def smooth_law(risks: Vector) -> KDE | None:
    """The KDE behind the density; None where all risks are equal up to rounding.

    >>> smooth_law(np.array([0.5, 0.5])) is None
    True
    """
    if all_equal(risks):
        return None
    ordered = np.sort(risks)
    if ordered.size > MOST_SMOOTHED:
        ordered = ordered[
            (np.arange(MOST_SMOOTHED) + 0.5).astype(int) * ordered.size // MOST_SMOOTHED
        ]
    return KDE(torch.from_numpy(ordered.copy()))


def view_of(all_risks: Sequence[Vector]) -> dict[str, Any]:
    """The risks that the axes span, and how many domains lie beyond their end.

    An axis that reached a far outlier would squeeze everything else: it ends at most twelve
    times as far beyond the median as the .95-quantile lies.

    >>> view_of([np.array([0.0, 1.0, 2.0])])["beyond"]
    0
    """
    lows, highs, ends = [], [], []
    for risks in all_risks:
        law = smooth_law(risks)
        grid = risks if law is None else shared_grid(law, 2).numpy()
        lows.append(min(float(risks.min()), float(grid.min())))
        highs.append(max(float(risks.max()), float(grid.max())))
        middle, far = np.quantile(risks, [0.5, 0.95])
        ends.append(float(middle + FAR * (far - middle)) if far > middle else np.inf)
    smallest = min(float(risks.min()) for risks in all_risks)
    low = max(min(lows), 0.0) if smallest >= 0.0 else min(lows)
    high = min(max(highs), max(ends))
    if high - low <= EQUAL * max(abs(low), abs(high)):
        half = 0.5 * abs(low) or 0.5
        low, high = low - half, low + half
    beyond = max(int((risks > high).sum()) for risks in all_risks)
    digits = digits_of([low, high])
    return {"low": short(low, digits), "high": short(high, digits), "beyond": beyond}


def _density(ordered: Vector) -> dict[str, Any] | None:
    law = smooth_law(ordered)
    if law is None:
        return None
    grid = shared_grid(law, DENSITY_POINTS)
    curve = smooth_curve(law, "", grid)
    if curve.pdf is None or not curve.pdf.isfinite().all():  # risks below 1e-308
        return None
    start, stop = shorts(grid[[0, -1]], digits_of(ordered))
    return {"from": start, "to": stop, "pdf": shorts(curve.pdf)}
