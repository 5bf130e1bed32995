"""Does training for a level help on the coloured digits, or was the demo's draw a lucky one?

    PYTHONPATH=. python benchmarks/coloured_digits.py [--number 10] [--json FILE]

Two tables: ten random halves of the demo's own table, and ten tables with other seeds (other
digits per source, other colours), each with another half held out. Predictors are compared by the
0.9-quantile of the log-loss over the 30 sources held out, paired, with ERM recalibrated for the
level, which is the best of the references here. docs/coloured-digits.md shows what is printed.
Splits of one table share sources: their intervals are corrected for that (studies.split_interval).
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from studies.split_interval import SplitInterval
from tables import aligned, machine, write_json

from eqrm.data import Table, coloured_digits
from eqrm.evaluation.inference.resampling import smooth_quantile
from eqrm.level import Level
from eqrm.tabular.comparison import compare_training
from eqrm.tabular.plan import TrainingPlan
from eqrm.tabular.references import trained_name
from eqrm.tabular.training import train_on_table

LEVEL = Level(0.9)
RECALIBRATED = "ERM recalibrated for 0.9"
CHOSEN = "surrogate chosen"
TRAINED = {
    "EQRM at 0.9": TrainingPlan.of([LEVEL], surrogate="none"),
    "superquantile at 0.9": TrainingPlan.of([LEVEL], measure="superquantile"),
    "worst": TrainingPlan.of(measure="worst"),
    CHOSEN: TrainingPlan.of([LEVEL]),
}
REFERENCES = ("base rate", "equal odds", "ERM", RECALIBRATED)


@dataclass(frozen=True)
class Outcome:
    """Mean risk and 0.9-quantile (draws, 2) of each predictor, and the verdicts."""

    what: str
    test_to_train: float
    """Sources held out per source trained on, where draws are splits of one table; else 0."""
    risks: dict[str, NDArray[np.float64]]
    verdicts: Counter[str]
    misleading: list[int]
    """(draws,) of the 12 sources with a reversed colour, how many were trained on."""

    def change(self, name: str) -> NDArray[np.float64]:
        """(draws,) the quantile against that of recalibrated ERM."""
        found: NDArray[np.float64] = self.risks[name][:, 1] / self.risks[RECALIBRATED][:, 1] - 1.0
        return found

    def line(self, name: str) -> list[str]:
        """Averages over draws, and in how many of them the quantile is lower."""
        mean, quantile = self.risks[name].mean(axis=0)
        change = self.change(name)
        told = ["", "", ""]
        if name != RECALIBRATED:
            told = [str(SplitInterval.of(change, self.test_to_train)), f"{np.median(change):+.1%}"]
            told.append(f"{np.sum(change < 0)} of {len(change)}")
        return [name, f"{mean:.3f}", f"{quantile:.3f}", *told]


def measured(what: str, tables: list[Table], test_to_train: float) -> Outcome:
    """Train on half of the sources of each table, and evaluate on the others."""
    risks: dict[str, list[tuple[float, float]]] = {}
    verdicts: Counter[str] = Counter()
    misleading = []
    for seed, table in enumerate(tables):
        misleading.append(number_misleading(table.split(0.5, seed)[0]))
        for name, plan in TRAINED.items():
            training = train_on_table(*table.split(0.5, seed), plan)
            own = trained_name(training.levels[-1])
            kept = {name: own} | ({r: r for r in REFERENCES} if name == CHOSEN else {})
            for called, predictor in kept.items():
                found = training.evaluation[predictor].risks
                pair = float(found.mean()), smooth_quantile(found, LEVEL)
                risks.setdefault(called, []).append(pair)
        verdict = compare_training(training).results[0].verdict
        verdicts["none" if verdict is None else verdict.kind] += 1
    both = {name: np.array(risks[name]) for name in (*REFERENCES, *TRAINED)}
    return Outcome(what, test_to_train, both, verdicts, misleading)


def number_misleading(table: Table) -> int:
    """In how many sources the colour is mostly the opposite of the label."""
    agrees = table.columns["colour"] == table.target
    return sum(bool(agrees[table.domains == name].mean() < 0.5) for name in table.domain_names)


def described(outcome: Outcome) -> str:
    """The table, and how often each verdict was printed."""
    header = ["predictor", "mean", "q(0.9)", "against recalibrated", "median", "lower in"]
    verdicts = ", ".join(f"{kind} {count}" for kind, count in outcome.verdicts.most_common())
    return "\n".join(
        [
            f"{outcome.what}:",
            aligned(header, [outcome.line(name) for name in outcome.risks]),
            f"Verdicts: {verdicts}. Misleading sources among those trained on: "
            f"{', '.join(map(str, sorted(outcome.misleading)))}.",
        ]
    )


def main() -> None:
    """Measure both, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=10)
    parser.add_argument("--json", type=Path, default=Path("bench-output/coloured_digits.json"))
    options = parser.parse_args()
    start, number = time.process_time(), options.number
    found = [
        measured(f"{number} splits of the demo's table", [coloured_digits()] * number, 1.0),
        measured(
            f"{number} tables with other seeds",
            [coloured_digits(seed=seed) for seed in range(1, number + 1)],
            0.0,
        ),
    ]
    print("\n\n".join(described(outcome) for outcome in found))
    seconds = time.process_time() - start
    print(f"\n± is a 95% interval over draws, in percentage points. {seconds:.0f} s of CPU time.")
    content = {
        "machine": machine(),
        "seconds": seconds,
        "risks": {o.what: {k: v.tolist() for k, v in o.risks.items()} for o in found},
        "verdicts": {o.what: dict(o.verdicts) for o in found},
    }
    write_json(options.json, content)


if __name__ == "__main__":
    main()
