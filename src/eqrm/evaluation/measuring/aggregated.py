"""Measured risks from a table that is already aggregated: domain, n, mean, variance.

Several rows of one domain (and predictor) are parts of its examples, such as one row per shard of a
large table, and are merged. Two tables are refused instead, because they are most likely mistakes
that would silently give wrong numbers:

- without a column of predictors, a table in which every domain has the same number of rows, all
  with the same n: this is what several predictors measured on the same examples look like;
- a table that holds every row more than once: a file that was read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqrm.checks import is_missing
from eqrm.data.tables.frames import in_memory
from eqrm.domains import domain_names, named_domains
from eqrm.errors import DomainDataError, Setting
from eqrm.evaluation.measuring.metrics import as_numbers
from eqrm.risks import MeasuredRisks

LARGEST_COUNT = 2.0**53
"""Above this, float64 cannot represent every integer."""
Numbers = NDArray[np.float64]


def risks_of_aggregates(
    domains: Any,
    counts: Any,
    means: Any,
    variances: Any,
    *,
    predictors: Any = None,
    part: bool = False,
) -> dict[str, MeasuredRisks]:
    """Rows of n examples with the mean and the variance (divisor n − 1) of their losses.

    In SQL: ``SELECT domain, count(*) AS n, avg(loss) AS mean, var_samp(loss) AS variance
    FROM … GROUP BY domain``. The variance of a row with one example is ignored. ``predictors``
    names the predictor of each row. A ``part`` of all rows may be of one domain.

    >>> risks_of_aggregates(["a", "b", "a"], [2, 1, 1], [0.5, 0.25, 0.8], [0.5, None, None])
    {'predictor': MeasuredRisks(domains=('a', 'b'), counts=array([3, 1]), risks=array([0.6 , ...
    >>> risks_of_aggregates(["a", "b"], [2, 0], [0.5, 0.25], [0.5, 0.5])
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: n must be an integer of at least 1, got 0 for domain 'b'. ...
    """
    names = np.array(domain_names(in_memory(domains).tolist()), dtype=object)
    numbers = [as_numbers(in_memory(values)) for values in (counts, means, variances)]
    _refuse_impossible(names, *numbers)
    if predictors is None:
        return {"predictor": _merged(names, *numbers, part=part, several=True)}
    of_row = np.array(_named(in_memory(predictors).tolist()), dtype=object)
    return {
        name: _merged(*(values[of_row == name] for values in (names, *numbers)), part=part)
        for name in dict.fromkeys(of_row.tolist())
    }


def _merged(
    names: NDArray[Any],
    n: Numbers,
    mean: Numbers,
    variance: Numbers,
    *,
    part: bool,
    several: bool = False,
) -> MeasuredRisks:
    """Rows of one predictor, or of ``several`` without a column that tells them apart."""
    place = {name: i for i, name in enumerate(dict.fromkeys(names.tolist()))}
    if len(place) < len(names):
        ids = np.array([place[name] for name in names.tolist()])
        _refuse_copies(np.stack([ids, n, mean, np.where(n > 1, variance, 0.0)]))
        if several:
            _refuse_predictors(ids, n)
    variance = np.where(n > 1, variance, np.nan)
    return MeasuredRisks.merged(names.tolist(), n, mean, variance, part=part)


def _refuse_copies(rows: Numbers) -> None:
    _, times = np.unique(rows, axis=1, return_counts=True)
    if times.min() > 1:
        raise DomainDataError(
            "Every row occurs more than once, with the same domain, n, mean and variance. Check "
            "whether a file was read or written twice, and remove the copies."
        )


def _refuse_predictors(ids: NDArray[np.int64], n: Numbers) -> None:
    rows, first = np.bincount(ids), np.unique(ids, return_index=True)[1]
    if rows.min() == rows.max() and (n == n[first][ids]).all():
        raise DomainDataError(
            f"Every domain has {rows[0]} rows with the same n, as if {rows[0]} predictors were "
            "measured on the same examples. Name the column that tells the predictors apart "
            f"({Setting('predictor', 'COLUMN')}). If the rows are parts of one predictor's "
            "examples, name a column that holds the predictor's name in every row."
        )


def _named(predictors: Sequence[Any]) -> list[str]:
    for position, name in enumerate(predictors):
        if is_missing(name):
            raise DomainDataError(
                f"The predictor of row {position + 1} is missing. Fill it in or drop the row."
            )
    return [str(name) for name in predictors]


def _refuse_impossible(names: NDArray[Any], n: Numbers, mean: Numbers, variance: Numbers) -> None:
    with np.errstate(invalid="ignore"):
        uncountable = ~((n >= 1) & (n == np.floor(n)) & np.isfinite(n))
        negative = (n > 1) & ~(np.isfinite(variance) & (variance >= 0.0))
    for values, wrong, rule, advice in (
        (n, uncountable, "n must be an integer of at least 1", "Leave out rows without examples"),
        (n, n > LARGEST_COUNT, "n must be at most 2^53", "Check n for overflow"),
        (
            mean,
            ~np.isfinite(mean),
            "mean must be a finite number",
            "Check the losses of these domains for NaN or overflow",
        ),
        (
            variance,
            negative,
            "variance must be a finite number of at least 0",
            "Use the variance of the losses in the row, var_samp in most SQL engines",
        ),
    ):
        if wrong.any():
            rows = np.flatnonzero(wrong)
            where = named_domains(list(dict.fromkeys(names[rows].tolist())))
            raise DomainDataError(f"{rule}, got {values[rows[0]]:g} for {where}. {advice}.")
