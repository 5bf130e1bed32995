"""The risk table: what the paper reports of a predictor over domains (§6.2), with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from eqrm.distributions.empirical import Empirical
from eqrm.domains import Name
from eqrm.errors import SettingError
from eqrm.evaluation.inference.comparison import (
    Interval,
    bootstrap_intervals,
    order_statistic_interval,
)
from eqrm.evaluation.inference.risk_checks import checked_confidence
from eqrm.evaluation.presenting.rounding import decimals, rounded
from eqrm.level import Level
from eqrm.risks import MeasuredRisks

MEAN, QUANTILE, SUPERQUANTILE = "mean", "quantile", "superquantile"


@dataclass(frozen=True)
class Statistic:
    """A column of the table: the mean, or the quantile or superquantile at a level."""

    kind: str
    level: Level | None = None

    @property
    def label(self) -> str:
        """The column's heading.

        >>> Statistic("quantile", Level(0.9)).label, Statistic("mean").label
        ('0.9', 'mean')
        """
        if self.level is None:
            return self.kind
        return str(self.level) if self.kind == QUANTILE else f"beyond {self.level}"


@dataclass(frozen=True)
class Cell:
    """A value with its confidence interval; an end is None where so few domains set none.

    ``error`` is the standard error that the value is rounded by, ``best`` marks the smallest
    value of the column.
    """

    value: float
    low: float | None
    high: float | None
    error: float | None
    best: bool = False

    @property
    def text(self) -> str:
        """The value with the digits that its uncertainty leaves."""
        return rounded(self.value, decimals(self.value, self.error))

    @property
    def interval(self) -> str:
        """The interval with the same digits; an open end is a question mark.

        >>> Cell(0.5234, 0.4711, None, 0.03).interval
        '[0.471, ?]'
        """
        places = decimals(self.value, self.error)
        ends = ["?" if end is None else rounded(end, places) for end in (self.low, self.high)]
        return "" if self.low is None and self.high is None else f"[{ends[0]}, {ends[1]}]"


@dataclass(frozen=True)
class WorstDomain:
    """A domain of high risk: its name, examples, risk and the sampling error of that risk."""

    domain: Name
    count: int
    risk: float
    standard_error: float | None

    @property
    def text(self) -> str:
        """Risk and sampling error, rounded by the error."""
        places = decimals(self.risk, self.standard_error)
        if self.standard_error is None:
            return rounded(self.risk, places)
        return f"{rounded(self.risk, places)} ± {rounded(self.standard_error, places)}"


@dataclass(frozen=True)
class RiskTable:
    """Mean, quantiles and superquantiles of the risk over domains, a row per predictor.

    ``cells[predictor]`` are in the order of ``statistics``; ``worst[predictor]`` are the
    domains of highest risk. Intervals of quantiles are exact (order statistics, any law);
    those of the mean and of superquantiles come from a bootstrap over domains, and have no
    upper end where fewer than ten domains are averaged. The quantiles at 0 and 1 are the
    smallest and largest risk measured: they have no interval.

    >>> import eqrm
    >>> found = eqrm.evaluate(domains=[0, 0, 1, 1, 2, 2], losses=[0.1, 0.2, 0.3, 0.5, 0.4, 1.0])
    >>> table = found.risk_table(levels=[0.5, 1], superquantiles=[])
    >>> [cell.text for cell in table.cells["predictor"]]
    ['0.42', '0.40', '0.70']
    >>> print(table.to_markdown(intervals=False))
    | predictor | mean | 0.5 | 1 |
    |---|---:|---:|---:|
    | predictor | 0.42 | 0.40 | 0.70 |
    """

    statistics: tuple[Statistic, ...]
    cells: Mapping[str, tuple[Cell, ...]]
    worst: Mapping[str, tuple[WorstDomain, ...]]
    domains: int
    confidence: float

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, intervals: bool = True) -> str:
        """Aligned columns for a terminal; the best value of a column has a star."""
        from eqrm.evaluation.presenting.table_formats import as_text

        return as_text(self, intervals)

    def to_markdown(self, intervals: bool = True) -> str:
        """A Markdown table; the best value of a column is bold."""
        from eqrm.evaluation.presenting.table_formats import as_markdown

        return as_markdown(self, intervals)

    def to_latex(self, intervals: bool = False) -> str:
        """The table of the paper's §6.2, for booktabs; the best value of a column is bold."""
        from eqrm.evaluation.presenting.table_formats import as_latex

        return as_latex(self, intervals)

    def to_csv(self) -> str:
        """A line per predictor and statistic, with all digits."""
        from eqrm.evaluation.presenting.table_formats import as_csv

        return as_csv(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, with all digits and as shown."""
        from eqrm.evaluation.presenting.table_formats import as_dict

        return as_dict(self)


def risk_table(
    predictors: Mapping[str, MeasuredRisks],
    levels: Sequence[Level],
    superquantiles: Sequence[Level],
    *,
    confidence: float,
    worst: int,
    interpolation: str,
    resamples: int,
    seed: int,
) -> RiskTable:
    """See :meth:`eqrm.Evaluation.risk_table`."""
    confidence = checked_confidence(confidence)
    if worst < 0 or worst != int(worst):
        raise SettingError(f"worst is a whole number of domains, but it is {worst}.")
    statistics = (
        Statistic(MEAN),
        *(Statistic(QUANTILE, level) for level in levels),
        *(Statistic(SUPERQUANTILE, level) for level in superquantiles),
    )
    maker = _Maker(confidence, interpolation, resamples, seed)
    rows = {name: maker.row(risks, statistics) for name, risks in predictors.items()}
    return RiskTable(
        statistics=statistics,
        cells=_with_best(rows),
        worst={name: _worst(risks, int(worst)) for name, risks in predictors.items()},
        domains=len(next(iter(predictors.values()))),
        confidence=confidence,
    )


@dataclass(frozen=True)
class _Maker:
    """Computes cells with one confidence, one kind of quantile and one bootstrap."""

    confidence: float
    interpolation: str
    resamples: int
    seed: int

    def row(self, risks: MeasuredRisks, statistics: Sequence[Statistic]) -> list[Cell]:
        law = Empirical(torch.from_numpy(risks.risks), interpolation=self.interpolation)
        levels = [s.level for s in statistics if s.kind == SUPERQUANTILE and s.level is not None]
        found = bootstrap_intervals(
            risks.risks, levels, self.confidence, resamples=self.resamples, seed=self.seed
        )
        means = dict(zip((None, *levels), (found[0], *found[1 + len(levels) :]), strict=True))
        return [
            self._quantile(risks, law, s.level)
            if s.level is not None and (s.kind == QUANTILE or s.level.tail == 0.0)
            else self._average(means[s.level])
            for s in statistics
        ]

    def _average(self, found: Interval) -> Cell:
        low, high = _finite(found.low), _finite(found.high)
        error = self._error_of(found.value, low, high)
        return Cell(found.value, low, high if found.reliable else None, error)

    def _quantile(self, risks: MeasuredRisks, law: Empirical, level: Level) -> Cell:
        value = float(law.quantile(level))
        nearest = int(np.abs(risks.risks - value).argmin())
        of_the_risk = _finite(risks.standard_errors[nearest])
        if not 0.0 < level.alpha < 1.0:
            return Cell(value, None, None, of_the_risk)
        ends = order_statistic_interval(risks.risks, level, self.confidence)
        low, high = (_finite(end) for end in ends)
        error = self._error_of(value, low, high)
        if low is None or high is None:  # the one end may lie close by chance
            error = max((e for e in (error, of_the_risk) if e is not None), default=None)
        return Cell(value, low, high, error)

    def _error_of(self, value: float, low: float | None, high: float | None) -> float | None:
        """The standard error that a normal interval of this width would have."""
        z = -Level((1.0 - self.confidence) / 2.0).z
        if low is not None and high is not None:
            return (high - low) / (2.0 * z)
        end = low if high is None else high
        return None if end is None else abs(end - value) / z


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _with_best(rows: Mapping[str, Sequence[Cell]]) -> dict[str, tuple[Cell, ...]]:
    """Mark the smallest value of each column, if there is more than one row."""
    if len(rows) < 2:
        return {name: tuple(row) for name, row in rows.items()}
    smallest = [min(cell.value for cell in column) for column in zip(*rows.values(), strict=True)]
    return {
        name: tuple(
            replace(cell, best=cell.value == least)
            for cell, least in zip(row, smallest, strict=True)
        )
        for name, row in rows.items()
    }


def _worst(risks: MeasuredRisks, number: int) -> tuple[WorstDomain, ...]:
    order = np.argsort(-risks.risks, kind="stable")[:number]
    return tuple(
        WorstDomain(
            risks.domains[int(i)],
            int(risks.counts[i]),
            float(risks.risks[i]),
            _finite(risks.standard_errors[i]),
        )
        for i in order
    )
