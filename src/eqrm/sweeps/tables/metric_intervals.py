"""Means of a metric over held-out domains, with the confidence intervals of evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean

import numpy as np

from eqrm.sweeps.tables.cells import SweepCell

COLUMNS = ("domains", "mean", "95% low", "95% high")
CONFIDENCE = 0.95


def interval_cells(
    metric: str, measured: Iterable[Mapping[str, float]], complete: bool
) -> tuple[SweepCell, ...]:
    """How many domains have a metric, its mean over them, and the interval of this mean.

    ``measured`` are the values by domain of every trial and set of held-out domains. The values of
    a domain are averaged first, so that it counts once. The interval is that of
    :meth:`eqrm.Evaluation.means`, for the mean over new domains like these; there is none where
    fewer than two domains have the metric.

    >>> [cell.text for cell in interval_cells("macro-f1", [{"a": 0.5}, {"a": 0.7}], True)]
    ['1', '60.0', '–', '–']
    """
    values = defaultdict(list)
    for each in measured:
        for domain, value in each.items():
            values[domain].append(value)
    means = {domain: fmean(values[domain]) for domain in sorted(values)}
    number = SweepCell(float(len(means)), complete=complete, printed=str(len(means)))
    if len(means) < 2:
        mean = fmean(means.values()) if means else None
        return number, *(SweepCell(v, None, 0, complete, True) for v in (mean, None, None))
    from eqrm.evaluation.evaluation import Evaluation  # slow to import
    from eqrm.risks import MeasuredRisks

    unknown = np.full(len(means), np.nan)
    risks = [1.0 - value for value in means.values()]
    found = MeasuredRisks.of(list(means), np.ones(len(means)), risks, unknown)
    cell = Evaluation({metric: found}, f"1 − {metric}", None).means(CONFIDENCE)[metric]
    limits = (cell.value, cell.low, cell.high)
    return number, *(SweepCell(value, None, 0, complete, True) for value in limits)
