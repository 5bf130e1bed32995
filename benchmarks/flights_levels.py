"""Does each level win its own column on days it never saw? Ten random splits of the flights.

    PYTHONPATH=. python benchmarks/flights_levels.py [--splits 10] [--json FILE]

Half of the days train ERM and five levels, the other half test them, with schedule features
alone and with the weather added. It prints the risks averaged over splits, whether each
level is best in its own column or ties (paired over splits), and the change of the .9-quantile
against ERM, with 95% intervals that allow for splits that overlap (studies.split_interval). The
tables of docs/flights.md are printed here.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from studies.split_interval import SplitInterval
from tables import aligned, machine, write_json

from eqrm import QRMClassifier, RiskRobustnessPath
from eqrm.data import Table, load_flights

LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99)
COLUMNS = ("mean", *(str(level) for level in LEVELS), "1")
ROWS = ("ERM", *(f"α = {level}" for level in LEVELS))
NEEDED = {"schedule": 0.10, "schedule and weather": 0.03}
"""By how much the .9-quantile must fall against ERM, on average over splits."""


@dataclass(frozen=True)
class Outcome:
    """Risks (splits, rows, columns) on unseen days with one set of features."""

    features: str
    risks: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """(rows, columns) averaged over splits."""
        return self.risks.mean(axis=0)

    def behind(self, level: float) -> tuple[float, float]:
        """How far a level is behind the best of its column, and half of its 95% interval.

        Paired over splits; both are 0 where the level itself is the best.
        """
        column = COLUMNS.index(str(level))
        own = ROWS.index(f"α = {level}")
        best = int(self.mean[:, column].argmin())
        gaps = self.risks[:, own, column] - self.risks[:, best, column]
        found = SplitInterval.of(gaps, test_to_train=1.0)
        return found.mean, found.half

    def change(self, column: str) -> NDArray[np.float64]:
        """(splits,) the change of a column when the level .9 is trained for instead of ERM."""
        place = COLUMNS.index(column)
        own = self.risks[:, ROWS.index("α = 0.9"), place]
        found: NDArray[np.float64] = own / self.risks[:, 0, place] - 1.0
        return found

    @property
    def holds(self) -> bool:
        """Every level best or tied in its own column, and the .9-quantile low enough."""
        tied = all(gap <= half for gap, half in map(self.behind, LEVELS))
        return tied and -float(self.change("0.9").mean()) >= NEEDED[self.features]


def measure(splits: int) -> list[Outcome]:
    """Train and judge on every split, with a bar."""
    found = []
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("training", total=2 * splits)
        for features in NEEDED:
            flights = load_flights(weather="weather" in features)
            risks = []
            for seed in range(splits):
                risks.append(risks_of(*flights.split(0.5, seed)))
                bar.advance(task)
            found.append(Outcome(features, np.array(risks)))
    return found


def risks_of(train: Table, unseen: Table) -> NDArray[np.float64]:
    """(rows, columns) of ERM and every level, trained on one half of the days, on the other."""
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["hour", "carrier", "origin"]),
        remainder="passthrough",
    )
    path = RiskRobustnessPath(make_pipeline(encode, QRMClassifier()), [None, *LEVELS])
    found = path.fit(*train.X_y_groups(), held_out=unseen.X_y_groups()).frontier_.judged
    return np.column_stack([found.means, found.quantiles, found.risks.max(axis=1)])


def described(outcome: Outcome) -> str:
    """The table of means, and what the benchmark asks of it."""
    mean, best = outcome.mean, outcome.mean.min(axis=0)
    lines = [
        [name, *(f"{v:.3f}{'*' if v == b else ' '}" for v, b in zip(row, best, strict=True))]
        for name, row in zip(ROWS, mean, strict=True)
    ]
    change, price = outcome.change("0.9"), outcome.change("mean")
    sentences = []
    for level in LEVELS:
        gap, half = outcome.behind(level)
        if gap > 0.0:
            word = "a tie" if gap <= half else "NOT a tie"
            sentences.append(f"α = {level} is {gap:.4f} ± {half:.4f} behind in its column: {word}.")
    sentences = sentences or ["Every level is best in its own column."]
    return "\n".join(
        [
            f"Features: {outcome.features}. Mean over {len(change)} splits (* = lowest):",
            aligned(["trained for", *(f"{name} " for name in COLUMNS)], lines),
            *sentences,
            f"The .9-quantile changes by {SplitInterval.of(change, 1.0)} (95%) against ERM "
            f"({change.min():+.1%} to {change.max():+.1%} in single splits; needed: at most "
            f"{-NEEDED[outcome.features]:+.0%}), the mean risk by {price.mean():+.1%}.",
        ]
    )


def main() -> None:
    """Measure, print, and fail if a level loses its column."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--json", type=Path, default=Path("bench-output/flights_levels.json"))
    options = parser.parse_args()
    start = time.perf_counter()
    found = measure(options.splits)
    print("\n\n".join(described(outcome) for outcome in found))
    seconds = time.perf_counter() - start
    print(f"\n{2 * options.splits} splits × {len(ROWS)} models in {seconds:.0f} s")
    content = {
        "machine": machine(),
        "seconds": seconds,
        "columns": COLUMNS,
        "rows": ROWS,
        "outcomes": {each.features: each.risks.tolist() for each in found},
        "changes": {each.features: each.change("0.9").tolist() for each in found},
        "behind": {each.features: [each.behind(level) for level in LEVELS] for each in found},
        "holds": {each.features: each.holds for each in found},
    }
    write_json(options.json, content)
    if not all(outcome.holds for outcome in found):
        sys.exit("A level loses its own column, or the .9-quantile falls by too little.")


if __name__ == "__main__":
    main()
