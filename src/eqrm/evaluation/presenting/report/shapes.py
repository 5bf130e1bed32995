"""The curves of the report: step CDF with its band, and density, at few points for drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from eqrm.distributions.kernel import KDE
from eqrm.evaluation.inference.cdf_bands import cdf_band, spaced_ranks
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.evaluation.presenting.risk_curves import shared_grid, smooth_curve
from eqrm.evaluation.rounding import EQUAL, are_equal, digits_of_spread, significant

MOST_STEPS = 500
"""With more domains, the CDF is drawn at this many of its steps, dense near both ends."""
DENSITY_POINTS = 200
MOST_SMOOTHED = 20_000
"""With more domains, the density is that of this many evenly spaced order statistics."""
FAR = 12.0


def curve_shape(risks: Vector, confidence: float, steps: int = MOST_STEPS) -> dict[str, Any]:
    """The step CDF at some or all of its steps, its band there, and the density.

    >>> shape = curve_shape(np.array([0.1, 0.2, 0.4]), 0.95)
    >>> shape["risks"], shape["cdf"]
    ([0.1, 0.2, 0.4], [0.33333, 0.66667, 1.0])
    """
    band = cdf_band(risks, confidence)
    ranks = spaced_ranks(risks.size, steps)
    return {
        "risks": significant(band.risks[ranks - 1], digits_of_spread(risks)),
        "cdf": significant(ranks / risks.size),
        "lower": significant([band.lower[0], *band.lower[ranks]]),
        "upper": significant([band.upper[0], *band.upper[ranks]]),
        "method": band.method,
        "density": _density(band.risks),
    }


def smooth_law(risks: Vector) -> KDE | None:
    """The KDE behind the density; None where all risks are equal up to rounding.

    >>> smooth_law(np.array([0.5, 0.5])) is None
    True
    """
    if are_equal(risks):
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
    digits = digits_of_spread([low, high])
    return {"low": significant(low, digits), "high": significant(high, digits), "beyond": beyond}


def _density(ordered: Vector) -> dict[str, Any] | None:
    law = smooth_law(ordered)
    if law is None:
        return None
    grid = shared_grid(law, DENSITY_POINTS)
    curve = smooth_curve(law, "", grid)
    if curve.pdf is None or not curve.pdf.isfinite().all():  # risks below 1e-308
        return None
    start, stop = significant(grid[[0, -1]], digits_of_spread(ordered))
    return {"from": start, "to": stop, "pdf": significant(curve.pdf)}
