"""Fits of a backtest: what is refused, and that they are those of a training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqrm.data import Table
from eqrm.errors import DomainDataError
from eqrm.evaluation.backtesting.plan import BacktestPlan
from eqrm.tabular import backtesting as job
from tabular.shifting_world import plan_of, trained_on

PLAN = BacktestPlan.of(train=30, certify=30, judge=20, quantiles=[0.9])


def table() -> Table:
    rng = np.random.default_rng(0)
    x, day = rng.normal(size=400), np.repeat(np.arange(80), 5)
    return Table({"x": x}, x + rng.normal(size=400), day)


def test_an_error_of_a_fit_names_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> None:
        raise DomainDataError("The columns are constant.")

    monkeypatch.setattr(job, "fit_window", fails)
    with pytest.raises(DomainDataError, match=r"Window 1: The columns are constant\."):
        job.backtest_table(table(), PLAN)


def test_the_risks_are_those_of_a_training_on_the_same_domains() -> None:
    """The fixed model of a backtest is what ``eqrm train`` fits to the first domains."""
    fit = job.FitSettings(minimised=("superquantile",))
    plan = BacktestPlan.of(train=30, certify=30, judge=20, quantiles=[0.9], gap=0)
    found = job.backtest_table(table(), plan, fit)
    rows = table()
    names = [str(day) for day in range(80)]
    trained = trained_on(
        rows.in_domains(names[:30]),
        plan_of([0.9], measure="superquantile"),
        rows.in_domains(names[60:]),
    )
    later = found.measured[0].later["superquantile for 0.9"]
    assert trained.aside is not None
    kept = trained.aside["linear, trained for 9 in 10"].risks
    assert later == pytest.approx(kept)
