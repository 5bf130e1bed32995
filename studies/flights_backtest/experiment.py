"""Three backtests of one year: refitted predictors, those of the first window, kinds of bounds."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqrm.data import Table, load_flights
from eqrm.evaluation import Backtest
from eqrm.evaluation.backtesting.plan import BacktestPlan
from eqrm.tabular.backtesting import FitSettings, backtest_table
from studies.outcome import Progress

KINDS = ("plain", "spells", "recent", "online")
DEPENDENCE = 1


@dataclass(frozen=True)
class YearSettings:
    """Days to train, certify and judge on; every ``thinned``-th flight takes part."""

    certify: tuple[int, ...] = (45, 60, 90)
    train: int = 120
    judge: int = 30
    minimised: tuple[str, ...] = ("auto", "quantile", "superquantile")
    weather: bool = True
    thinned: int = 1


SIZES = {
    "full": YearSettings(),
    "quick": YearSettings((90,), judge=70, minimised=("quantile",), weather=False, thinned=40),
}


@dataclass(frozen=True, eq=False)
class YearFindings:
    """``stream`` refits in every window, ``fixed`` never; ``kinds`` compares bounds."""

    stream: Backtest
    fixed: Backtest
    kinds: Backtest


def run_year(settings: YearSettings, progress: Progress) -> YearFindings:
    """All backtests; the fits are shared."""
    table = _table(settings)
    fit = FitSettings(minimised=settings.minimised)
    sizes: dict[str, Any] = {"train": settings.train, "judge": settings.judge}
    plans = {
        "refitted in every window": BacktestPlan.of(certify=settings.certify, **sizes),
        "trained once": BacktestPlan.of(certify=settings.certify, refit="never", **sizes),
        "kinds of bounds": BacktestPlan.of(
            certify=max(settings.certify), bounds=KINDS, dependence=DEPENDENCE, **sizes
        ),
    }
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (what, plan) in enumerate(plans.items()):
            share = 0.9 * (number > 0)

            def tell(step: str, share: float = share, what: str = what) -> None:
                progress(share, f"{what}: {step}")

            found.append(backtest_table(table, plan, fit, folder=Path(folder), progress=tell))
    return YearFindings(*found)


def _table(settings: YearSettings) -> Table:
    table = load_flights(weather=settings.weather)
    return table.rows(np.arange(0, len(table), settings.thinned)) if settings.thinned > 1 else table
