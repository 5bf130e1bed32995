"""Files of ``eqrm backtest``: predictions of any model in, and everything that was found out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.data.tables.files import opened
from eqrm.data.windows import Places
from eqrm.domains import DomainKey, Name, NumberedDomains
from eqrm.errors import MissingExtraError
from eqrm.evaluation.backtesting.backtest import Backtest, judged_backtest
from eqrm.evaluation.backtesting.plan import BacktestPlan
from eqrm.evaluation.backtesting.rules import Array
from eqrm.evaluation.backtesting.windows import OrderedDomains, windows_of
from eqrm.evaluation.evaluate import measured_predictors, paired
from eqrm.evaluation.evaluated_domains import ALL_DOMAINS, EvaluatedDomains, left_out_in_words
from eqrm.evaluation.measuring.constants import LabelStatistics, cross_fitted_constants
from eqrm.evaluation.measuring.domain_columns import domain_times
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.evaluation.measuring.metrics import Metric
from eqrm.evaluation.presenting.plots import save_figure
from eqrm.files.writing import whole_file, whole_files, write_text
from eqrm.tabular.backtesting.backtest_fits import FITS
from eqrm.tabular.output_folder import check_folder

WRITTEN = ("summary.txt", "shares.csv", "backtest.json", "report.html", "shares.svg")


def backtest_predictions(
    files: Any, spec: MeasurementSpec, plan: BacktestPlan, order: str | None = None
) -> Backtest:
    """Backtest predictions or losses in files; nothing is fitted.

    ``spec`` says which columns hold what. ``order`` is the column with the time of each row; by
    default the domains are their times. Where there are labels, constants fitted to the domains
    to certify on stand beside the predictors.
    """
    spec = replace(spec, references=None if spec.takes_predictions else False)
    measured = measured_predictors(files, spec)
    shared = paired({name: each.risks for name, each in measured.items()})
    chosen = EvaluatedDomains.of(shared, [each.facts for each in measured.values()], ALL_DOMAINS)
    names = next(iter(chosen.predictors.values())).domains
    numbered, times = NumberedDomains(np.arange(len(names)), names), None
    columns = DomainKey.of(spec.domains).columns
    if order is not None and (order,) != columns:
        numbered, times = _times(files, spec, columns, order, names)
    domains = OrderedDomains.of(numbered, times, order or " and ".join(columns))
    labels = next((each.labels for each in measured.values() if each.labels), None)
    constants = None
    if labels is not None and spec.known_metric is not None:
        several = any(each.several for each in measured.values())
        constants = PastConstants(labels.only(names), spec.known_metric, several)
    risks = {name: each.risks for name, each in chosen.predictors.items()}
    return judged_backtest(
        plan,
        domains,
        windows_of(plan, domains),
        lambda window: risks,
        spec.name_of_loss,
        constants=constants,
        notes=[left_out_in_words(chosen.seen, ()).strip()] if chosen.seen else [],
    )


def _times(
    files: Any, spec: MeasurementSpec, columns: Sequence[str], order: str, names: Sequence[Name]
) -> tuple[NumberedDomains, list[Any]]:
    """The times in a column, each with the place of its domain among these names."""
    with opened(files, spec.threads, spec.memory) as table:
        found, times = domain_times(table, columns, order)
    place = {str(name): i for i, name in enumerate(names)}
    ids = np.array([place.get(str(name), -1) for name in found.names])[found.ids]
    kept = [time for time, number in zip(times, ids.tolist(), strict=True) if number >= 0]
    return NumberedDomains(ids[ids >= 0], tuple(names)), kept


@dataclass(frozen=True, eq=False)
class PastConstants:
    """Constants fitted to the domains to certify on.

    One of these domains is measured by the constant of the others, a later one by that of all.
    """

    labels: LabelStatistics
    metric: Metric
    several: bool

    def __call__(self, certify: Places, judge: Places) -> Mapping[str, tuple[Array, Array]]:
        """The risks of each constant on both parts."""
        past = self._risks(certify)
        later = [self._risks(np.append(certify, number)) for number in judge]
        return {
            name: (risks, np.array([each[name][-1] for each in later]))
            for name, risks in past.items()
        }

    def _risks(self, places: Places) -> dict[str, Array]:
        labels = self.labels
        kept = [None if part is None else part[places] for part in (labels.means, labels.variances)]
        names = tuple(labels.domains[i] for i in places)
        part = LabelStatistics(names, labels.counts[places], *kept)
        found = cross_fitted_constants(part, self.metric, self.several)
        place = {name: i for i, name in enumerate(names)}
        risks = {}
        for constant, each in found.items():  # measured risks are sorted by name
            risks[constant] = np.empty(len(names))
            risks[constant][[place[name] for name in each.risks.domains]] = each.risks.risks
        return risks


def check_backtest_folder(folder: Path) -> None:
    """Raise if the results of a backtest cannot be written there."""
    check_folder(folder, (*WRITTEN, FITS))


def write_backtest(found: Backtest, folder: Path, *, command: str | None = None) -> list[Path]:
    """Write tables, page and picture to a folder, all of them or none; returns the files."""
    with whole_files(folder) as draft:
        written = _written(found, draft, command)
    return [folder / path.name for path in written]


def _written(found: Backtest, folder: Path, command: str | None) -> list[Path]:
    content = json.dumps(found.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    texts = dict(zip(WRITTEN, (f"{found}\n", found.to_csv(), f"{content}\n"), strict=False))
    for name, text in texts.items():
        write_text(folder / name, text)
    page, picture = (folder / name for name in WRITTEN[-2:])
    found.write_report(page, command=command)
    written = [page, *(folder / name for name in texts)]
    try:
        figure = found.draw()
        with whole_file(picture) as draft:
            save_figure(figure, draft)
    except MissingExtraError:
        return written  # the page holds the same shares
    return [*written, picture]
