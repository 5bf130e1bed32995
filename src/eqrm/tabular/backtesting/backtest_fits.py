"""The job of ``eqrm backtest`` on a table: fit on the past, certify, and judge on what came.

Every window's predictors are those that ``eqrm train`` fits. A fit takes the longest, so the risks
of each are kept in a file as soon as they are known: a backtest that was stopped goes on with the
next one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import eqrm
from eqrm.checks import one_of
from eqrm.data.tables.table import Table
from eqrm.data.tables.task import AUTO, Task
from eqrm.data.windows import Places
from eqrm.errors import DataFileError, DomainDataError, EqrmError, SettingError
from eqrm.evaluation.backtesting.backtest import Backtest, judged_backtest
from eqrm.evaluation.backtesting.plan import BacktestPlan
from eqrm.evaluation.backtesting.rules import Array
from eqrm.evaluation.backtesting.windows import (
    BacktestWindow,
    OrderedDomains,
    short_windows,
    windows_of,
)
from eqrm.evaluation.measuring.constants import BASE_RATE, MEAN, guess_name
from eqrm.files.checked_json import read_checked_json, write_checked_json
from eqrm.level import Level
from eqrm.tabular.backtesting.window_fits import fit_window, trained_name
from eqrm.tabular.model import new_estimator
from eqrm.tabular.plan import TrainingPlan
from eqrm.text import counted

FORMAT = "eqrm backtest fit 1"
FITS = "fits"
"""The folder with the risks of each fit."""
WORST = "worst"
MINIMISED = {"auto": "auto", "quantile": "EQRM", "superquantile": "superquantile", WORST: WORST}
"""What may be minimised for a level → what tables call it."""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class FitSettings:
    """What is fitted in every window: ERM, and for each level what ``minimised`` says.

    "auto" chooses by cross-fitting what is minimised for a level, as ``eqrm train`` does;
    "quantile" is EQRM at the level itself, "superquantile" the mean risk of the worst share 1−α,
    "worst" the largest risk. The rest is as in :class:`~eqrm.tabular.plan.TrainingPlan`.
    """

    levels: tuple[Level, ...] = (Level(0.9),)
    minimised: tuple[str, ...] = ("auto",)
    model: str = "linear"
    task: str = AUTO
    seed: int = 0
    settings: Mapping[str, Any] | None = None
    unseen: str = "warn"

    def plans(self) -> dict[str, TrainingPlan]:
        """A training plan for each way, checked."""
        shared = {
            name: getattr(self, name) for name in ("model", "task", "seed", "settings", "unseen")
        }
        return {
            way: TrainingPlan.of(
                None if way == WORST else self.levels,
                measure="quantile" if one_of(way, MINIMISED, "measure") == "auto" else way,
                surrogate="auto" if way == "auto" else "none",
                **shared,
            )
            for way in dict.fromkeys(self.minimised)
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "levels": [str(level) for level in self.levels]}


def backtest_table(
    table: Table,
    plan: BacktestPlan,
    fit: FitSettings | None = None,
    *,
    folder: Path | None = None,
    progress: Progress = lambda what: None,
) -> Backtest:
    """Backtest the predictors that ``eqrm train`` fits, on domains in the order of time.

    In each window they are trained on the first ``plan.train`` domains, certified on the next and
    judged on those after; with ``refit="never"`` they are trained in the first window only.
    Everything that can be refused is refused before the first fit. ``folder`` keeps the risks of
    each fit, and those of the same fit on the same table are read from there.

    >>> rng = np.random.default_rng(0)
    >>> x, day = rng.normal(size=1200), np.repeat(np.arange(120), 10)
    >>> table = Table({"x": x}, x + rng.normal(size=1200), day)
    >>> plan = BacktestPlan.of(train=40, certify=40, judge=20, levels=[0.9])
    >>> found = backtest_table(table, plan, FitSettings(minimised=("quantile",)))
    >>> found.predictors
    ('mean', 'ERM', 'ERM recalibrated for 0.9', 'EQRM for 0.9')
    """
    if plan.train is None:
        raise SettingError("train is required: the number of domains to fit on in each window.")
    fit = fit or FitSettings()
    plans = fit.plans()
    domains = _ordered(table)
    windows = windows_of(plan, domains)
    kind = _checked_task(table, fit, plans, domains, windows)
    store = FittedRisks(table, domains, plans, fit, folder)
    parts = {_key(window): window for window in windows}
    known = {}
    for number, (key, window) in enumerate(parts.items(), start=1):
        progress(f"fitting window {number} of {len(parts)}")
        known[key] = store.risks(window)
    return judged_backtest(
        plan,
        domains,
        windows,
        lambda window: known[_key(window)],
        kind.metric,
        references=(BASE_RATE, guess_name(len(kind.classes))) if kind.classes else (MEAN,),
        notes=store.notes,
    )


def before_fitting(plan: BacktestPlan, table: Table) -> tuple[int, list[str]]:
    """How many times predictors are fitted, and which windows are too short for a bound."""
    windows = windows_of(plan, _ordered(table))
    return len({_key(window) for window in windows}), short_windows(windows)


def _ordered(table: Table) -> OrderedDomains:
    order = table.domain_name if table.order is None else table.order_name
    return OrderedDomains.of(table.numbered_domains, table.order, order)


def _key(window: BacktestWindow) -> bytes:
    """Windows with the same key are trained on the same domains."""
    return np.sort(trained_in(window)).tobytes()


def _checked_task(
    table: Table,
    fit: FitSettings,
    plans: Mapping[str, TrainingPlan],
    domains: OrderedDomains,
    windows: Sequence[BacktestWindow],
) -> Task:
    """The task of the whole table; refused is what no window can learn, all windows at once."""
    task = Task.of(table.target, fit.task)
    for way in plans.values():
        new_estimator(way.model, task, None, way.seed, way.settings, way.measure)
    ids, problems = table.numbered_domains.ids, {}
    for window in {_key(window): window for window in windows}.values():
        trained = np.isin(ids, trained_in(window))
        later = np.isin(ids, later_than(domains, window))
        try:
            Task.of(table.target[trained], task.kind).labels(table.target[later])
        except DomainDataError as error:
            problems[window.number] = str(error)
    if problems:
        said = [f"Window {number}: {text}" for number, text in problems.items()]
        raise DomainDataError(f"{' '.join(said[:3])} Use longer windows to train on.")
    return task


def trained_in(window: BacktestWindow) -> Places:
    """The numbers of the domains that a window is trained on."""
    if window.train is None:
        raise TypeError("a window without training domains has nothing to fit")
    return window.train


def later_than(domains: OrderedDomains, window: BacktestWindow) -> Places:
    """The numbers of all domains that begin after the last row that a window is trained on."""
    spans = domains.spans
    return np.flatnonzero(spans.first > spans.last[trained_in(window)].max())


class FittedRisks:
    """Fits the predictors of windows, and keeps their risks on all later domains."""

    def __init__(
        self,
        table: Table,
        domains: OrderedDomains,
        plans: Mapping[str, TrainingPlan],
        fit: FitSettings,
        folder: Path | None,
    ) -> None:
        self.table, self.domains, self.plans = table, domains, plans
        self.folder = None if folder is None else folder / FITS
        self.notes: list[str] = []
        self._about = {"table": _digest(table), "fit": fit.to_dict(), "version": eqrm.__version__}

    def risks(self, window: BacktestWindow) -> dict[str, Array]:
        """The risks (m,) of each predictor, NaN on domains that are not later."""
        content = json.dumps([self._about, np.sort(trained_in(window)).tolist()], sort_keys=True)
        name = hashlib.sha256(content.encode()).hexdigest()[:20]
        path = None if self.folder is None else self.folder / f"{name}.json"
        found = None if path is None else _read(path)
        if found is None:
            found = self._fitted(window)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_checked_json(path, FORMAT, found)
        place = {str(name): number for number, name in enumerate(self.domains.names)}
        self.notes += [note for note in found["notes"] if note not in self.notes]
        risks = {}
        for predictor, values in found["risks"].items():
            risks[predictor] = np.full(len(place), np.nan)
            risks[predictor][[place[each] for each in found["domains"]]] = values
        return risks

    def _fitted(self, window: BacktestWindow) -> dict[str, Any]:
        names = [str(name) for name in self.domains.names]
        train = self.table.in_domains([names[i] for i in trained_in(window)])
        later = self.table.in_domains([names[i] for i in later_than(self.domains, window)])
        found: dict[str, Any] = {"domains": list(later.domain_names), "risks": {}, "notes": []}
        for way, plan in self.plans.items():
            try:
                fits = fit_window(train, later, plan)
            except EqrmError as error:
                raise DomainDataError(f"Window {window.number}: {error}") from error
            names_of = {trained_name(level): _named(way, level) for level in plan.levels}
            for name, one in fits.predictors.items():
                place = {str(domain): i for i, domain in enumerate(one.domains)}
                own = one.risks[[place[each] for each in found["domains"]]]
                found["risks"].setdefault(names_of.get(name, name), own.tolist())
            found["notes"] += [note for note in fits.notes if note not in found["notes"]]
        return found


def _named(way: str, level: Level) -> str:
    """What a predictor trained for a level is called.

    >>> _named("quantile", Level(0.9)), _named("worst", Level(1.0))
    ('EQRM for 0.9', 'worst')
    """
    return WORST if way == WORST else f"{MINIMISED[way]} for {level}"


def _read(path: Path) -> dict[str, Any] | None:
    """What an earlier fit left; None where it left nothing whole."""
    try:
        found: dict[str, Any] = read_checked_json(path, FORMAT, "a fit of a backtest")
    except DataFileError:
        return None
    return found


def _digest(table: Table) -> str:
    """Tells tables apart by all that they hold."""
    found = hashlib.sha256()
    columns = {**table.columns, "": table.target, " ": table.domains}
    columns |= {} if table.order is None else {"  ": table.order}
    columns |= {} if table.weights is None else {"   ": table.weights}
    for name, column in columns.items():
        found.update(repr((name, column.dtype.str, len(column))).encode())
        found.update(np.ascontiguousarray(column).tobytes())
    return found.hexdigest()


def kept_in_words(folder: Path) -> str:
    """How many fits a folder holds, as a sentence."""
    number = len(list((folder / FITS).glob("*.json")))
    return f"{counted(number, 'fitted window')} kept in {folder}: run the same command to go on."
