"""A leaderboard: any number of models, each trained once or several times, on the same domains.

Models are in the order of a quantile of their risk over domains. Where a model was trained several
times (with other seeds or other splits), its risk in a domain is the mean over its trainings, and
how far they lie apart is shown beside it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eqrm.data.tables.frames import data_frame
from eqrm.errors import DomainDataError, EqrmWarning
from eqrm.evaluation.evaluated_domains import paired
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.inference.comparison import SMOOTH, Difference, paired_differences
from eqrm.evaluation.inference.risk_checks import LevelLike, as_levels
from eqrm.evaluation.inference.sureness import smooth_quantile
from eqrm.evaluation.measuring.metrics import loss_in_words
from eqrm.evaluation.presenting.table_cells import Cell, rounded_difference
from eqrm.evaluation.rounding import as_percent
from eqrm.files.plain import plain_values
from eqrm.level import Level
from eqrm.markup import html_table, in_markdown, lines_in_html, markdown_table
from eqrm.risks import MeasuredRisks
from eqrm.text import aligned, counted, csv_text, listed, one_line

if TYPE_CHECKING:
    from pandas import DataFrame

LEVELS = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Standing:
    """One line: statistics of a model, their standard deviations over its trainings, and what
    separates its quantile from that of the first model (None for the first itself).

    ``seeds`` is the number of trainings.
    """

    place: int
    name: str
    seeds: int
    cells: tuple[Cell, ...]
    over_seeds: tuple[float, ...]
    behind: Difference | None


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Models by the ``alpha``-quantile of their risk; made by :meth:`of`.

    ``evaluation`` has the risks of the models, the mean over their trainings, on the domains that
    all of them were measured on; ``seeds`` those of each training.
    """

    alpha: Level
    quantiles: tuple[Level, ...]
    confidence: float
    evaluation: Evaluation
    seeds: Mapping[str, tuple[MeasuredRisks, ...]]
    left_out: int

    @classmethod
    def of(
        cls,
        models: Mapping[str, Sequence[MeasuredRisks]],
        metric: str,
        *,
        alpha: LevelLike = 0.9,
        quantiles: Sequence[LevelLike] = LEVELS,
        confidence: float = 0.95,
        common_domains: bool = False,
    ) -> Leaderboard:
        """The leaderboard of models by name, each with the risks of every training.

        They are compared on the same domains. Domains that one of them was not measured on are an
        error, or left out with ``common_domains=True``.
        """
        if not models:
            raise DomainDataError("A leaderboard needs at least one model, got none.")
        every = {
            f"{name} (training {number})" if len(seeds) > 1 else name: risks
            for name, seeds in models.items()
            for number, risks in enumerate(seeds, start=1)
        }
        measured = paired(every, common_domains).values()
        if len({tuple(each.counts) for each in measured}) > 1:
            warnings.warn(
                "The models were measured on different numbers of rows of the same domains.",
                EqrmWarning,
                stacklevel=2,
            )
        shared = iter(measured)
        seeds = {name: tuple(next(shared) for _ in given) for name, given in models.items()}
        first = next(iter(seeds.values()))[0]
        most = max(len(risks) for risks in every.values())
        asked = {*as_levels(quantiles), Level.of(alpha)}
        return cls(
            Level.of(alpha),
            tuple(sorted(asked)),
            confidence,
            Evaluation({name: _mean_over(given) for name, given in seeds.items()}, metric, None),
            seeds,
            most - len(first),
        )

    @cached_property
    def lines(self) -> list[Standing]:
        """The models, the lowest quantile first."""
        table = self.evaluation.risk_table(
            self.quantiles, [], confidence=self.confidence, worst=0, interpolation=SMOOTH
        )
        measured = self.evaluation.models
        order = sorted(measured, key=lambda n: smooth_quantile(measured[n].risks, self.alpha))
        return [
            Standing(
                place,
                name,
                len(self.seeds[name]),
                table.cells[name],
                self._over_seeds(name),
                None if place == 1 else self._behind(order[0], name),
            )
            for place, name in enumerate(order, start=1)
        ]

    def _behind(self, first: str, name: str) -> Difference:
        risks = (self.evaluation[first].risks, self.evaluation[name].risks)
        found = paired_differences(*risks, [self.alpha], self.confidence, interpolation=SMOOTH)
        return found[1]  # the quantile; the mean comes before it

    def _over_seeds(self, name: str) -> tuple[float, ...]:
        """The standard deviation of each statistic over trainings; NaN for one."""
        values = [
            [float(r.risks.mean()), *(smooth_quantile(r.risks, lv) for lv in self.quantiles)]
            for r in self.seeds[name]
        ]
        if len(values) < 2:
            return (math.nan,) * (1 + len(self.quantiles))
        return tuple(np.std(values, axis=0, ddof=1).tolist())

    @property
    def sentence(self) -> str:
        """Which models are best, as far as the domains can tell."""
        first, *others = self.lines
        about = (
            f"{one_line(first.name)} has the lowest {self.alpha}-quantile of "
            f"{loss_in_words(self.evaluation.loss)} over {len(self.evaluation.domains):,} domains"
        )
        if not others:
            return f"{about}: it is the only model."
        few = next((e.behind for e in others if e.behind and e.behind.refused), None)
        if few is not None:
            need = f" ({few.needed:.6g} needed)" if few.domains < few.needed < math.inf else ""
            return f"{about}. The domains are too few for intervals of differences there{need}."
        close = [one_line(e.name) for e in others if e.behind and not e.behind.clear]
        sure = f"{as_percent(self.confidence)} intervals of paired differences"
        if not close:
            return f"{about}, clearly lower than that of every other model ({sure})."
        return f"{about}. Not clearly higher ({sure}): {listed(close, 8)}."

    @property
    def notes(self) -> list[str]:
        """What else must be known to read the table."""
        told = []
        if any(line.seeds > 1 for line in self.lines):
            told.append(
                "sd: standard deviation over the trainings of a model; risks are their means."
            )
        if self.left_out:
            told.append(
                f"{counted(self.left_out, 'domain')} left out: not measured for all models."
            )
        told.append(
            f"{self.alpha.quantile_in_words}: the {self.alpha}-quantile of the risk of a domain "
            "(Harrell-Davis estimate). Last column: its difference from the first model, paired by "
            f"domain, with its {as_percent(self.confidence)} interval; ! where that excludes 0."
        )
        return told

    def table(self) -> list[list[str]]:
        """A header and a line per model, as shown."""
        several = any(line.seeds > 1 for line in self.lines)
        quantiles = (level.quantile_in_words for level in self.quantiles)
        trainings = ["trainings"] if several else []
        header = ["model", *trainings, "average", *quantiles, "behind the first"]
        rows = [
            [
                f"{line.place}. {one_line(line.name)}",
                *([str(line.seeds)] if several else []),
                *(
                    cell.text if math.isnan(apart) else f"{cell.text} (sd {apart:.2g})"
                    for cell, apart in zip(line.cells, line.over_seeds, strict=True)
                ),
                _behind_in_words(line.behind),
            ]
            for line in self.lines
        ]
        return [header, *rows]

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """The sentence, aligned columns, and notes."""
        return "\n".join([self.sentence, "", aligned(self.table()), "", *self.notes])

    def to_markdown(self) -> str:
        """The same as a Markdown table."""
        told = [in_markdown(line) for line in (self.sentence, *self.notes)]
        return "\n".join([told[0], "", markdown_table(self.table()), "", *told[1:]])

    def to_csv(self) -> str:
        """A line per model and statistic, with all digits."""
        records = self._records
        return csv_text([list(records[0]), *(row.values() for row in records)]).rstrip("\n")

    def to_frame(self) -> DataFrame:
        """The same as a data frame of pandas."""
        return data_frame({key: [row[key] for row in self._records] for key in self._records[0]})

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, ready for JSON; a missing number is None."""
        return {
            "alpha": str(self.alpha),
            "loss": self.evaluation.loss,
            "domains": len(self.evaluation.domains),
            "left_out": self.left_out,
            "confidence": self.confidence,
            "sentence": self.sentence,
            "models": self._records,
        }

    @cached_property
    def _records(self) -> list[dict[str, Any]]:
        """A row per model and statistic; a number that there is not is None."""
        found = []
        statistics = [("mean", None), *(("quantile", str(level)) for level in self.quantiles)]
        for line in self.lines:
            for (kind, level), cell, apart in zip(
                statistics, line.cells, line.over_seeds, strict=True
            ):
                behind = line.behind if level == str(self.alpha) else None
                gap = (None,) * 3 if behind is None else (behind.value, behind.low, behind.high)
                row: dict[str, Any] = {"place": line.place, "model": line.name, "seeds": line.seeds}
                row |= {"statistic": kind, "level": level, "value": cell.value}
                row |= {"low": cell.low, "high": cell.high, "over_seeds": apart}
                row |= zip(("behind", "behind_low", "behind_high"), gap, strict=True)
                found.append(plain_values(row, finite=True))
        return found

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        notes = lines_in_html("\n".join(self.notes))
        return f"{lines_in_html(self.sentence)}{html_table(self.table())}{notes}"


def _mean_over(seeds: Sequence[MeasuredRisks]) -> MeasuredRisks:
    """The mean of each domain's risk over trainings; counts and variances are those of one."""
    first = seeds[0]
    risks = np.mean([each.risks for each in seeds], axis=0)
    variances = np.mean([each.variances for each in seeds], axis=0)
    return MeasuredRisks(first.domains, first.counts, risks, variances)


def _behind_in_words(found: Difference | None) -> str:
    if found is None:
        return ""
    value, low, high = rounded_difference(found)
    return f"{value}{'!' if found.clear else ''} [{low}, {high}]" if not found.refused else value
