"""QRMClassifier at six levels against six fits of scikit-learn's LogisticRegression.

    python benchmarks/estimator_speed.py [--quick]

The rows are all 327,346 flights of ``eqrm.data.load_flights()`` as ``eqrm train`` encodes them, in
365 domains; ERM and five levels are fitted exactly, to the last digits. LogisticRegression runs
with its defaults (only max_iter is raised, or it would stop early) on the same matrix. They take
turns. Also shown, and without a bound: the same with every column scaled to spread 1, where
scikit-learn's L-BFGS has the fewest steps to take.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

from sklearn.linear_model import LogisticRegression
from tables import aligned, begun
from timing import timed

import eqrm
from eqrm.data.datasets.tables import load_flights
from eqrm.data.tables.encoder import TableEncoder

LEVELS = [None, 0.5, 0.75, 0.9, 0.95, 0.99]
LONGEST, LARGEST_RATIO = 20.0, 2.0


def measure(X: Any, y: Any, days: Any, rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds of six levels, and of six fits of LogisticRegression, in turns."""
    competitors: dict[str, Callable[[], Any]] = {
        "QRMClassifier, 6 levels": lambda: eqrm.QRMClassifier().fit_levels(LEVELS, X, y, days),
        "LogisticRegression x 6": lambda: [
            LogisticRegression(max_iter=10_000).fit(X, y) for _ in LEVELS
        ],
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
    rounds = 1 if begun(arguments, __doc__, "one round instead of three") else 3
    flights = load_flights()
    X = TableEncoder.fit(flights.columns).transform(flights.columns)
    y, days = flights.target, flights.domains
    plain = measure(X, y, days, rounds)
    print(shown(f"{len(y):,} rows x {X.shape[1]}", plain))
    ours, theirs = plain.values()
    ratio = ours["seconds"] / theirs["seconds"]
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    print(shown("columns of spread 1", measure(scaled, y, days, 1)))
    passed = ours["seconds"] <= LONGEST and ratio <= LARGEST_RATIO
    print(
        f"6 levels on {len(y):,} rows in {ours['seconds']:.1f} s (at most {LONGEST:g}), "
        f"{ours['processor_seconds']:.1f} s of processor time; {ratio:.2f} times 6 fits of "
        f"LogisticRegression (at most {LARGEST_RATIO:g}): {'pass' if passed else 'FAIL'}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
