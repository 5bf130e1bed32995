"""QRMClassifier at six levels against six fits of scikit-learn's LogisticRegression.

    python benchmarks/estimator_speed.py [--quick] [--json FILE]

The rows are all 327,346 flights of ``eqrm.data.load_flights()`` as ``eqrm train`` encodes them, in
365 domains; ERM and five levels are fitted exactly, to the last digits. LogisticRegression runs
with its defaults (only max_iter is raised, or it would stop early) on the same matrix. They take
turns. Also shown, and without a bound: the same with every column scaled to spread 1, where
scikit-learn's L-BFGS has the fewest steps to take.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.linear_model import LogisticRegression
from tables import aligned, busy_warning, machine, write_json

import eqrm
from eqrm.data.datasets.tables import load_flights
from eqrm.data.tables.encoder import TableEncoder

LEVELS = [None, 0.5, 0.75, 0.9, 0.95, 0.99]
LONGEST, LARGEST_RATIO = 20.0, 2.0


def timed(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, and the wall-clock and processor time it took, in seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = action()
    return found, time.perf_counter() - wall, time.process_time() - processor


def measure(
    X: Any, y: Any, days: Any, rounds: int, others: dict[str, Callable[[], Any]]
) -> dict[str, dict[str, float]]:
    """Median seconds of six levels, and of six fits of each of the others, in turns."""
    competitors: dict[str, Callable[[], Any]] = {
        "QRMClassifier, 6 levels": lambda: eqrm.QRMClassifier().fit_levels(LEVELS, X, y, days),
        **{
            name: (lambda make=make: [make().fit(X, y) for _ in LEVELS])  # type: ignore[misc]
            for name, make in others.items()
        },
    }
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in competitors}
    for _ in range(rounds):
        for name, action in competitors.items():
            _, wall, processor = timed(action)
            samples[name].append((wall, processor))
    return {
        name: {
            "seconds": statistics.median(wall for wall, _ in both),
            "processor_seconds": statistics.median(cpu for _, cpu in both),
        }
        for name, both in samples.items()
    }


def shown(title: str, found: dict[str, dict[str, float]]) -> str:
    """The table of one matrix, ratios to our own time."""
    own = next(iter(found.values()))
    rows = [
        [
            name,
            f"{each['seconds']:.2f}",
            f"{each['processor_seconds']:.2f}",
            f"{own['seconds'] / each['seconds']:.2f}",
            f"{own['processor_seconds'] / each['processor_seconds']:.2f}",
        ]
        for name, each in found.items()
    ]
    header = [title, "seconds", "processor s", "ours / this", "processor"]
    return aligned(header, rows)


def main(arguments: list[str]) -> int:
    """Measure; 1 if a promise is broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round instead of three")
    parser.add_argument("--json", type=Path, default=Path("bench-output/estimator_speed.json"))
    given = parser.parse_args(arguments)
    print(busy_warning())
    flights = load_flights()
    X = TableEncoder.fit(flights.columns).transform(flights.columns)
    y, days = flights.target, flights.domains
    rounds = 1 if given.quick else 3
    lbfgs = "LogisticRegression x 6"
    plain = measure(X, y, days, rounds, {lbfgs: lambda: LogisticRegression(max_iter=10_000)})
    print(shown(f"{len(y):,} rows x {X.shape[1]}", plain))
    ours, theirs = plain.values()
    ratio = ours["seconds"] / theirs["seconds"]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    others = {lbfgs: lambda: LogisticRegression(max_iter=10_000)}
    standardised = measure(scaled, y, days, 1, others)
    print(shown("columns of spread 1", standardised))
    passed = ours["seconds"] <= LONGEST and ratio <= LARGEST_RATIO
    print(
        f"6 levels in {ours['seconds']:.1f} s (at most {LONGEST:g}), {ratio:.2f} times "
        f"6 fits of LogisticRegression (at most {LARGEST_RATIO:g}): {'pass' if passed else 'FAIL'}"
    )
    content = {"passed": passed, "ratio": ratio, "plain": plain, "standardised": standardised}
    write_json(given.json, {**content, "rows": len(y), "machine": machine()})
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
