"""The curves of the report: step CDFs of the risks of models, and a band, at few points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqrm.evaluation.inference.cdf_bands import CdfBand, spaced_ranks
from eqrm.evaluation.inference.risk_checks import Vector
from eqrm.evaluation.rounding import EQUAL, digits_of_spread, significant

MOST_STEPS = 500
"""With more domains, the CDF is drawn at this many of its steps, dense near both ends."""
FAR = 12.0


def curve_shape(risks: Vector, steps: int = MOST_STEPS) -> dict[str, Any]:
    """The step CDF at some or all of its steps.

    >>> curve_shape(np.array([0.4, 0.1, 0.2]))
    {'risks': [0.1, 0.2, 0.4], 'cdf': [0.33333, 0.66667, 1.0]}
    """
    ranks = spaced_ranks(risks.size, steps)
    return {
        "risks": significant(np.sort(risks)[ranks - 1], digits_of_spread(risks)),
        "cdf": significant(ranks / risks.size),
    }


def band_shape(band: CdfBand, steps: int = MOST_STEPS) -> list[Any]:
    """The lower and the upper limits of a band at the same steps, and before the first.

    >>> from eqrm.evaluation.inference.cdf_bands import cdf_band
    >>> lower, upper = band_shape(cdf_band(np.array([0.1, 0.2, 0.4])))
    >>> len(lower), upper[-1]
    (4, 1.0)
    """
    ranks = [0, *spaced_ranks(band.risks.size, steps)]
    return [significant(limits[ranks]) for limits in (band.lower, band.upper)]


def view_of(all_risks: Sequence[Vector]) -> dict[str, Any]:
    """The risks that the axes span, and how many domains lie beyond their end.

    An axis that reached a far outlier would squeeze everything else: it ends at most twelve
    times as far beyond the median as the .95-quantile lies.

    >>> view_of([np.array([0.0, 1.0, 2.0])])["beyond"]
    0
    """
    ends = []
    for risks in all_risks:
        middle, far = np.quantile(risks, [0.5, 0.95])
        ends.append(float(middle + FAR * (far - middle)) if far > middle else np.inf)
    low = min(float(risks.min()) for risks in all_risks)
    high = min(max(float(risks.max()) for risks in all_risks), max(ends))
    room = 0.04 * (high - low)
    low, high = (max(low - room, 0.0) if low >= 0.0 else low - room), high + room
    if high - low <= EQUAL * max(abs(low), abs(high)):
        half = 0.5 * abs(low) or 0.5
        low, high = low - half, low + half
    beyond = max(int((risks > high).sum()) for risks in all_risks)
    digits = digits_of_spread([low, high])
    return {"low": significant(low, digits), "high": significant(high, digits), "beyond": beyond}
