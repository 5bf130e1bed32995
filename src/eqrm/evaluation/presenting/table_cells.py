"""The columns of a risk table, declared in ``DECLARED``, and how their cells are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqrm.checks import one_of
from eqrm.distributions.equal_weights import INTERPOLATIONS, shares_of_ranks
from eqrm.domains import Name
from eqrm.evaluation.inference.comparison import (
    MEAN,
    QUANTILE,
    SMOOTH,
    SUPERQUANTILE,
    Difference,
    Interval,
    risk_intervals,
)
from eqrm.evaluation.inference.risk_checks import LevelLike, Vector, as_levels
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.evaluation.rounding import rounded_by_error
from eqrm.level import Level
from eqrm.risks import MeasuredRisks

WIDEST_HEADING = 60


@dataclass(frozen=True)
class Statistic:
    """A column of the table: the mean, or the quantile or superquantile at a level."""

    kind: str
    level: Level | None = None

    @property
    def label(self) -> str:
        """The column's heading."""
        return " ".join(self.heading).strip()

    @property
    def heading(self) -> tuple[str, str]:
        """The same in two lines."""
        return self.column.heading(self.level)

    @property
    def column(self) -> Column:
        """What is declared of all columns of its kind."""
        return DECLARED[self.kind]

    @classmethod
    def of(cls, found: Difference) -> Statistic:
        """What a difference is a difference of."""
        return cls(found.statistic, None if found.level is None else Level(found.level))


@dataclass(frozen=True)
class Cell:
    """A value with its confidence interval; an end is None where there are too few domains.

    ``needed`` is how many domains both ends need. ``error`` is the standard error that the value is
    rounded by, ``best`` marks the smallest value of the column.
    """

    value: float
    low: float | None
    high: float | None
    error: float | None
    best: bool = False
    needed: float | None = None

    @property
    def text(self) -> str:
        """The value with the digits that its uncertainty supports."""
        return rounded_by_error(self.error, self.value)[0]

    @property
    def starred(self) -> str:
        """The same with a star behind the best of a column, or room for one."""
        return f"{self.text}{'*' if self.best else ' '}"

    @property
    def ends(self) -> tuple[str, str] | None:
        """The ends of the interval with the same digits; an open end is a question mark."""
        if self.low is None and self.high is None:
            return None
        low, high = (
            "?" if end is None else rounded_by_error(self.error, self.value, end)[1]
            for end in (self.low, self.high)
        )
        return low, high

    @property
    def interval(self) -> str:
        """The interval in brackets; nothing where both ends are open."""
        return "" if self.ends is None else f"[{self.ends[0]}, {self.ends[1]}]"


def of_metric(cell: Cell) -> Cell:
    """The cell of a mean of 1 − metric as that of the metric, whose range is 0 to 1."""
    low = None if cell.high is None else max(0.0, 1.0 - cell.high)
    high = None if cell.low is None else min(1.0, 1.0 - cell.low)
    return Cell(1.0 - cell.value, low, high, cell.error, needed=cell.needed)


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
        error = self.standard_error
        return " ± ".join(rounded_by_error(error, self.risk, *([] if error is None else [error])))


def rows_of_cells(
    models: Mapping[str, MeasuredRisks],
    statistics: Sequence[Statistic],
    confidence: float,
    interpolation: str,
) -> dict[str, tuple[Cell, ...]]:
    """The cells of each model; with several, the smallest value per column is marked."""
    one_of(interpolation, (*INTERPOLATIONS, SMOOTH), "interpolation")
    found = {
        name: [s.column.cell(risks, s.level, confidence, interpolation) for s in statistics]
        for name, risks in models.items()
    }
    if len(found) > 1:
        for i in range(len(statistics)):
            least = min(row[i].value for row in found.values())
            for row in found.values():
                row[i] = replace(row[i], best=row[i].value == least)
    return {name: tuple(row) for name, row in found.items()}


def _cell(found: Interval) -> Cell:
    """A cell whose standard error is the one that a normal interval of this width would have."""
    value, z = found.value, -Level((1.0 - found.confidence) / 2.0).z
    low, high, needed = _finite(found.low), _finite(found.high), _finite(found.needed)
    if low is not None and high is not None:
        return Cell(value, low, high, (high - low) / (2.0 * z), needed=needed)
    end = low if high is None else high
    return Cell(value, low, high, None if end is None else abs(end - value) / z, needed=needed)


def _mean(risks: MeasuredRisks, _: None, confidence: float, _how: str) -> Cell:
    return _cell(risk_intervals(risks.risks, [], confidence)[0])


def _superquantile(risks: MeasuredRisks, level: Level, confidence: float, how: str) -> Cell:
    if level.tail == 0.0:
        return _quantile(risks, level, confidence, how)
    return _cell(risk_intervals(risks.risks, [level], confidence)[2])


def _quantile(risks: MeasuredRisks, level: Level, confidence: float, how: str) -> Cell:
    (value,) = quantiles_at(risks.risks, [level], how)
    of_the_risk = _finite(risks.standard_errors[int(np.abs(risks.risks - value).argmin())])
    if not 0.0 < level.alpha < 1.0:
        return Cell(value, None, None, of_the_risk)
    found = risk_intervals(risks.risks, [level], confidence)[1]
    cell = _cell(replace(found, value=value))
    if cell.low is None or cell.high is None:  # the one end may lie close by chance
        errors = [error for error in (cell.error, of_the_risk) if error is not None]
        return replace(cell, error=max(errors, default=None))
    return cell


def quantiles_at(
    risks: Vector, levels: Sequence[LevelLike], interpolation: str = "step"
) -> list[float]:
    """Quantiles of risks at several levels, as a table with this interpolation shows them."""
    if interpolation == SMOOTH:
        return [smooth_quantile(risks, level) for level in as_levels(levels)]
    ordered = np.sort(risks)
    shares = (shares_of_ranks(ordered.size, each, interpolation) for each in as_levels(levels))
    return [math.fsum(share * ordered[rank] for rank, share in each) for each in shares]


@dataclass(frozen=True)
class Column:
    """How columns of one kind are called and computed; "{}" in a name stands for the level.

    ``heading`` (two lines) and ``cell`` take the level, None where there is none. ``in_numbers`` is
    the name in the report's numbers, ``in_levels`` that in its table of levels; columns without
    the latter are not beside references either. ``meaning`` is said below the table.
    """

    heading: Callable[[Any], tuple[str, str]]
    cell: Callable[[MeasuredRisks, Any, float, str], Cell]
    in_latex: str
    in_numbers: str
    in_levels: str = ""
    meaning: str = ""


def _of_quantile(level: Level) -> tuple[str, str]:
    inner = round(level.alpha, 12) > 0.0 and level.tail > 0.0
    return (level.share_in_words, "below") if inner else ("", level.quantile_in_words)


def _of_superquantile(level: Level) -> tuple[str, str]:
    if not 1e-6 <= level.tail < 1.0:
        return "average", f"beyond {level}"
    return "average of", f"worst {Level(level.tail).share_in_words}"


DECLARED = {
    MEAN: Column(lambda _: ("", "average"), _mean, "Mean", "mean", "Mean"),
    QUANTILE: Column(
        _of_quantile,
        _quantile,
        "Quantile risk",
        "{}-quantile",
        "{}",
        "{} of these domains have at most this risk",
    ),
    SUPERQUANTILE: Column(
        _of_superquantile,
        _superquantile,
        "Superquantile risk",
        "mean beyond {}",
        meaning="over the domains of highest risk",
    ),
}
"""By the statistic's name in files, in the order of the table."""


def headings(statistics: Sequence[Statistic], others: Sequence[str] = ()) -> list[list[str]]:
    """The headings of a table with a line per model, in two lines where one is too wide.

    There is room for the star of the cells.
    """
    if sum(len(each.label) for each in statistics) <= WIDEST_HEADING:
        return [["model", *(f"{each.label} " for each in statistics), *others]]
    above, below = zip(*(each.heading for each in statistics), strict=True)
    return [
        ["", *(f"{text} " for text in above), *([""] * len(others))],
        ["model", *(f"{text} " for text in below), *others],
    ]


def worst_domains(risks: MeasuredRisks, number: int, best: bool = False) -> tuple[WorstDomain, ...]:
    """The domains of highest risk, the worst first; or those of lowest risk, the best first."""
    order = np.argsort(risks.risks if best else -risks.risks, kind="stable")[:number]
    return tuple(
        WorstDomain(
            risks.domains[int(i)],
            int(risks.counts[i]),
            float(risks.risks[i]),
            _finite(risks.standard_errors[i]),
        )
        for i in order
    )


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def rounded_difference(found: Difference) -> list[str]:
    """A difference and the ends of its interval, with the digits that its width supports.

    An open end is a question mark.
    """
    ends = rounded_by_error((found.high - found.low) / 4.0, found.value, found.low, found.high)
    return [text if text.strip("-") != "inf" else "?" for text in ends]
