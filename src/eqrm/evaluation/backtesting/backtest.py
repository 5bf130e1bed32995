"""``eqrm.evaluation.backtest``: would bounds from the past have held? For measured risks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqrm.data.windows import Places
from eqrm.domains import NumberedDomains
from eqrm.errors import DomainDataError
from eqrm.evaluation.backtesting.page import write_backtest_page
from eqrm.evaluation.backtesting.picture import draw_backtest
from eqrm.evaluation.backtesting.plan import BacktestPlan
from eqrm.evaluation.backtesting.results import JudgedWindows, WindowRisks
from eqrm.evaluation.backtesting.rules import Array
from eqrm.evaluation.backtesting.windows import (
    BacktestWindow,
    OrderedDomains,
    short_windows,
    windows_of,
)
from eqrm.evaluation.backtesting.words import backtest_text
from eqrm.evaluation.evaluation import Evaluation
from eqrm.text import counted, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Constants = Callable[[Places, Places], Mapping[str, tuple[Array, Array]]]
"""Numbers of the domains to certify and to judge on → risks of constants on both."""


class Backtest(JudgedWindows):
    """What :func:`backtest` found: ``print`` it, draw it, write it as a page.

    ``pooled`` has a row per predictor, bound and level with the share of judged domains within
    the bound; ``shares`` the same window by window; ``risks`` mean and worst window.
    """

    def __str__(self) -> str:
        return backtest_text(self)

    def __repr__(self) -> str:
        return f"<Backtest: {len(self.predictors)} predictors, {len(self.measured)} windows>"

    def draw(self) -> Figure:
        """Shares by window and by level, as a matplotlib figure."""
        return draw_backtest(self)

    def write_report(self, path: Path | str, *, command: str | None = None) -> None:
        """Write an HTML page: whole, or not at all."""
        write_backtest_page(self, Path(path), command)


def backtest(evaluation: Evaluation, *, times: Any = None, **settings: Any) -> Backtest:
    """Compare bounds computed on past domains with the risks of later domains.

    ``evaluation`` is that of any predictors (:func:`eqrm.evaluate`). Its domains have times
    (``evaluate(..., order=)``), are dates or numbers, or ``times`` holds one per domain. Windows
    slide over them: a bound is computed on ``certify`` domains (60; several lengths may be given)
    and compared with the risks of the next ``judge`` (30), ``gap`` (0) domains later; then
    everything moves by ``step`` domains (as many as are judged). ``levels`` (0.5, 0.75, 0.9) and
    ``confidence`` (0.95) are those of the bounds; ``bounds`` are "plain" (the certificate),
    "spells", "recent" and "online", ``dependence`` adds the certificates for k-dependent domains,
    ``half_life`` is that of "recent".

    >>> import eqrm
    >>> risks = np.random.default_rng(0).normal(size=200)
    >>> found = backtest(eqrm.evaluate(domains=np.arange(200), losses=risks), certify=60, judge=20)
    >>> [(row.level, row.windows, round(row.share, 3)) for row in found.pooled]
    [(0.5, 7, 0.643), (0.75, 7, 0.857), (0.9, 7, 0.971)]
    """
    plan = BacktestPlan.of(**settings)
    names = evaluation.domains
    numbered = NumberedDomains(np.arange(len(names)), names)
    if times is None and evaluation.order is not None:
        times = evaluation.order.times
    known = "domains" if evaluation.order is None else evaluation.order.name
    domains = OrderedDomains.of(numbered, times, known)
    risks = {name: each.risks for name, each in evaluation.predictors.items()}
    return judged_backtest(
        plan, domains, windows_of(plan, domains), lambda _: risks, evaluation.loss
    )


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

    ``risks_in`` gives the risks (m,) of each predictor on all domains in a window; ``constants``
    those of predictors that are fitted to the domains to certify on.
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
        _refuse_unknown_risks(both, window)
        past, later = ({name: pair[i] for name, pair in both.items()} for i in (0, 1))
        measured.append(WindowRisks(window, past, later))
    said = [*_notes(plan, domains, windows), *notes]
    return Backtest(tuple(measured), plan, domains, loss, tuple(said), tuple(beside))


def _refuse_unknown_risks(both: Mapping[str, tuple[Array, Array]], window: BacktestWindow) -> None:
    for name, parts in both.items():
        if not all(np.isfinite(part).all() for part in parts):
            raise DomainDataError(
                f"{name}: a risk in window {window.number} is not finite. Check the predictions of "
                "these domains."
            )


def _notes(
    plan: BacktestPlan, domains: OrderedDomains, windows: Sequence[BacktestWindow]
) -> list[str]:
    """What was left out, sorted, or cannot be certified."""
    found = []
    if not domains.sorted_rows:
        found.append(f"The rows were not in the order of time: sorted by {domains.order!r}.")
    left_out = {number for window in windows for number in window.left_out.tolist()}
    if left_out:
        names = [domains.names[number] for number in sorted(left_out)]
        found.append(
            f"{counted(len(names), 'domain')} last into the next part of a window and take no part "
            f"in it: {listed(names)}."
        )
    for certify in plan.certify:
        own = [window for window in windows if window.certify_size == certify]
        places = np.argsort(domains.spans.order)
        rest = len(places) - 1 - int(places[own[-1].judge].max())
        if rest:
            found.append(
                f"Certified on {certify}, the last {counted(rest, 'domain')} "
                f"{'is' if rest == 1 else 'are'} in no window: a whole one is judged on "
                f"{plan.judge}."
            )
    return [*found, *short_windows(windows)]
