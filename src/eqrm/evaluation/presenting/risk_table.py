"""The risk table: what the paper reports of a model over domains (§6.2), in several formats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from eqrm.checks import CONFIDENCE, NON_NEGATIVE_INTEGER
from eqrm.data.tables.frames import data_frame
from eqrm.evaluation.inference.comparison import QUANTILE, SUPERQUANTILE
from eqrm.evaluation.measuring.measured import Skill
from eqrm.evaluation.presenting.table_cells import (
    DECLARED,
    Cell,
    Statistic,
    WorstDomain,
    headings,
    rows_of_cells,
    worst_domains,
)
from eqrm.evaluation.references import References
from eqrm.evaluation.rounding import as_percent, decimals, rounded
from eqrm.level import Level
from eqrm.markup import Shown, html_table, latex_table, lines_in_html, markdown_table
from eqrm.risks import MeasuredRisks
from eqrm.text import aligned, csv_text, one_line

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS: tuple[str, ...] = ("model", "statistic", "level", "value", "low", "high")
COLUMNS += ("standard_error", "best", "reference")
"""Of the table as CSV or data frame."""
FROM_MEDIAN = Level(0.5)
"""Beside references, quantiles are shown from this level on."""


@dataclass(frozen=True)
class RiskTable:
    """Mean, quantiles and superquantiles of the risk over domains, a row per model.

    ``cells[model]`` are in the order of ``statistics``; ``worst[model]`` are the
    domains of highest risk. Intervals have no end where there are too few domains. The quantiles
    at 0 and 1 are the smallest and largest risk measured: they have no interval.
    ``reference_cells`` and ``skills`` are those of references, where they are known; the lowest
    value of a column is marked among all. ``interpolation`` is how quantiles were computed.
    """

    statistics: tuple[Statistic, ...]
    cells: Mapping[str, tuple[Cell, ...]]
    worst: Mapping[str, tuple[WorstDomain, ...]]
    domains: int
    confidence: float
    reference_cells: Mapping[str, tuple[Cell, ...]] = field(default_factory=dict)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    interpolation: str = "step"

    @classmethod
    def of(
        cls,
        models: Mapping[str, MeasuredRisks],
        levels: Sequence[Level],
        superquantiles: Sequence[Level],
        *,
        confidence: float,
        worst: int,
        interpolation: str,
        references: References | None = None,
    ) -> RiskTable:
        """Compute the table of several models; see :meth:`eqrm.Evaluation.risk_table`."""
        CONFIDENCE.check(confidence, "confidence")
        NON_NEGATIVE_INTEGER.check(worst, "worst")
        asked: dict[str, Sequence[Level | None]]
        asked = {QUANTILE: levels, SUPERQUANTILE: superquantiles}
        statistics = tuple(Statistic(k, level) for k in DECLARED for level in asked.get(k, [None]))
        beside = {} if references is None else references.risks
        cells = rows_of_cells({**models, **beside}, statistics, confidence, interpolation)
        return cls(
            statistics=statistics,
            cells={name: cells[name] for name in models},
            worst={name: worst_domains(risks, worst) for name, risks in models.items()},
            domains=len(next(iter(models.values()))),
            confidence=confidence,
            reference_cells={name: cells[name] for name in beside},
            skills={} if references is None else references.skills,
            interpolation=interpolation,
        )

    @property
    def all_cells(self) -> dict[str, tuple[Cell, ...]]:
        """Of models and references."""
        return {**self.cells, **self.reference_cells}

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, intervals: bool = True) -> str:
        """Aligned columns for a terminal; the best value of a column has a star.

        With intervals there is a line per statistic, which fits a terminal; without, a line per
        model. Below are what the columns mean and the worst domains.
        """
        if intervals:
            rows = [["", *(part for name in self.cells for part in (one_line(name), ""))]]
            for statistic, *row in zip(self.statistics, *self.cells.values(), strict=True):
                rows.append([statistic.label, *(t for c in row for t in (c.starred, c.interval))])
        else:
            rows = headings(self.statistics)
            rows += [[one_line(n), *(c.starred for c in own)] for n, own in self.cells.items()]
        parts = [aligned(rows), self._legend(intervals)]
        if self.reference_cells:
            table = aligned(self.beside_references())
            parts.append(f"Beside references, cross-fitted over domains (* the lowest):\n{table}")
        for name, domains in self.worst.items():
            if domains:
                rows = [[f"  {one_line(str(d.domain))}", d.text, f"n = {d.count}"] for d in domains]
                errors = any(d.standard_error is not None for d in domains)
                heading = f"Worst domains of {one_line(name)}{' (± standard error)' * errors}:"
                parts.append(f"{heading}\n{aligned(rows)}")
        return "\n\n".join(parts)

    def beside_references(self) -> list[list[str]]:
        """Headings, and a line per model and reference: mean, quantiles from the median on
        (with the same decimals), and skill."""
        kept = [
            i
            for i, s in enumerate(self.statistics)
            if s.column.in_levels and (s.level is None or not s.level < FROM_MEDIAN)
        ]
        cells = {name: [row[i] for i in kept] for name, row in self.all_cells.items()}
        smallest = min(abs(cell.value) for row in cells.values() for cell in row)
        places = max(decimals(smallest, None), 0)
        lines = headings([self.statistics[i] for i in kept], self.kinds_of_skill)
        for name, row in cells.items():
            values = [f"{rounded(cell.value, places)}{'*' if cell.best else ' '}" for cell in row]
            lines.append([one_line(name), *values, *self.skill_of(name)])
        return lines

    @property
    def kinds_of_skill(self) -> list[str]:
        """What is known of the skill of any model or reference, such as AUC."""
        return list(dict.fromkeys(kind for skill in self.skills.values() for kind in skill.named))

    def skill_of(self, name: str) -> list[str]:
        """The skill of a model or reference: three decimals, nothing where it is not known."""
        own = self.skills[name].named if name in self.skills else {}
        found = [own.get(kind) for kind in self.kinds_of_skill]
        return ["" if v is None or math.isnan(v) else f"{v:.3f}" for v in found]

    def _legend(self, intervals: bool, star: str = "*") -> str:
        words = [f"Risk over {self.domains} domains; lower is better.{self._explained()}"]
        if intervals:
            words.append(
                f"In brackets: {as_percent(self.confidence)} confidence intervals, if domains are "
                f"independent; ? where there are too few for a limit{self._needed()}."
            )
        if self.reference_cells:
            words.append(f"{star} the lowest, references included.")
        elif len(self.cells) > 1:
            words.append(f"{star} the lowest of the models.")
        return "\n".join(words)

    def _explained(self) -> str:
        """What a quantile is, by the one nearest to 0.9."""
        told = ""
        for kind, column in DECLARED.items():
            levels = [s.level for s in self.statistics if s.kind == kind and s.level]
            if inner := [level for level in levels if 0.0 < level.alpha < 1.0]:
                level = min(inner, key=lambda level: abs(level.alpha - 0.9))
                meaning = column.meaning.format(level.share_in_words)
                told += f' "{Statistic(kind, level).label}": {meaning} (the {level}-{kind}).'
        return told

    def _needed(self) -> str:
        """How many domains the limits need that are not given."""
        open_ends = {
            s.heading[1] if s.kind == SUPERQUANTILE else s.label: cell.needed
            for cells in self.all_cells.values()
            for s, cell in zip(self.statistics, cells, strict=True)
            if None in (cell.low, cell.high) and cell.needed and self.domains < cell.needed
        }
        told = ", ".join(f"{label}: {needed:.6g}" for label, needed in open_ends.items())
        return f" (needed for {told})" if told else ""

    def _rows(self, intervals: bool, skills: bool) -> list[list[str | Shown]]:
        """Headings, and a row per model and reference, whose names are quiet."""
        kinds = self.kinds_of_skill if skills else []
        found: list[list[str | Shown]] = [
            ["model", *(statistic.label for statistic in self.statistics), *kinds]
        ]
        for name, cells in self.all_cells.items():
            called = Shown(one_line(name), quiet=name in self.reference_cells)
            shown = [Shown(c.text, c.interval if intervals else "", c.best) for c in cells]
            found.append([called, *shown, *(self.skill_of(name) if skills else [])])
        return found

    def to_markdown(self, intervals: bool = True) -> str:
        """A Markdown table with intervals in small print; the best value of a column is bold.

        Names of references are in italics.
        """
        return markdown_table(self._rows(intervals, skills=True))

    def to_latex(self, intervals: bool = False) -> str:
        """The layout of the paper's Tables 2 and 3 (needs booktabs and multirow); best in bold."""
        titles, rules, labels = [r"\multirow{2}{*}{Alg.}"], [], [""]
        for column, group in groupby(self.statistics, lambda s: s.column):
            levels = ["" if s.level is None else str(s.level) for s in group]
            if any(levels):
                titles.append(rf"\multicolumn{{{len(levels)}}}{{c}}{{{column.in_latex}}}")
                rules.append(rf"\cmidrule(lr){{{len(labels) + 1}-{len(labels) + len(levels)}}}")
            else:
                titles.append(rf"\multirow{{2}}{{*}}{{{column.in_latex}}}")
            labels += levels
        head = [
            " & ".join(titles) + r" \\ " + " ".join(rules),
            " & ".join(labels).strip() + r" \\",
        ]
        return latex_table(self._rows(intervals, skills=False), head)

    def to_csv(self) -> str:
        """A line per model and statistic, with all digits."""
        rows = [[int(v) if isinstance(v, bool) else v for v in row] for row in self._records()]
        return csv_text([COLUMNS, *rows]).rstrip("\n")

    def to_frame(self) -> DataFrame:
        """The same as a data frame of pandas; what there is not is missing."""
        columns = zip(*self._records(), strict=True)
        return data_frame(dict(zip(COLUMNS, map(list, columns), strict=True)))

    def _records(self) -> Iterator[list[Any]]:
        """A row per model and statistic, and per measure of skill, as in ``COLUMNS``."""
        for name, cells in self.all_cells.items():
            reference = name in self.reference_cells
            for statistic, cell in zip(self.statistics, cells, strict=True):
                level = None if statistic.level is None else str(statistic.level)
                numbers = [cell.value, cell.low, cell.high, cell.error]
                yield [name, statistic.kind, level, *numbers, cell.best, reference]
            for kind, value in (self.skills[name].named if name in self.skills else {}).items():
                yield [name, kind, None, value, None, None, None, None, reference]

    def _repr_html_(self) -> str:
        """A table for a notebook: the lowest value of a column is bold, references in italics."""
        legend = lines_in_html(self._legend(True, star="Bold:"))
        return f"{html_table(self._rows(intervals=True, skills=False))}{legend}"

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, with all digits and as shown."""
        return {
            "domains": self.domains,
            "confidence": self.confidence,
            "models": {
                name: {
                    "statistics": list(map(_cell_dict, self.statistics, cells)),
                    "worst": [_worst_dict(domain) for domain in self.worst[name]],
                }
                for name, cells in self.cells.items()
            },
            "references": {
                name: list(map(_cell_dict, self.statistics, cells))
                for name, cells in self.reference_cells.items()
            },
            "skills": {name: skill.to_dict() for name, skill in self.skills.items()},
        }


def _cell_dict(statistic: Statistic, cell: Cell) -> dict[str, Any]:
    level = None if statistic.level is None else str(statistic.level)
    found = {"statistic": statistic.kind, "level": level, **asdict(cell)}
    found["standard_error"] = found.pop("error")
    return {**found, "text": cell.text, "interval": cell.interval}


def _worst_dict(domain: WorstDomain) -> dict[str, Any]:
    found = {**asdict(domain), "n": domain.count, "text": domain.text}
    del found["count"]
    return found
