"""From the records of a sweep to its tables: every dataset under every selection rule."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from eqrm.checks import check_all, one_of
from eqrm.distributions.equal_weights import equal_quantile
from eqrm.level import Level
from eqrm.sweeps.records import RunRecord
from eqrm.sweeps.selection import (
    ACCURACY,
    METRICS,
    RISK,
    SELECTION_RULES,
    TEST,
    Choice,
    SelectionRule,
    of_split,
    refuse_pooled_risk,
    reported,
)
from eqrm.sweeps.tables.cells import (
    AVERAGES,
    OVER_DOMAINS,
    PAPER,
    POOLED,
    QUANTILES,
    SelectedRun,
    SweepCell,
    SweepRow,
    SweepTable,
    SweepTables,
)
from eqrm.sweeps.tables.grid import DatasetGrid, dataset_grids
from eqrm.sweeps.tables.published import AVERAGE, with_published
from eqrm.text import counted, listed

LEVELS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
"""The quantiles of the paper's tables."""
INTERVAL_COLUMNS = ("domains", "mean", "95% low", "95% high")
CONFIDENCE = 0.95


@dataclass(frozen=True)
class TableSettings:
    """How tables are computed.

    ``metric`` is "accuracy", "risk" or another metric that was recorded (``training.metrics``);
    None is the accuracy of datasets that have it, else the risk. ``pooled`` reports that of all
    examples of the held-out domains, not its mean over them. ``published`` shows the paper's
    numbers.
    """

    metric: str | None = None
    quantiles: Sequence[float | str] = LEVELS
    published: bool = True
    pooled: bool = False

    def __post_init__(self) -> None:
        check_all(
            lambda: self.metric is None or one_of(self.metric, METRICS, "metric"),
            lambda: refuse_pooled_risk(self.metric, self.pooled),
            *(partial(Level.of, level) for level in self.quantiles),
        )


def sweep_tables(
    records: Iterable[RunRecord],
    rules: Mapping[str, SelectionRule] | None = None,
    settings: TableSettings | None = None,
    planned: Iterable[Mapping[str, Any]] = (),
) -> SweepTables:
    """Tabulate the records of a sweep under every selection rule.

    ``rules`` are by name, by default all of ``SELECTION_RULES``; those that judge by accuracy
    judge by risk where a dataset has no accuracies. ``planned`` are the places of runs that should
    have been recorded. A mean over held-out domains counts the trials that have all of them.
    """
    chosen = rules or {name: SELECTION_RULES.load(name)() for name in SELECTION_RULES}
    how = settings or TableSettings()
    grids = dataset_grids(records, planned)
    tabulated = [_Tabulated(grid, rule, chosen[rule], how) for grid in grids for rule in chosen]
    tables = [table for each in tabulated for table in each.tables()]
    tables += [t for rule in chosen if (t := _averages(tables, rule, grids, how)) is not None]
    return SweepTables(
        tables=tuple(tables),
        selected=tuple(found for each in tabulated for found in each.selected()),
        missing=tuple(line for grid in grids for line in grid.missing_lines()),
        unjudged=tuple(line for each in tabulated for line in each.unjudged()),
        runs=sum(len(grid.runs) for grid in grids),
    )


class _Tabulated:
    """One dataset under one rule."""

    def __init__(
        self, grid: DatasetGrid, name: str, rule: SelectionRule, settings: TableSettings
    ) -> None:
        self.grid, self.name, self.settings = grid, name, settings
        self.levels = [Level.of(level) for level in settings.quantiles]
        self.metric = settings.metric or _metric_of(grid)
        judged_by_risk = rule.metric == ACCURACY and self.metric == RISK
        self.rule = replace(rule, metric=RISK) if judged_by_risk else rule
        self.choices: dict[tuple[str, frozenset[str], int], Choice] = {
            (objective, held_out, trial): self.rule.select(
                grid.candidates(objective, held_out, trial)
            )
            for objective in grid.objectives
            for held_out in grid.columns
            for trial in grid.trials
        }
        self.values = {
            place: reported(choice.selected, place[1], self.metric, settings.pooled)
            for place, choice in self.choices.items()
            if choice.selected is not None
        }

    def tables(self) -> Iterator[SweepTable]:
        """The table of held-out domains, and that of quantiles where risks were recorded.

        A metric beside accuracy and risk also has one of its mean over domains, with intervals.
        """
        if all(choice.selected is None for choice in self.choices.values()):
            return
        pooled = POOLED if self.settings.pooled else ""
        columns = (*self.grid.columns.values(), AVERAGE)
        yield self._table(self.metric, columns, self._cells, pooled)
        if self.metric not in (ACCURACY, RISK):
            yield self._table(self.metric, INTERVAL_COLUMNS, self._interval_cells, OVER_DOMAINS)
        risks = {o: self._test_risks(o) for o in self.grid.objectives}
        if any(risks.values()):
            columns = ("mean", *map(str, self.levels))
            yield self._table(QUANTILES, columns, lambda o: self._quantile_cells(o, risks[o]))

    def selected(self) -> Iterator[SelectedRun]:
        """What the rule chose, in the order of the table."""
        for (objective, held_out, trial), choice in self.choices.items():
            if (found := choice.selected) is not None:
                yield SelectedRun(
                    dataset=self.grid.dataset,
                    rule=self.name,
                    objective=objective,
                    held_out=self.grid.columns[held_out],
                    trial=trial,
                    draw=found.run.draw,
                    step=found.checkpoint.step,
                    score=found.score,
                    value=self.values[objective, held_out, trial],
                    run=found.run.run,
                    settings=found.run.settings,
                )

    def unjudged(self) -> Iterator[str]:
        """The runs that could not be judged or reported, a line per reason."""
        runs: dict[str, list[str]] = defaultdict(list)
        for place, choice in self.choices.items():
            for run, reason in choice.unjudged.items():
                runs[reason].append(run)
            found = choice.selected
            if found is not None and self.values[place] is None:
                what = "all test examples" if self.settings.pooled else "every held-out domain"
                runs[f"selected, but without test {self.metric} of {what}"].append(found.run.run)
        for reason, names in runs.items():
            yield (
                f"{self.grid.dataset}, {self.rule.title}: {counted(len(names), 'run')} not "
                f"judged or reported: {reason} (runs {listed(names, 3)})"
            )

    def _table(
        self,
        content: str,
        columns: tuple[str, ...],
        cells: Callable[[str], tuple[SweepCell, ...]],
        form: str = "",
    ) -> SweepTable:
        place = content, self.grid.dataset, self.name, _title(self.rule)
        rows = tuple(SweepRow(o, cells(o)) for o in self.grid.objectives)
        own = SweepTable(*place, columns, rows, form)
        return with_published(own) if self.settings.published else own

    def _values(self, objective: str, held_out: frozenset[str]) -> dict[int, float]:
        """What is reported, by trial."""
        found = {t: self.values.get((objective, held_out, t)) for t in self.grid.trials}
        return {trial: value for trial, value in found.items() if value is not None}

    def _is_complete(self, objective: str, held_out: frozenset[str]) -> bool:
        return not any(
            (objective, held_out, trial) in self.grid.missing
            or self.choices[objective, held_out, trial].unjudged
            for trial in self.grid.trials
        )

    def _cells(self, objective: str) -> tuple[SweepCell, ...]:
        values = {held_out: self._values(objective, held_out) for held_out in self.grid.columns}
        whole = {h: self._is_complete(objective, h) for h in values}
        cells = [self._cell(list(v.values()), whole[h]) for h, v in values.items()]
        shared = [t for t in self.grid.trials if all(t in v for v in values.values())]
        averages = [statistics.fmean(v[trial] for v in values.values()) for trial in shared]
        return (*cells, self._cell(averages, all(whole.values())))

    def _cell(self, by_trial: Sequence[float], complete: bool, percent: bool = True) -> SweepCell:
        n = len(by_trial)
        value = statistics.fmean(by_trial) if n else None
        error = statistics.pstdev(by_trial) / math.sqrt(n) if n > 1 else None
        every = complete and n == len(self.grid.trials)
        return SweepCell(value, error, n, every, percent and self.metric != RISK)

    def _interval_cells(self, objective: str) -> tuple[SweepCell, ...]:
        """How many domains have the metric, its mean over them, and the interval of this mean.

        The values of a domain are averaged first, so that it counts once. The interval is that of
        :meth:`eqrm.Evaluation.means`, for the mean over new domains like these.
        """
        values = defaultdict(list)
        for (own, held_out, _), choice in self.choices.items():
            if own == objective and (chosen := choice.selected) is not None:
                for domain, value in of_split(chosen.checkpoint, self.metric, TEST).items():
                    if domain in held_out:
                        values[domain].append(value)
        means = {domain: statistics.fmean(values[domain]) for domain in sorted(values)}
        complete = all(self._is_complete(objective, held_out) for held_out in self.grid.columns)
        number = SweepCell(float(len(means)), complete=complete, printed=str(len(means)))
        if len(means) < 2:
            mean = statistics.fmean(means.values()) if means else None
            return number, *(SweepCell(v, None, 0, complete, True) for v in (mean, None, None))
        from eqrm.evaluation.evaluation import Evaluation  # slow to import
        from eqrm.risks import MeasuredRisks

        unknown = [math.nan] * len(means)
        risks = [1.0 - value for value in means.values()]
        found = MeasuredRisks.of(list(means), [1] * len(means), risks, unknown)
        cell = Evaluation({self.metric: found}, f"1 − {self.metric}", None).means(CONFIDENCE)
        limits = cell[self.metric].value, cell[self.metric].low, cell[self.metric].high
        return number, *(SweepCell(value, None, 0, complete, True) for value in limits)

    def _test_risks(self, objective: str) -> dict[int, list[float]]:
        """The risks of all held-out domains, by trial, of trials that have all of them."""
        found = {}
        for trial in self.grid.trials:
            risks: list[float] = []
            for held_out in self.grid.columns:
                selected = self.choices[objective, held_out, trial].selected
                known = selected.checkpoint.risks.get(TEST, {}) if selected else {}
                risks += [known[domain] for domain in sorted(held_out) if domain in known]
            if len(risks) == sum(map(len, self.grid.columns)):
                found[trial] = risks
        return found

    def _quantile_cells(
        self, objective: str, risks: Mapping[int, Sequence[float]]
    ) -> tuple[SweepCell, ...]:
        complete = all(self._is_complete(objective, held_out) for held_out in self.grid.columns)
        columns = [[statistics.fmean(each) for each in risks.values()]]
        columns += [[equal_quantile(each, at) for each in risks.values()] for at in self.levels]
        return tuple(self._cell(column, complete, percent=False) for column in columns)


def _metric_of(grid: DatasetGrid) -> str:
    """Accuracy where every run ends with accuracies on held-out domains."""
    ends = (run.checkpoints[-1].accuracies for run in grid.runs.values() if run.checkpoints)
    return ACCURACY if all(accuracies.get(TEST) for accuracies in ends) else RISK


def _title(rule: SelectionRule) -> str:
    alpha = getattr(rule, "alpha", None)
    level = "" if alpha is None else f", α = {alpha}"
    pooled = " of all examples" if getattr(rule, "pooled", False) else ""
    metric = "" if rule.metric in (ACCURACY, RISK) and not pooled else f" by {rule.metric}{pooled}"
    return f"{rule.title}{metric}{level}, {rule.checkpoints} checkpoint"


def _averages(
    tables: Sequence[SweepTable], rule: str, grids: Sequence[DatasetGrid], settings: TableSettings
) -> SweepTable | None:
    """The averages of all datasets whose accuracies are reported; None with fewer than two."""
    own = [t for t in tables if t.rule == rule and t.kind == ACCURACY]
    if len(own) < 2:
        return None
    averages = {
        table.dataset: {row.objective: row.cells[-1] for row in table.rows if row.source != PAPER}
        for table in own
    }
    objectives = dict.fromkeys(name for grid in grids for name in grid.objectives)
    rows = []
    for objective in objectives:
        nothing = SweepCell(None, complete=False)
        cells = [found.get(objective, nothing) for found in averages.values()]
        values = [cell.value for cell in cells if cell.value is not None]
        mean = statistics.fmean(values) if len(values) == len(cells) else None
        whole = all(cell.complete for cell in cells)
        trials = min(cell.trials for cell in cells)
        rows.append(SweepRow(objective, (*cells, SweepCell(mean, None, trials, whole, True))))
    columns = (*averages, AVERAGE)
    table = SweepTable(AVERAGES, "", rule, own[0].rule_title, columns, tuple(rows))
    return with_published(table) if settings.published else table
