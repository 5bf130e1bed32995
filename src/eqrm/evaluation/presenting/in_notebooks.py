"""How evaluations and comparisons show themselves: text, HTML, data frames, axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from eqrm.data.tables.frames import data_frame
from eqrm.evaluation.inference.comparison import MEAN, Difference
from eqrm.evaluation.measuring.set_metrics import DomainMetric
from eqrm.evaluation.presenting.table_cells import (
    Cell,
    Statistic,
    of_metric,
    rounded_difference,
    rows_of_cells,
)
from eqrm.markup import Shown, html_table, lines_in_html
from eqrm.risks import MeasuredRisks
from eqrm.text import aligned, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from eqrm.evaluation.presenting.risk_table import RiskTable


class ShownRisks(ABC):
    """How an evaluation shows itself."""

    models: Mapping[str, MeasuredRisks]
    metrics: Mapping[str, DomainMetric]

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What was measured, in one sentence."""

    @abstractmethod
    def risk_table(self) -> RiskTable:
        """Mean and quantiles of risk."""

    def __str__(self) -> str:
        return self.to_text(self.risk_table())

    def to_text(self, table: RiskTable, intervals: bool = True) -> str:
        """The sentence, metrics that are no means of losses if there are any, and a risk table."""
        if not self.metrics:
            return f"{self.sentence}\n\n{table.to_text(intervals)}"
        name = next(iter(self.metrics.values())).metric
        cells = self.means(table.confidence).values()
        rows = [
            ["", *map(one_line, self.metrics)],
            ["all examples", *(str(each.pooled) for each in self.metrics.values())],
            [f"mean of {table.domains:,} domains", *(cell.text for cell in cells)],
        ]
        if intervals and any(cell.interval for cell in cells):
            rows.append(["", *(cell.interval for cell in cells)])
        metrics = f"{name}, the higher the better\n{aligned(rows)}"
        risks = f"Risk is 1 − {name}\n{table.to_text(intervals)}"
        return "\n\n".join([self.sentence, metrics, risks])

    def means(self, confidence: float = 0.95) -> dict[str, Cell]:
        """The mean over domains of a metric that is no mean of losses, with its interval."""
        rows = rows_of_cells(self.models, [Statistic(MEAN)], confidence, "step")
        return {name: of_metric(cell) for name, (cell,) in rows.items()}

    def _repr_html_(self) -> str:
        """The sentence and the table of risks."""
        return f"{lines_in_html(self.sentence)}{self.risk_table()._repr_html_()}"

    def to_frame(self) -> DataFrame:
        """The risks as a data frame of pandas: a row per model and domain."""
        columns: dict[str, list[object]] = {
            name: [] for name in ("model", "domain", "risk", "examples", "variance")
        }
        for name, found in self.models.items():
            columns["model"] += [name] * len(found.domains)
            columns["domain"] += found.domains
            columns["risk"] += found.risks.tolist()
            columns["examples"] += found.counts.tolist()
            columns["variance"] += found.variances.tolist()
        return data_frame(columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of domains below each risk, a curve per model; returns the axes.

        At a height α the leftmost curve belongs to the model that is best for α. ``ax`` are
        axes of matplotlib, by default new ones.
        """
        from eqrm.evaluation.presenting.plots import draw_cdfs, given_or_new_axes

        axes = given_or_new_axes(ax)
        draw_cdfs(axes, self.models)
        return axes


class PairedComparison(dict[str, list[Difference]]):
    """Differences in risk to a baseline, by model; a dictionary that shows itself."""

    def __init__(self, baseline: str, differences: Mapping[str, list[Difference]]) -> None:
        super().__init__(differences)
        self.baseline = baseline

    def to_frame(self) -> DataFrame:
        """A row per model and statistic: both values, the difference and its interval."""
        rows = [
            {"model": name, "baseline": self.baseline, **each.to_dict()}
            for name, found in self.items()
            for each in found
        ]
        return data_frame({key: [row[key] for row in rows] for key in (rows[0] if rows else ())})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the differences with their intervals, a row per statistic; returns the axes."""
        from eqrm.evaluation.presenting.plots import draw_differences, given_or_new_axes

        axes = given_or_new_axes(ax)
        draw_differences(axes, self)
        axes.set_title(f"risk minus that of {self.baseline}", fontsize="medium")
        return axes

    def _repr_html_(self) -> str:
        """A row per statistic, a column per model; bold where the interval excludes 0."""
        rows: list[list[str | Shown]] = [["", *self]]
        for found in zip(*self.values(), strict=True):
            cells = []
            for each in found:
                value, low, high = rounded_difference(each)
                ends = "" if each.refused else f"[{low}, {high}]"
                cells.append(Shown(value, ends, best=each.clear))
            rows.append([Statistic.of(found[0]).label, *cells])
        note = (
            f"Risk minus that of {self.baseline}, paired by domain; negative: lower. Bold: the "
            "interval excludes 0. No brackets: too few domains for an interval."
        )
        return f"{html_table(rows)}{lines_in_html(note)}"
