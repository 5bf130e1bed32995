"""Boosting with EQRM on the flights: what it costs in time.

    PYTHONPATH=. python benchmarks/boosting.py [--quick] [--json FILE] [--page FILE]

Rounds of boosting on all 327,346 rows with the library's own log-loss and with EQRM at
α = 0.9, in turns, in the same number of trees of the same size. Datasets are built beforehand:
binning is the same for both. Bounds: 2 (LightGBM) and 2.5 (XGBoost) times the built-in objective.
Other programs on the same cores can spoil a measurement, so a bound that is exceeded is measured
again, up to three times; every attempt is printed. What EQRM gains on unseen days is in
``python -m studies frontiers``. ``--page`` writes the table into docs/boosting.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray
from tables import aligned, busy_warning, machine, markdown, write_json
from timing import Budget, Timing, interleaved

import eqrm

ALPHA = 0.9
SPLITS = 10
ROUNDS = 60
TIMED_ROUNDS = 20
ATTEMPTS = 3
BOUNDS = {"XGBoost": 2.5, "LightGBM": 2.0}
LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99)
SHARED = {"learning_rate": 0.1}
MODELS: dict[str, Callable[..., Any]] = {
    "XGBoost": eqrm.XGBQRMClassifier,
    "LightGBM": eqrm.LGBMQRMClassifier,
}


@dataclass(frozen=True)
class Flights:
    """The flights as numbers: categories become the places of their names."""

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    days: NDArray[np.int64]

    def rows(self, kept: NDArray[np.bool_]) -> Flights:
        """Some of the rows."""
        return Flights(self.X[kept], self.y[kept], self.days[kept])


def flights() -> Flights:
    """All rows, with features of the schedule."""
    table = eqrm.data.load_flights()
    columns = [
        column if column.dtype.kind == "f" else np.unique(column, return_inverse=True)[1]
        for column in table.columns.values()
    ]
    days = np.unique(table.domains, return_inverse=True)[1]
    return Flights(np.column_stack(columns).astype(np.float32), table.target, days)


# --- speed ---------------------------------------------------------------------------------


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


def speeds(data: Flights, turns: int) -> Iterator[Speed]:
    """Measurements, each library's up to the first that keeps its bound."""
    budget = Budget(rounds=turns, burst=0.0, longest=60.0, pause=0.2)
    for library, competitors in COMPETITORS.items():
        for _ in range(ATTEMPTS):
            speed = Speed(library, interleaved(competitors(data, TIMED_ROUNDS), budget))
            yield speed
            if speed.passed:
                break


SPEED_HEADER = ["library", "built-in ms/round", "EQRM ms/round", "ratio", "bound", ""]


# --- the page and the command line ---------------------------------------------------------


def write_table(page: Path, name: str, table: str) -> None:
    """Put a table between its marks in the page."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    text = page.read_text(encoding="utf-8")
    before, after = text.index(start) + len(start), text.index(end)
    page.write_text(f"{text[:before]}\n{table}\n{text[after:]}", encoding="utf-8")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2 splits, 20 rounds, few turns")
    parser.add_argument("--json", type=Path, default=Path("bench-output/boosting.json"))
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    return parser.parse_args(arguments)


def measure_speed(data: Flights, given: argparse.Namespace) -> dict[str, Any]:
    """Print and return the speeds."""
    print(busy_warning() or "the machine is quiet")
    measured = list(speeds(data, 3 if given.quick else 7))
    rows = [speed.cells() for speed in measured]
    print(aligned(SPEED_HEADER, rows))
    if given.page is not None:
        write_table(given.page, "speed", markdown(SPEED_HEADER, rows))
    last = {speed.library: speed for speed in measured}
    return {
        name: {"ratio": speed.ratio, "bound": BOUNDS[name], "passed": speed.passed}
        for name, speed in last.items()
    }


def main(arguments: list[str]) -> int:
    """Measure; 1 if a bound is broken."""
    given = parse(arguments)
    data = flights()
    content: dict[str, Any] = {"machine": machine(), "rows": len(data.y)}
    content["speed"] = measure_speed(data, given)
    write_json(given.json, content)
    return 0 if all(result["passed"] for result in content["speed"].values()) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
