"""Would bounds from the past have held? For measured risks, and for predictions in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqrm.data.tables.files import opened
from eqrm.data.windows import Places
from eqrm.domains import DomainKey, Name, NumberedDomains, places_among
from eqrm.errors import DomainDataError
from eqrm.evaluation.backtesting.plan import Array, BacktestPlan
from eqrm.evaluation.backtesting.results import (
    BacktestWindow,
    JudgedWindows,
    OrderedDomains,
    WindowRisks,
    short_windows,
    windows_of,
)
from eqrm.evaluation.backtesting.words import (
    backtest_text,
    drawn_backtest,
    write_backtest_page,
)
from eqrm.evaluation.evaluate import measured_models
from eqrm.evaluation.evaluated_domains import evaluated
from eqrm.evaluation.evaluation import Evaluation
from eqrm.evaluation.measuring.domain_columns import domain_times
from eqrm.evaluation.measuring.measured import LabelStatistics
from eqrm.evaluation.measuring.measurement_spec import MeasurementSpec
from eqrm.evaluation.measuring.metrics import Metric
from eqrm.evaluation.references import cross_fitted_constants
from eqrm.text import counted, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Constants = Callable[[Places, Places], Mapping[str, tuple[Array, Array]]]
"""Numbers of the domains to certify and to judge on → risks of constants on both."""


class Backtest(JudgedWindows):
    """What :func:`backtest` found: ``print`` it, draw it, write it as a page.

    ``pooled`` has a row per model, bound and level with the share of judged domains within
    the bound; ``shares`` the same window by window; ``risks`` mean and worst window.
    """

    def __str__(self) -> str:
        return backtest_text(self)

    def __repr__(self) -> str:
        return f"<Backtest: {len(self.models)} models, {len(self.measured)} windows>"

    def draw(self) -> Figure:
        """Shares by window and by level, as a matplotlib figure."""
        return drawn_backtest(self)

    def write_report(self, path: Path | str, *, command: str | None = None) -> None:
        """Write an HTML page: whole, or not at all."""
        write_backtest_page(self, Path(path), command)


def backtest(evaluation: Evaluation, *, times: Any = None, **settings: Any) -> Backtest:
    """Compare bounds computed on past domains with the risks of later domains.

    ``evaluation`` is that of any models (:func:`eqrm.evaluate`). Its domains have times
    (``evaluate(..., order=)``), are dates or numbers, or ``times`` holds one per domain. Windows
    slide over them: a bound is computed on ``certify`` domains (60; several lengths may be given)
    and compared with the risks of the next ``judge`` (30), ``gap`` (0) domains later; then
    everything moves by ``step`` domains (as many as are judged). ``quantiles`` (0.5, 0.75, 0.9) and
    ``confidence`` (0.95) are those of the bounds; ``bounds`` are "plain" (the certificate),
    "spells", "recent" and "online", ``dependence`` adds the certificates for k-dependent domains,
    ``half_life`` is that of "recent".
    """
    plan = BacktestPlan.of(**settings)
    if times is None and evaluation.order is not None:
        times = evaluation.order.times
    known = "domains" if evaluation.order is None else evaluation.order.name
    domains = OrderedDomains.of(_in_the_order_given(evaluation.domains), times, known)
    return _of_evaluation(evaluation, plan, domains)


def backtest_predictions(
    files: Any, spec: MeasurementSpec, plan: BacktestPlan, order: str | None = None
) -> Backtest:
    """Backtest predictions or losses in files; nothing is fitted.

    ``spec`` says which columns hold what. ``order`` is the column with the time of each row; by
    default the domains are their times. Where there are labels, constants fitted to the domains
    to certify on stand beside the models.
    """
    spec = replace(spec, references=None if spec.takes_predictions else False)
    measured = measured_models(files, spec)
    evaluation = evaluated(measured, spec)
    names = evaluation.domains
    numbered, times = _in_the_order_given(names), None
    columns = DomainKey.of(spec.domains).columns
    if order is not None and (order,) != columns:
        numbered, times = _times(files, spec, columns, order, names)
    domains = OrderedDomains.of(numbered, times, order or " and ".join(columns))
    labels = next((each.labels for each in measured.values() if each.labels), None)
    constants: Constants | None = None
    metric = spec.known_metric
    if labels is not None and metric is not None:
        several = any(each.several for each in measured.values())
        constants = partial(_past_constants, labels.only(names), metric, several)
    notes = [evaluation.left_out.strip()] if evaluation.seen else []
    return _of_evaluation(evaluation, plan, domains, constants, notes)


def _in_the_order_given(names: tuple[Name, ...]) -> NumberedDomains:
    return NumberedDomains(np.arange(len(names)), names)


def _of_evaluation(
    evaluation: Evaluation,
    plan: BacktestPlan,
    domains: OrderedDomains,
    constants: Constants | None = None,
    notes: Sequence[str] = (),
) -> Backtest:
    windows, loss = windows_of(plan, domains), evaluation.loss
    risks = {name: each.risks for name, each in evaluation.models.items()}
    return judged_backtest(
        plan, domains, windows, lambda _: risks, loss, constants=constants, notes=notes
    )


def _times(
    files: Any, spec: MeasurementSpec, columns: Sequence[str], order: str, names: Sequence[Name]
) -> tuple[NumberedDomains, list[Any]]:
    """The times in a column, each with the place of its domain among these names."""
    with opened(files, spec.threads, spec.memory) as table:
        found, times = domain_times(table, columns, order)
    ids = places_among(found.names, names)[found.ids]
    kept = [time for time, number in zip(times, ids.tolist(), strict=True) if number >= 0]
    return NumberedDomains(ids[ids >= 0], tuple(names)), kept


def _past_constants(
    labels: LabelStatistics, metric: Metric, several: bool, certify: Places, judge: Places
) -> dict[str, tuple[Array, Array]]:
    """The risks of constants that are fitted to the domains to certify on, on both parts.

    One of these domains is measured by the constant of the others, a later one by that of all.
    """

    def risks_on(places: Places) -> dict[str, Array]:
        arrays = [None if a is None else a[places] for a in (labels.means, labels.variances)]
        names = tuple(labels.domains[i] for i in places)
        part = LabelStatistics(names, labels.counts[places], *arrays)
        found = {}
        for constant, (each, _) in cross_fitted_constants(part, metric, several).items():
            own = dict(zip(each.domains, each.risks, strict=True))  # sorted by name
            found[constant] = np.array([own[name] for name in names])
        return found

    later = [risks_on(np.append(certify, number)) for number in judge]
    return {
        name: (past, np.array([each[name][-1] for each in later]))
        for name, past in risks_on(certify).items()
    }


def judged_backtest(
    plan: BacktestPlan,
    domains: OrderedDomains,
    windows: Sequence[BacktestWindow],
    risks_in: Callable[[BacktestWindow], Mapping[str, Array]],
    loss: str,
    *,
    constants: Constants | None = None,
    references: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Backtest:
    """Judge windows whose risks are known.

    ``risks_in`` gives the risks (m,) of each model on all domains in a window; ``constants``
    those of models that are fitted to the domains to certify on.
    """
    measured, beside = [], dict.fromkeys(references)
    for window in windows:
        both = {
            name: (risks[window.certify], risks[window.judge])
            for name, risks in risks_in(window).items()
        }
        known = constants(window.certify, window.judge) if constants else {}
        beside |= dict.fromkeys(known)
        both = {**known, **both}
        for name, pair in both.items():
            if not all(np.isfinite(part).all() for part in pair):
                raise DomainDataError(
                    f"{name}: a risk in window {window.number} is not finite. Check the "
                    "predictions of these domains."
                )
        past, later = ({name: pair[i] for name, pair in both.items()} for i in (0, 1))
        measured.append(WindowRisks(window, past, later))
    said = [*_notes(plan, domains, windows), *notes]
    return Backtest(tuple(measured), plan, domains, loss, tuple(said), tuple(beside))


def _notes(
    plan: BacktestPlan, domains: OrderedDomains, windows: Sequence[BacktestWindow]
) -> Iterator[str]:
    """What was left out, sorted, or cannot be certified."""
    if not domains.sorted_rows:
        yield f"The rows were not in the order of time: sorted by {domains.order!r}."
    left_out = {number for window in windows for number in window.left_out.tolist()}
    if left_out:
        names = [domains.names[number] for number in sorted(left_out)]
        yield (
            f"{counted(len(names), 'domain')} last into the next part of a window and take no part "
            f"in it: {listed(names)}."
        )
    for certify in plan.certify:
        own = [window for window in windows if window.certify_size == certify]
        places = np.argsort(domains.spans.order)
        rest = len(places) - 1 - int(places[own[-1].judge].max())
        if rest:
            yield (
                f"Certified on {certify}, the last {counted(rest, 'domain')} "
                f"{'is' if rest == 1 else 'are'} in no window: a whole one is judged on "
                f"{plan.judge}."
            )
    yield from short_windows(plan, windows)
