"""The job of ``eqrm backtest`` on a table: fit on the past, certify, and judge on what came.

Every window's predictors are those that ``eqrm train`` fits. A fit takes the longest, so the risks
of each are kept in a file as soon as they are known: a backtest that was stopped goes on with the
next one.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import config_context

import eqrm
from eqrm.checks import naming_field, one_of
from eqrm.data.tables.preprocessor import AUTO, Task
from eqrm.data.tables.table import Table
from eqrm.data.windows import Places
from eqrm.errors import DataFileError, MissingExtraError, SettingError
from eqrm.estimators.groups import as_groups
from eqrm.estimators.selection.surrogates import ERM as REFERENCE
from eqrm.estimators.selection.surrogates import (
    FEWEST_DOMAINS,
    Surrogate,
    choose,
    cross_fit,
    fitted,
    trained_candidates,
)
from eqrm.evaluation.backtesting.backtest import Backtest, judged_backtest
from eqrm.evaluation.backtesting.plan import Array, BacktestPlan
from eqrm.evaluation.backtesting.results import (
    BacktestWindow,
    OrderedDomains,
    short_windows,
    windows_of,
)
from eqrm.evaluation.presenting.plots import save_figure
from eqrm.evaluation.references import BASE_RATE, MEAN, guess_name
from eqrm.files.checked_json import read_checked_json, write_checked_json
from eqrm.files.writing import whole_file, whole_files, write_text
from eqrm.level import Level
from eqrm.risks import MeasuredRisks
from eqrm.tabular.model import new_estimator
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.preparation import PreparedTraining, prepare, warnings_noted
from eqrm.tabular.references import constant_scores, measured_rows
from eqrm.text import counted

WRITTEN = ("summary.txt", "shares.csv", "backtest.json", "report.html", "shares.svg")
FORMAT = "eqrm backtest fit 1"
FITS = "fits"
"""The folder with the risks of each fit."""
WORST = "worst"
MINIMISED = {"auto": "auto", "quantile": "EQRM", "superquantile": "superquantile", WORST: WORST}
"""What may be minimised for a level → what tables call it."""


@dataclass(frozen=True)
class FitSettings:
    """What is fitted in every window: ERM, and for each level what ``minimised`` says.

    "auto" chooses by cross-fitting what is minimised for a level, as ``eqrm train`` does;
    "quantile" is EQRM at the level itself, "superquantile" the mean risk of the worst share 1−α,
    "worst" the largest risk. The rest is as in :class:`~eqrm.tabular.plan.TrainingPlan`.
    """

    alpha: tuple[Level, ...] = (Level(0.9),)
    minimised: tuple[str, ...] = ("auto",)
    model: str = "linear"
    task: str = AUTO
    seed: int = 0
    settings: Mapping[str, Any] | None = None

    def plans(self) -> dict[str, TrainingPlan]:
        """A training plan for each way, checked."""
        shared = {name: getattr(self, name) for name in ("model", "task", "seed", "settings")}
        return {
            way: TrainingPlan.of(
                None if way == WORST else self.alpha,
                measure="quantile" if one_of(way, MINIMISED, "measure") == "auto" else way,
                surrogate="auto" if way == "auto" else "none",
                **shared,
            )
            for way in dict.fromkeys(self.minimised)
        }


def backtest_table(
    table: Table,
    plan: BacktestPlan,
    fit: FitSettings | None = None,
    *,
    folder: Path | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> Backtest:
    """Backtest the predictors that ``eqrm train`` fits, on domains in the order of time.

    In each window they are trained on the first ``plan.train`` domains, certified on the next and
    judged on those after; with ``refit="never"`` they are trained in the first window only.
    Everything that can be refused is refused before the first fit. ``folder`` keeps the risks of
    each fit, and those of the same fit on the same table are read from there.

    >>> rng = np.random.default_rng(0)
    >>> x, day = rng.normal(size=1200), np.repeat(np.arange(120), 10)
    >>> table = Table({"x": x}, x + rng.normal(size=1200), day)
    >>> plan = BacktestPlan.of(train=40, certify=40, judge=20, quantiles=[0.9])
    >>> found = backtest_table(table, plan, FitSettings(minimised=("quantile",)))
    >>> found.models
    ('mean', 'ERM', 'ERM recalibrated for 0.9', 'EQRM for 0.9')
    """
    if plan.train is None:
        raise SettingError("train is required: the number of domains to fit on in each window.")
    fit = fit or FitSettings()
    domains = _ordered(table)
    windows = windows_of(plan, domains)
    store = _FittedRisks(table, domains, fit, folder)
    kind = store.checked_task(windows)
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
    return len({_key(window) for window in windows}), short_windows(plan, windows)


def _ordered(table: Table) -> OrderedDomains:
    order = table.domain_name if table.order is None else table.order_name
    return OrderedDomains.of(table.numbered_domains, table.order, order)


def _key(window: BacktestWindow) -> tuple[int, ...]:
    """The numbers of the domains that a window is trained on, sorted."""
    return () if window.train is None else tuple(np.sort(window.train).tolist())


class _FittedRisks:
    """Fits the predictors of windows, and keeps their risks on all later domains."""

    def __init__(
        self, table: Table, domains: OrderedDomains, fit: FitSettings, folder: Path | None
    ) -> None:
        self.table, self.domains, self.fit, self.plans = table, domains, fit, fit.plans()
        self.folder = None if folder is None else folder / FITS
        self.notes: list[str] = []
        about = {**asdict(fit), "alpha": [str(level) for level in fit.alpha]}
        self._about = {"table": _digest(table), "fit": about, "version": eqrm.__version__}

    def _later(self, window: BacktestWindow) -> Places:
        """The numbers of all domains that begin after the last row that a window is trained on."""
        spans = self.domains.spans
        return np.flatnonzero(spans.first > spans.last[list(_key(window))].max())

    def checked_task(self, windows: Sequence[BacktestWindow]) -> Task:
        """The task of the whole table; refused is what a window cannot learn."""
        table, ids = self.table, self.table.numbered_domains.ids
        task = Task.of(table.target, self.fit.task)
        for way in self.plans.values():
            new_estimator(way.model, task, None, way.seed, way.settings, way.measure)
        for window in {_key(window): window for window in windows}.values():
            trained, later = (np.isin(ids, p) for p in (_key(window), self._later(window)))
            with naming_field(f"Window {window.number}"):
                Task.of(table.target[trained], task.kind).labels(table.target[later])
        return task

    def risks(self, window: BacktestWindow) -> dict[str, Array]:
        """The risks (m,) of each predictor, NaN on domains that are not later."""
        content = json.dumps([self._about, _key(window)], sort_keys=True)
        name = hashlib.sha256(content.encode()).hexdigest()[:20]
        path = None if self.folder is None else self.folder / f"{name}.json"
        found: dict[str, Any] | None = None
        if path is not None:
            with suppress(DataFileError):  # an earlier run left nothing whole
                found = read_checked_json(path, FORMAT, "a fit of a backtest")
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
        train = self.table.in_domains([names[i] for i in _key(window)])
        later = self.table.in_domains([names[i] for i in self._later(window)])
        found: dict[str, Any] = {"domains": list(later.domain_names), "risks": {}, "notes": []}
        for way, plan in self.plans.items():
            with naming_field(f"Window {window.number}"):
                risks, notes = fit_window(train, later, plan, way)
            for name, one in risks.items():
                own = dict(zip(map(str, one.domains), one.risks.tolist(), strict=True))
                found["risks"].setdefault(name, [own[each] for each in found["domains"]])
            found["notes"] += [note for note in notes if note not in found["notes"]]
        return found


def fit_window(
    train: Table, test: Table, plan: TrainingPlan, way: str
) -> tuple[dict[str, MeasuredRisks], list[str]]:
    """Train ERM and every level on ``train``, measure them and constants on ``test``; and notes."""
    prepared = prepare(train, test, plan)
    notes, task = list(prepared.notes), prepared.task
    judged: Any = prepared.test
    models = dict(_models(prepared, plan, way, notes))
    constants = constant_scores(task, prepared.train.labels, prepared.train.weights)
    with config_context(assume_finite=True):  # the encoder has refused what is not
        scores = {n: each._checked_scores(judged.matrix) for n, each in models.items()}
    scores |= {n: np.repeat(each, len(judged.labels), axis=0) for n, each in constants.items()}
    return measured_rows(scores, judged, task), list(dict.fromkeys(notes))


def _models(
    prepared: PreparedTraining, plan: TrainingPlan, way: str, notes: list[str]
) -> Iterator[tuple[str, Any]]:
    rows, domains = prepared.train, prepared.train.table.numbered_domains
    groups = as_groups(domains, len(rows.labels))
    settings = {**plan.batches(len(rows.labels), len(groups)), **(plan.settings or {})}
    template = new_estimator(plan.model, prepared.task, None, plan.seed, settings, plan.measure)
    ways = {
        level: trained_candidates(level, template._takes_long)
        if way == "auto"
        else (Surrogate(plan.measure, level),)
        for level in plan.alpha
    }
    own = (rows.matrix, rows.labels)
    with warnings_noted(notes.append):
        erm = fitted(template, [REFERENCE], *own, domains, rows.weights)[0]
        yield "ERM", erm
        scored = None
        if plan.measure == "quantile" and len(groups) >= FEWEST_DOMAINS:
            several = tuple(dict.fromkeys([REFERENCE, *chain(*ways.values())]))
            scored = cross_fit(
                template, several, *own, groups, rows.weights, apart=rows.table.unit_ids
            )
        for level in plan.alpha:
            surrogate = Surrogate(plan.measure, level)
            if scored is not None:
                choice = choose(scored, level, ways[level])
                surrogate = choice.trained
                corrected = copy.copy(erm)
                corrected._correct(scored.correction(choice.recalibrated, level))
                yield f"ERM recalibrated for {level}", corrected
            name = WORST if way == WORST else f"{MINIMISED[way]} for {level}"
            yield name, fitted(template, [surrogate], *own, domains, rows.weights)[0]


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


def write_backtest(found: Backtest, folder: Path, *, command: str | None = None) -> list[Path]:
    """Write tables, page and picture to a folder, all of them or none; returns the files."""
    content = json.dumps(found.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    texts = dict(zip(WRITTEN, (f"{found}\n", found.to_csv(), f"{content}\n"), strict=False))
    page, picture = WRITTEN[-2:]
    names = [page, *texts]
    with whole_files(folder) as draft:
        for name, text in texts.items():
            write_text(draft / name, text)
        found.write_report(draft / page, command=command)
        try:
            figure = found.draw()
        except MissingExtraError:
            return [folder / name for name in names]  # the page holds the same shares
        with whole_file(draft / picture) as file:
            save_figure(figure, file)
    return [folder / name for name in (*names, picture)]
