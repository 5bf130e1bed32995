"""Boosting with EQRM on the flights: what it costs in time.

    PYTHONPATH=. python benchmarks/boosting.py [--quick]

Rounds of boosting on all 327,346 rows with the library's own log-loss and with EQRM at
α = 0.9, in turns, in the same number of trees of the same size. Datasets are built beforehand:
binning is the same for both. Bounds: 2 (LightGBM) and 2.5 (XGBoost) times the built-in objective.
A bound that is exceeded is measured again, up to three times; every attempt is printed. What EQRM
gains on unseen days is in ``python -m studies frontiers``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray
from tables import aligned, begun
from timing import Budget, Timing, attempts, interleaved

import eqrm

ALPHA = 0.9
TIMED_ROUNDS = 20
BOUNDS = {"XGBoost": 2.5, "LightGBM": 2.0}
SHARED = {"learning_rate": 0.1}


@dataclass(frozen=True)
class Flights:
    """The flights as numbers: categories become the places of their names."""

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    days: NDArray[np.int64]


def flights() -> Flights:
    """All rows, with features of the schedule."""
    table = eqrm.data.load_flights()
    columns = [
        column if column.dtype.kind == "f" else np.unique(column, return_inverse=True)[1]
        for column in table.columns.values()
    ]
    days = np.unique(table.domains, return_inverse=True)[1]
    return Flights(np.column_stack(columns).astype(np.float32), table.target, days)


def xgboost_competitors(data: Flights, rounds: int) -> dict[str, Callable[[], object]]:
    """XGBoost with its own objective and with EQRM, on one matrix."""
    matrix = xgboost.DMatrix(data.X, data.y)
    settings = {**SHARED, "base_score": 0.5}
    xgboost.train({**settings, "objective": "binary:logistic"}, matrix, 1)  # bins, once

    def built_in() -> None:
        xgboost.train({**settings, "objective": "binary:logistic"}, matrix, rounds)

    def quantile() -> None:
        objective = eqrm.estimators.xgboost_objective({matrix: data.days}, ALPHA)
        xgboost.train({**settings, "base_score": 0.0}, matrix, rounds, obj=objective)

    return {"built-in": built_in, "EQRM": quantile}


def lightgbm_competitors(data: Flights, rounds: int) -> dict[str, Callable[[], object]]:
    """LightGBM with its own objective and with EQRM, on one dataset."""
    dataset = lightgbm.Dataset(data.X, data.y, params={"verbosity": -1}).construct()
    settings = {**SHARED, "verbosity": -1}

    def built_in() -> None:
        lightgbm.train({**settings, "objective": "binary"}, dataset, rounds)

    def quantile() -> None:
        objective = eqrm.estimators.lightgbm_objective({dataset: data.days}, ALPHA)
        lightgbm.train({**settings, "objective": objective}, dataset, rounds)

    return {"built-in": built_in, "EQRM": quantile}


COMPETITORS = {"XGBoost": xgboost_competitors, "LightGBM": lightgbm_competitors}


@dataclass(frozen=True)
class Speed:
    """Seconds for the timed rounds, of one library."""

    library: str
    timings: dict[str, Timing]

    @property
    def ratio(self) -> float:
        """EQRM's time over the built-in's."""
        return self.timings["EQRM"].times(self.timings["built-in"])

    @property
    def passed(self) -> bool:
        """Whether the bound holds."""
        return self.ratio <= BOUNDS[self.library]

    def cells(self) -> list[str]:
        """A row of the table."""
        times = [f"{1e3 * self.timings[n].median / TIMED_ROUNDS:.1f}" for n in ("built-in", "EQRM")]
        bound = f"{BOUNDS[self.library]:g}"
        return [self.library, *times, f"{self.ratio:.2f}", bound, "pass" if self.passed else "FAIL"]


SPEED_HEADER = ["library", "built-in ms/round", "EQRM ms/round", "ratio", "bound", ""]


def main(arguments: list[str]) -> int:
    """Measure; 1 if a bound is broken."""
    quick = begun(arguments, __doc__, "few turns")
    data = flights()
    budget = Budget(rounds=3 if quick else 7, burst=0.0, longest=60.0, pause=0.2)

    def measure(library: str) -> Speed:
        return Speed(library, interleaved(COMPETITORS[library](data, TIMED_ROUNDS), budget))

    measured = [attempts(lambda each=each: measure(each)) for each in BOUNDS]  # type: ignore[misc]
    print(aligned(SPEED_HEADER, [speed.cells() for tried in measured for speed in tried]))
    last = [tried[-1] for tried in measured]
    told = ", ".join(f"{each.library} {each.ratio:.2f} ({BOUNDS[each.library]:g})" for each in last)
    print(f"times the built-in on {len(data.y):,} rows (bound): {told}")
    return 0 if all(each.passed for each in last) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
