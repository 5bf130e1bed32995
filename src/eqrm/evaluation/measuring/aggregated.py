"""Measured risks from a table that is already aggregated: domain, n, mean, variance."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqrm.checks import is_missing
from eqrm.data.tables.frames import in_memory
from eqrm.domains import domain_names, named_domains
from eqrm.errors import DomainDataError
from eqrm.evaluation.measuring.measured_risks import MeasuredRisks
from eqrm.evaluation.measuring.metrics import as_numbers

LARGEST_COUNT = 2.0**53
"""Beyond it, a float64 cannot count."""


def risks_of_table(domains: Any, counts: Any, means: Any, variances: Any) -> MeasuredRisks:
    """One row per domain: n examples, the mean and the variance (divisor n − 1) of their losses.

    In SQL: ``SELECT domain, count(*) AS n, avg(loss) AS mean, var_samp(loss) AS variance
    FROM … GROUP BY domain``. The variance of a domain with one example is not looked at.

    >>> risks_of_table(["a", "b"], [2, 1], [0.5, 0.25], [0.5, None]).variances.tolist()
    [0.5, nan]
    >>> risks_of_table(["a", "b"], [2, 0], [0.5, 0.25], [0.5, 0.5])
    Traceback (most recent call last):
    ...
    eqrm.errors.DomainDataError: n must be a whole number of at least 1, but for domain 'b' ...
    """
    names = domain_names(in_memory(domains).tolist())
    n, mean, variance = (as_numbers(in_memory(v)) for v in (counts, means, variances))
    with np.errstate(invalid="ignore"):
        _refuse(
            names,
            n,
            ~((n >= 1) & (n == np.floor(n)) & np.isfinite(n)),
            "n must be a whole number of at least 1",
            "Leave out domains without examples",
        )
    _refuse(names, n, n > LARGEST_COUNT, "n must be at most 2^53", "Look for overflow in n")
    _refuse(
        names, mean, ~np.isfinite(mean), "mean must be a finite number",
        "Look for NaN or overflow among the losses of these domains",
    )  # fmt: skip
    several = n > 1
    with np.errstate(invalid="ignore"):
        wrong = several & ~(np.isfinite(variance) & (variance >= 0.0))
    _refuse(
        names, variance, wrong, "variance must be a finite number that is not negative",
        "Use the variance of the losses in the domain, var_samp in most SQL engines",
    )  # fmt: skip
    return MeasuredRisks.of(names, n.astype(np.int64), mean, np.where(several, variance, np.nan))


def refuse_missing_predictors(predictors: Any) -> None:
    """Raise for rows of a table per domain that do not say whose they are."""
    for position, name in enumerate(predictors.tolist()):
        if is_missing(name):
            raise DomainDataError(
                f"The predictor of row {position + 1} is missing. Name it or drop the row."
            )


def _refuse(names: list[Any], values: Any, wrong: Any, rule: str, advice: str) -> None:
    if wrong.any():
        positions = np.flatnonzero(wrong)
        found = [names[int(i)] for i in positions]
        raise DomainDataError(
            f"{rule}, but for {named_domains(found)} it is {values[positions[0]]:g}. {advice}."
        )
